# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The interface between components (network, file system, instance role, nodes) and the modules that provision them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .client import AwsClient
from .iam_actions import IamActions
from .plan.planning import Change, Kind
from .plan.resources import Address, Computed, Found, Wanted
from .pricing.charges import Charge, Resources


@dataclass(frozen=True)
class Alternative:
    """One candidate of the capacity policy: a combination of launch options.

    All nodes use the same candidate, because a job runs at the speed of its slowest host.
    """

    instance_type: str
    zones: tuple[str, ...]
    market: str = "on-demand"
    spot_max_price: str | None = None
    capacity_reservation: str | None = None

    def __str__(self) -> str:
        paid = f"{self.market} {self.capacity_reservation}" if self.capacity_reservation else self.market
        return f"{self.instance_type} in {', '.join(self.zones)} ({paid})"


@dataclass(frozen=True)
class Request:
    """The parameters of a run and its connection to AWS.

    `options` contains the parameters. A run that manages only some components does not have the options of the others. `components`
    contains the names of the components that the run manages. The run reads all other components but does not change them.
    """

    cloud: AwsClient
    options: Mapping[str, Any]
    components: frozenset[str] = frozenset()
    # The candidate for this attempt, or None if the module does not manage nodes.
    chosen: Alternative | None = None
    # IDs of scaling activities from earlier attempts.
    past_activities: frozenset[str] = frozenset()
    # All storage components, whether or not this module manages them. The network allows traffic between their servers and the nodes.
    storage: tuple[Component, ...] = ()
    # The options of what may end the nodes and could not be read, because this is not allowed.
    unread: set[str] = field(default_factory=set)

    @property
    def present(self) -> bool:
        return self.options.get("state") == "present"

    @property
    def alternative(self) -> Alternative:
        """Return the candidate for this attempt. Raises ValueError if the module does not manage nodes."""
        if self.chosen is None:
            raise ValueError("no alternative was chosen")
        return self.chosen

    def manages(self, component: str) -> bool:
        return component in self.components

    def tags(self, component: str) -> Callable[[Address], dict[str, str]]:
        """Return a function that returns the tags for the `Address` of a resource in the component."""
        cluster = self.cloud.cluster

        def tags(address: Address) -> dict[str, str]:
            return self.cloud.tags(component, address.key, cluster if address.key == "main" else f"{cluster}-{address.key}")

        return tags


@dataclass(frozen=True)
class Server:
    """An adopted storage server: a resource with the property `security_groups`, and the option that adopts it."""

    found: Found
    option: str
    # Protocol, first port and last port.
    ports: tuple[str, int, int]


@dataclass(frozen=True)
class Mount:
    """Storage that all nodes mount, as described by the storage component.

    The `nodes` component receives no other information about storage.
    """

    # A kind from `_common/shared_storage/mounts.py`. The kind determines the client and the ports.
    kind: str
    mount_point: str
    # The option that sets the mount point.
    option: str
    # The node tags that describe this storage. The values of the tags may be references.
    tags: Mapping[str, Any]
    # The `Mount` (from `mounts.py`) for the hosts. It is computed as soon as the storage IDs are known.
    entry: Computed
    # Whether this storage can hold job files. All nodes can write to such storage.
    holds_jobs: bool = True
    # The IAM policy statements that the nodes' role needs for this mount.
    statements: tuple[Mapping[str, Any], ...] = ()
    # Adopted servers, which must allow traffic from the nodes.
    servers: tuple[Server, ...] = ()


@dataclass(frozen=True)
class Component:
    """A part of the cluster that a module manages as a whole, such as the network, a file system or the nodes.

    `read(request, found)` returns the existing resources of the component. For `read`, `found` contains the resources of the components in
    `reads_after`.
    `wanted(request, found)` returns the desired resources.
    `keeps(request, found)` returns whether the resource `found` is kept even though it is not desired.
    `refuse(request, plan, found)` raises ClusterError for a harmful plan.
    `predict(request, plan, found)` returns `found` with the effects of the plan, such as outdated nodes after a template change.
    `mounts(request, found)` returns the mounts that the component provides to nodes.
    `server_rules(request, found, subnet_cidrs)` returns rules for traffic from the component's servers to their clients. A rule contains
    the protocol, the first port, the last port and the address range.
    `charges(resources, zones)` returns what AWS charges for the component's resources by the hour.
    `iam_actions` contains the IAM actions that these functions need. `data_kinds` contains the names of the kinds that hold data. By
    default, data is kept. `billed` contains the kinds whose resources AWS bills even if nothing uses them, and maps each kind to its name
    in messages.
    """

    name: str
    kinds: tuple[Kind, ...]
    iam_actions: IamActions
    read: Callable[[Request, Sequence[Found]], list[Found]]
    wanted: Callable[[Request, Sequence[Found]], Iterable[Wanted]]
    keeps: Callable[[Request, Found], bool] = lambda request, item: False
    refuse: Callable[[Request, Sequence[Change], Sequence[Found]], None] = lambda request, plan, found: None
    predict: Callable[[Request, Sequence[Change], Sequence[Found]], list[Found]] = lambda request, plan, found: list(found)
    mounts: Callable[[Request, Sequence[Found]], list[Mount]] = lambda request, found: []
    server_rules: Callable[[Request, Sequence[Found], Mapping[str, str]], Iterable[tuple[str, int, int, str]]] = (
        lambda request, found, subnet_cidrs: ()
    )
    charges: Callable[[Resources, Collection[str]], Iterable[Charge]] = lambda resources, zones: ()
    reads_after: tuple[str, ...] = ()
    data_kinds: frozenset[str] = frozenset()
    billed: Mapping[str, str] = field(default_factory=dict)
