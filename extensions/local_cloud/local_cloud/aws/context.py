"""The one cloud of this process, as the patched parts of moto see it."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moto.ec2.models import ec2_backends

from ..host_interface import HostInterface, NoHosts
from .capacity import Capacity
from .clock import Clock
from .settings import Settings

if TYPE_CHECKING:
    from .ec2.instance_lifecycle import InstanceLifecycle

ACCOUNT = "123456789012"
"""The account that moto takes requests to come from."""


KEPT_DECISIONS = 100_000


class CloudState:
    """State beside moto's own. Everything in it and in moto is read and written under `lock`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.use(NoHosts(), Settings())

    def use(self, hosts: HostInterface, settings: Settings) -> None:
        """Begin anew with this hosts and these settings. moto keeps its state in globals, hence one cloud per process."""
        self.hosts = hosts
        self.settings = settings
        self.delays = settings.delays
        self.capacity = Capacity()
        self.spot_prices: dict[str, float] = {}
        self.quotas: dict[str, float] = {}
        self.failing_launches: Counter[str] = Counter()
        self.clock = Clock()
        self.latest_public = 0
        self.service_roles: set[str] = set()
        """Principals whose service-linked roles exist."""
        self.decisions: deque[dict[str, Any]] = deque(maxlen=KEPT_DECISIONS)
        """What was decided about requests of users and roles."""
        self.wake = threading.Event()
        self.lifecycle: InstanceLifecycle


CLOUD = CloudState()


def ec2_regions() -> Iterator[Any]:
    """The EC2 backend of every account and region in use."""
    for _account, _region, backend in list(ec2_backends.iter_backends()):
        yield backend


def instances() -> Iterator[Any]:
    """Every instance of the cloud, terminated ones too."""
    for backend in ec2_regions():
        for reservation in backend.reservations.values():
            yield from reservation.instances
