# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""All services that launch the nodes of clusters, keyed by the values of the inventory's option `node_service`."""

from __future__ import annotations

from .emr.nodes import EMR_NODES
from .node_group.node_service import AUTO_SCALING
from .node_service import NodeService

DEFAULT = "auto_scaling"
NODE_SERVICES: dict[str, NodeService] = {DEFAULT: AUTO_SCALING, "emr": EMR_NODES}
# The argument spec of the `node_service` option in modules.
ARGUMENT = {"type": "str", "choices": list(NODE_SERVICES), "default": DEFAULT}
