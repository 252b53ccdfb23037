# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""All services that launch the nodes of clusters, keyed by the values of the inventory's option `node_service`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Mapping

from .emr.nodes import EMR_NODES
from .node_group.node_service import AUTO_SCALING
from .node_service import NodeService
from .plan.resources import Address
from .pricing.charges import Charge, Product

DEFAULT = "auto_scaling"
NODE_SERVICES: dict[str, NodeService] = {DEFAULT: AUTO_SCALING, "emr": EMR_NODES}
# The argument spec of the `node_service` option in modules.
ARGUMENT = {"type": "str", "choices": list(NODE_SERVICES), "default": DEFAULT}


def charges_of(service: NodeService, nodes: Iterable[Mapping[str, Any]]) -> list[Charge]:
    """Return what AWS charges for running nodes by the hour, without volumes of nodes that Auto Scaling launches."""
    used = defaultdict[tuple[Address, Product], float](float)
    for node in nodes:
        for product, quantity in service.products(node):
            used[Address("auto_scaling_group", node["group"]), product] += quantity
    return [Charge(*key, quantity) for key, quantity in used.items()]
