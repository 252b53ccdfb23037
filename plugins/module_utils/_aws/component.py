# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What every component (network, file system, instance role, nodes) offers to the modules that provision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import AwsClient
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.iam_actions import IamActions
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Change, Kind
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Computed, Found, Wanted


@dataclass(frozen=True)
class Alternative:
    """One way to get all nodes, which are equal because a job goes at the pace of its slowest host."""

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
    """What a module was asked to do, and the account to do it in.

    C(options) are the module's parameters: a module of one component lacks those of the others. C(components) are the names
    of the components that the module manages; everything else it only reads.
    """

    cloud: AwsClient
    options: Mapping[str, Any]
    components: frozenset[str] = frozenset()
    chosen: Alternative | None = None
    """The nodes that this attempt is for; none when the module is not about nodes."""
    past_activities: frozenset[str] = frozenset()
    """Ids of the scaling activities of earlier attempts."""
    storage: tuple[Component, ...] = ()
    """All components of storage, managed or not: the network lets their servers and the nodes reach each other."""

    @property
    def present(self) -> bool:
        return self.options.get("state") == "present"

    @property
    def alternative(self) -> Alternative:
        """The nodes that this attempt is for. Raises ValueError when it is not about nodes."""
        if self.chosen is None:
            raise ValueError("no alternative was chosen")
        return self.chosen

    def manages(self, component: str) -> bool:
        return component in self.components

    def tags(self, component: str) -> Callable[[Address], dict[str, str]]:
        """The tags of a component's resources by their address."""
        cluster = self.cloud.cluster

        def tags(address: Address) -> dict[str, str]:
            return self.cloud.tags(component, address.key, cluster if address.key == "main" else f"{cluster}-{address.key}")

        return tags


@dataclass(frozen=True)
class Server:
    """What serves a mount: a resource with the property C(security_groups), and the option that adopts it."""

    found: Found
    option: str
    ports: tuple[str, int, int]
    """Protocol, first and last port."""


@dataclass(frozen=True)
class Mount:
    """Storage that all nodes mount, as a component of storage describes it. Nodes know no more of any kind than this."""

    kind: str
    """One of the kinds that hosts know, in _hosts/shared_storage/mounts.py, which has the client and the ports."""
    mount_point: str
    option: str
    """The option that says where it is mounted."""
    tags: Mapping[str, Any]
    """What the tags of nodes tell of it. Values may be references."""
    entry: Computed
    """What hosts mount: a C(Mount) of that file, with source and options, once the ids in it are known."""
    holds_jobs: bool = True
    """Whether jobs can be on it: all nodes can write there."""
    statements: tuple[Mapping[str, Any], ...] = ()
    """What the policy of the nodes' role says for it."""
    servers: tuple[Server, ...] = ()
    """Adopted servers, which have to let the nodes in."""


def _never(_request: Request, _found: Found) -> bool:
    return False


def _as_they_are(_request: Request, _plan: Sequence[Change], found: Sequence[Found]) -> list[Found]:
    return list(found)


def _nothing(_request: Request, _plan: Sequence[Change], _found: Sequence[Found]) -> None:
    return None


def _no_mounts(_request: Request, _found: Sequence[Found]) -> list[Mount]:
    return []


def _no_rules(_request: Request, _found: Sequence[Found], _subnet_cidrs: Mapping[str, str]) -> list[tuple[str, int, int, str]]:
    return []


@dataclass(frozen=True)
class Component:
    """What a module manages as a whole: a network, a file system, the nodes.

    C(read(request, found)) returns what exists of it, given what was found of the components that C(reads_after) names.
    C(wanted(request, found)) describes what should be. C(keeps(request, found)) tells of a resource that is not wanted whether it stays
    all the same.
    C(refuse(request, plan, found)) raises ClusterError for a plan that would do harm. C(foresee(request, plan, found)) returns what was
    found with what the plan makes of it elsewhere: nodes are outdated as soon as their template changes.
    C(mounts(request, found)) returns what nodes mount of it. C(server_rules(request, found, subnet_cidrs)) returns what its servers need
    besides: the protocol, the first and the last port, and the address range of servers that connect to their clients, too.
    C(iam_actions) are the permissions that all of this needs. C(data_kinds) are those of C(kinds) that hold data, which stays by default.
    C(billed) are those that AWS bills as long as they are there, used or not, in words.
    """

    name: str
    kinds: tuple[Kind, ...]
    iam_actions: IamActions
    read: Callable[[Request, Sequence[Found]], list[Found]]
    wanted: Callable[[Request, Sequence[Found]], Iterable[Wanted]]
    keeps: Callable[[Request, Found], bool] = _never
    refuse: Callable[[Request, Sequence[Change], Sequence[Found]], None] = _nothing
    foresee: Callable[[Request, Sequence[Change], Sequence[Found]], list[Found]] = _as_they_are
    mounts: Callable[[Request, Sequence[Found]], list[Mount]] = _no_mounts
    server_rules: Callable[[Request, Sequence[Found], Mapping[str, str]], Iterable[tuple[str, int, int, str]]] = _no_rules
    reads_after: tuple[str, ...] = ()
    data_kinds: frozenset[str] = frozenset()
    billed: Mapping[str, str] = field(default_factory=dict)
