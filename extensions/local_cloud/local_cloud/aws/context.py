"""The state that the local cloud keeps in addition to moto's state. All overrides share this state."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any

from moto.ec2.models import ec2_backends

from ..host_interface import HostInterface, NoHosts
from .capacity import Capacity
from .clock import Clock
from .settings import Settings

if TYPE_CHECKING:
    from .ec2.instance_lifecycle import InstanceLifecycle

# The account that moto uses for all requests.
ACCOUNT = "123456789012"
KEPT_DECISIONS = 100_000
KEPT_INVOCATIONS = 1000


class CloudState:
    """State that moto does not keep. Code that reads or writes this state or moto's state must hold `lock`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.endpoint = ""
        """The URL of the API, which a server sets."""
        self.use(NoHosts(), Settings())

    def use(self, hosts: HostInterface, settings: Settings) -> None:
        """Reset the state. moto keeps its state in globals, so a process has one local cloud."""
        self.hosts = hosts
        self.settings = settings
        self.delays = settings.delays
        self.capacity = Capacity()
        self.spot_prices: dict[str, float] = {}
        self.quotas: dict[str, float] = {}
        self.failing_launches: Counter[str] = Counter()
        self.monitored_by_guardduty = False
        self.reads_stale_parameters = False
        self.unread_parameters: set[str] = set()
        """Names of parameters that have changed since the last read. The next read returns the state before the last change."""
        self.lookup_rate: float | None = None
        """The number of look-ups in the event history that are allowed per second, or None for any number."""
        self.lookups: list[float] = []
        """The times of recent look-ups."""
        self.clock = Clock()
        self.latest_public = 0
        self.tagged_at: dict[str, float] = {}
        """When each EC2 resource got its first tags, by resource ID."""
        self.service_roles: set[str] = set()
        """Service principals whose service-linked roles exist."""
        self.decisions: deque[dict[str, Any]] = deque(maxlen=KEPT_DECISIONS)
        """Authorization decisions for requests from users and roles."""
        self.wake = threading.Event()
        self.invocations: deque[Any] = deque()
        """Occurrences of schedules whose calls are due, and asynchronous invocations of functions that are due."""
        self.function_invocations: deque[dict[str, Any]] = deque(maxlen=KEPT_INVOCATIONS)
        """Invocations of functions that have ended."""
        self.invoke = threading.Event()
        self.lifecycle: InstanceLifecycle

    def now(self) -> float:
        """Return the time that AWS shows in its answers, in seconds since the epoch."""
        return self.clock.now() - self.delays.clock_lag

    def utcnow(self) -> datetime:
        """Return the time that AWS shows in its answers, in UTC and without a time zone, as moto keeps dates."""
        return datetime.fromtimestamp(self.now(), UTC).replace(tzinfo=None)

    def age(self, created: float) -> float:
        """Return the age in seconds of a resource. A resource from a future that a reset of the clock has undone is old."""
        age = self.now() - created
        return age if age >= 0 else inf


CLOUD = CloudState()
# Whether AWS leaves out the tags in the answer to the present request, because its caller may not list them
WITHOUT_TAGS: ContextVar[bool] = ContextVar("WITHOUT_TAGS", default=False)


def ec2_regions() -> Iterator[Any]:
    """Yield the EC2 backend of every account and region in use."""
    for _account, _region, backend in list(ec2_backends.iter_backends()):
        yield backend


def instances() -> Iterator[Any]:
    """Yield all instances in the local cloud, including terminated ones."""
    for backend in ec2_regions():
        for reservation in backend.reservations.values():
            yield from reservation.instances
