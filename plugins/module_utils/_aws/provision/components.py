# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""All components of a cluster, and the kinds of resources that they declare."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Component
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.component import EMR
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role.component import INSTANCE_ROLE
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.component import NETWORK
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.component import NODE_GROUP
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.registry import STORAGE

ALL_COMPONENTS = (NETWORK, *STORAGE, INSTANCE_ROLE, NODE_GROUP)
"""The components of the module `cluster`."""
KINDS = {kind.name: kind for component in (*ALL_COMPONENTS, EMR) for kind in component.kinds}
COMPONENT_OF_KIND = {kind.name: component for component in (*ALL_COMPONENTS, EMR) for kind in component.kinds}
DATA_KINDS = frozenset(kind for component in ALL_COMPONENTS for kind in component.data_kinds)
BILLED = {
    "elastic_ip": "Elastic IP address",
    "nat_gateway": "NAT gateway",
    "vpc_endpoint": "interface endpoint",
    **{kind: name for component in ALL_COMPONENTS for kind, name in component.billed.items()},
}
"""The names of the resource kinds that cost money as long as they exist, even if no node uses them."""


def components_to_read(managed: frozenset[str]) -> tuple[Component, ...]:
    """Return the components that a module reads, given the names of the components that it manages.

    The definition of an EMR cluster refers to other resources by id, so the module for EMR does not read the other components. Modules for
    other components do not need permissions for EMR.
    """
    return (EMR,) if EMR.name in managed else ALL_COMPONENTS
