# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns what the nodes in the inventory cost, without a request to AWS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ._output.prices import Price, of_run
from .inventory_nodes import node_table


def price_of_nodes(variables: Mapping[str, Any], known: Price | None = None) -> Price | None:
    """Return a price with the price of the nodes, or None if it is not known or the user wants no prices.

    If no price is `known` and the run has not provisioned the cluster, the prices are those that another run has kept, or published ones,
    without volumes.
    """
    nodes = node_table(variables)
    if not nodes or not boolean(variables.get("deeplearning_prices", True), strict=False):
        return None
    # Only nodes of AWS need these, which import the SDK
    from ..module_utils._aws.node_services import DEFAULT, NODE_SERVICES, charges_of
    from ..module_utils._aws.pricing.estimate import Estimate, Place

    charges = charges_of(NODE_SERVICES[variables.get("deeplearning_node_service", DEFAULT)], nodes.values())
    return known or of_run(variables) or Estimate(Place(variables["deeplearning_region"]), (), charges).describe()
