"""How many instances of a type a zone can hold."""

from __future__ import annotations

from collections.abc import Iterable

MESSAGE = (
    "We currently do not have sufficient {type} capacity in the Availability Zone you requested ({zone}). "
    "Our system will be working on provisioning additional capacity. You can currently get {type} capacity by "
    "not specifying an Availability Zone in your request or choosing another Availability Zone."
)


class Capacity:
    """Limits per instance type and zone. What has no limit is unlimited; changing a limit touches no running instance."""

    def __init__(self) -> None:
        self._limits: dict[tuple[str, str], int] = {}

    def set(self, instance_type: str, zone: str, limit: int | None) -> None:
        """Let the zone hold this many live instances of the type; None for any number."""
        if limit is None:
            self._limits.pop((instance_type, zone), None)
        elif isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise ValueError(f"the capacity for {instance_type} in {zone} is {limit!r}, not a number from 0 up or null")
        else:
            self._limits[instance_type, zone] = limit

    def update(self, limits: dict[str, dict[str, int | None]]) -> None:
        """Set many limits: {type: {zone: limit}}."""
        for instance_type, zones in limits.items():
            for zone, limit in zones.items():
                self.set(instance_type, zone, limit)

    def clear(self) -> None:
        self._limits.clear()

    def as_dict(self) -> dict[str, dict[str, int]]:
        """The limits as {type: {zone: limit}}."""
        result: dict[str, dict[str, int]] = {}
        for (instance_type, zone), limit in sorted(self._limits.items()):
            result.setdefault(instance_type, {})[zone] = limit
        return result

    def has_room(self, instance_type: str, zone: str, count: int, live: Iterable[tuple[str, str]]) -> bool:
        """Whether the zone takes `count` more of the type, `live` being (type, zone) of every live instance."""
        limit = self._limits.get((instance_type, zone))
        return limit is None or sum(1 for each in live if each == (instance_type, zone)) + count <= limit
