"""What can be set about the AWS half, and how long slow things take."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field, replace

from ..credentials import Credentials


@dataclass(frozen=True)
class Delays:
    """Seconds that slow things take; 0 means at once."""

    nat_gateway: float = 1.0
    """From creation to available, and from deletion to deleted."""
    file_system: float = 0.5
    mount_target: float = 0.5
    file_system_policy: float = 0.2
    """Until a policy that was put is shown."""
    launch_retry: float = 5.0
    """Between two attempts of a group to launch what it could not launch."""
    health_check: float = 1.0
    """Between two looks at whether running hosts are still alive."""
    group_health_check: float = 0.2
    """Until a group notices that an instance of it does not run any more; on AWS minutes."""
    block_end: float = 1800.0
    """From the end of the instances in a Capacity Block to the end of the block."""
    forget: float = 600.0
    """How long terminated instances and deleted NAT gateways stay listed."""

    def changed(self, changes: dict[str, float]) -> Delays:
        """These delays with some of them changed. Raises ValueError for an unknown name or a bad value."""
        unknown = set(changes) - set(asdict(self))
        if unknown:
            raise ValueError(f"unknown delay {sorted(unknown)[0]!r}, known are {', '.join(asdict(self))}")
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 for value in changes.values()):
            raise ValueError("a delay is a number of seconds, at least 0")
        return replace(self, **changes)


@dataclass(frozen=True)
class Settings:
    """Settings of the AWS half."""

    public_prefix: str = "127.83.0.0/16"
    """Where public addresses come from: a part of 127.0.0.0/8, so that they never leave this machine."""
    tick: float = 0.1
    """Seconds between two rounds of what happens without a call: boots, health checks, groups."""
    delays: Delays = field(default_factory=Delays)
    administrator: Credentials = field(default_factory=Credentials)
    """Who may do everything: the account's root user."""
    control_token: str = field(default_factory=secrets.token_urlsafe, repr=False)
    """What who controls the cloud has to know."""
