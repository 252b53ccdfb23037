"""States of resources that take time to become available and to be deleted."""

from __future__ import annotations

from .context import CLOUD


class LifeCycle:
    """A resource that is `creating` at first, `updating` during an update, and `deleting` before it is removed."""

    life_cycle_state: str

    def start_creation(self, seconds: float) -> None:
        """Make the resource available after `seconds`."""
        self.life_cycle_state = "creating"
        CLOUD.clock.after(seconds, self.become_available)

    def start_update(self, seconds: float) -> None:
        """Start an update, and make the resource available again after `seconds`."""
        self.life_cycle_state = "updating"
        CLOUD.clock.after(seconds, self.become_available)

    def become_available(self) -> None:
        """Complete the creation or the update, unless the deletion of the resource has started."""
        if self.life_cycle_state in ("creating", "updating"):
            self.life_cycle_state = "available"

    def start_deletion(self, seconds: float) -> None:
        """Delete the resource after `seconds`. A second call has no effect."""
        if self.life_cycle_state != "deleting":
            self.life_cycle_state = "deleting"
            CLOUD.clock.after(seconds, self.finish_deletion)

    def finish_deletion(self) -> None:
        """Remove the resource."""
        raise NotImplementedError
