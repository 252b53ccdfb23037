"""Settings of the AWS API, and delays until changes are complete."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field, replace

from ..credentials import Credentials


@dataclass(frozen=True)
class Delays:
    """Durations of changes in seconds. 0 means that a change is immediate."""

    # Time from creation until the resource is available, and from the start of the deletion until the resource no longer exists.
    nat_gateway: float = 1.0
    file_system: float = 0.5
    mount_target: float = 0.5
    # Time that FSx works on one request to create, change or delete a data repository association.
    data_repository_association: float = 0.2
    # Time from a policy change until reads return the new policy.
    file_system_policy: float = 0.2
    # Time until EC2 and EMR see a new instance profile, and until EC2 applies the policies of a new EMR service role. On AWS, each takes up
    # to a minute.
    instance_profile: float = 0.1
    emr_service_role: float = 0.2
    # Time until EventBridge Scheduler can assume a new role, from the due time of a schedule to the call of its target, and until a change
    # to a schedule has an effect. On AWS, each takes up to a minute.
    scheduler_role: float = 0.2
    schedule_latency: float = 0.1
    schedule_change: float = 0.1
    # Time until Lambda can assume a new role, and until a new function, its code and its configuration take effect. On AWS, each takes
    # seconds.
    lambda_role: float = 0.2
    lambda_function: float = 0.2
    # Time from the start of the deletion of a schedule group until the group and its schedules no longer exist.
    schedule_group: float = 0.2
    # Time until policies are evaluated with the tags of a new resource. On AWS, this takes up to a minute.
    tag_visibility: float = 0.1
    # Time until the event history of CloudTrail contains an event. On AWS, this takes minutes, up to 15.
    trail: float = 0.2
    # The duration of a step of an EMR cluster and, without hosts, of the bootstrap actions of a node.
    emr_cluster: float = 0.5
    # Time between two attempts of a group to launch instances.
    launch_retry: float = 5.0
    # Time between two health checks of running hosts.
    health_check: float = 1.0
    # Time until a group detects that one of its instances is no longer running. On AWS, this takes minutes.
    group_health_check: float = 0.2
    # Time from the deletion of a group until its instances start to shut down. On AWS, this can take minutes.
    group_deletion: float = 0.0
    # Time from the termination of instances in a Capacity Block to the end of the block.
    block_end: float = 1800.0
    # Seconds by which AWS's clock is behind the clock of this machine.
    clock_lag: float = 0.0
    # Time until terminated instances and deleted NAT gateways are no longer listed.
    forget: float = 600.0

    def changed(self, changes: dict[str, float]) -> Delays:
        """Return a copy of these delays with the given values replaced. Raises `ValueError` for an unknown name or an invalid value."""
        unknown = set(changes) - set(asdict(self))
        if unknown:
            raise ValueError(f"Unknown delay {sorted(unknown)[0]!r}. Known delays: {', '.join(asdict(self))}.")
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 for value in changes.values()):
            raise ValueError("delays: a value is not a number of seconds of at least 0.")
        return replace(self, **changes)


@dataclass(frozen=True)
class Settings:
    """Settings of the AWS API."""

    # The range of public addresses: a part of 127.0.0.0/8, so that traffic to them never leaves this machine.
    public_prefix: str = "127.83.0.0/16"
    # Seconds between two iterations of the background thread, which polls hosts, runs delayed changes, and reconciles groups and
    # clusters.
    tick: float = 0.1
    delays: Delays = field(default_factory=Delays)
    # The access key of the account's root user, who has all permissions.
    administrator: Credentials = field(default_factory=Credentials)
    # The token of the control API.
    control_token: str = field(default_factory=secrets.token_urlsafe, repr=False)
