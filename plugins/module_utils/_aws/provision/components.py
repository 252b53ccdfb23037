# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The components of a cluster, and the kinds of resources that they declare."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..component import Component
from ..idle.component import NODES_IDLE
from ..instance_role.component import INSTANCE_ROLE
from ..lease.component import NODES_LEASE
from ..network.component import NETWORK
from ..network.definition import S3_ENDPOINT
from ..node_group.component import NODE_GROUP
from ..node_names import NODE_TYPES
from ..plan.planning import Kind
from ..plan.resources import Address
from ..pricing.charges import Charge, Resources
from ..storage.registry import STORAGE

# The components of the module `cluster`. Nodes that were idle have ended before the end of their lease, so that a run names this cause.
ALL_COMPONENTS = (NETWORK, *STORAGE, INSTANCE_ROLE, NODE_GROUP, NODES_IDLE, NODES_LEASE)
# The choices of the option `components`: the components that a run can manage without others, and the groups of nodes.
CHOICES = (NETWORK.name, *(each.name for each in STORAGE if each.data_kinds), INSTANCE_ROLE.name, *NODE_TYPES)
KINDS: dict[str, Kind] = {}
COMPONENT_OF_KIND: dict[str, Component] = {}
DATA_KINDS = frozenset(kind for component in ALL_COMPONENTS for kind in component.data_kinds)
# The names of resources that cost money even while no node uses them, keyed by resource kind.
BILLED = {
    "elastic_ip": "Elastic IP address",
    "nat_gateway": "NAT gateway",
    "vpc_endpoint": "interface endpoint",
    **{kind: name for component in ALL_COMPONENTS for kind, name in component.billed.items()},
}


def billed_name(address: Address) -> str:
    """Return the name of a resource that costs money even while no node uses it. Return an empty string for other resources."""
    return f"{BILLED[address.kind]} {address.key}" if address.kind in BILLED and address != S3_ENDPOINT else ""


def register(*components: Component) -> None:
    """Add the resource kinds of the components to `KINDS` and `COMPONENT_OF_KIND`.

    A module registers its own components if they are not in `ALL_COMPONENTS`. Other modules then do not import the code of these
    components, which Ansible would otherwise send with each module.
    """
    for component in components:
        KINDS.update({kind.name: kind for kind in component.kinds})
        COMPONENT_OF_KIND.update({kind.name: component for kind in component.kinds})


register(*ALL_COMPONENTS)


def is_chosen(component: Component, choices: Collection[str]) -> bool:
    """Return whether a run manages a component. It manages what is no choice, such as the lease, only together with all nodes."""
    if component.name in CHOICES:
        return component.name in choices
    groups = NODE_TYPES.keys() & choices
    return groups == NODE_TYPES.keys() or bool(groups and component == NODE_GROUP)


def charges(resources: Resources, zones: Collection[str]) -> Iterator[Charge]:
    for component in {each.name: each for each in COMPONENT_OF_KIND.values()}.values():
        yield from component.charges(resources, zones)


def components_to_read(managed: frozenset[str]) -> tuple[Component, ...]:
    """Return the components that a module reads, given the names of the components that it manages.

    The definition of an EMR cluster refers to other resources by ID, so the module for EMR does not read the other components. Other
    modules do not read the EMR component, so they need no permissions for EMR.
    """
    others = {each.name: each for each in COMPONENT_OF_KIND.values() if each.name in managed and each not in ALL_COMPONENTS}
    return tuple(others.values()) or ALL_COMPONENTS
