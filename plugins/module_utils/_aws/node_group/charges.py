# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What AWS charges for nodes: instances, root volumes and public addresses. Performs no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..network.charges import PUBLIC_IPV4
from ..node_names import NODE_TYPES
from ..pricing.charges import Charge, Resources
from ..pricing.instance_products import of_market
from ..pricing.volumes import products
from .definition import MASTER_ADDRESS, auto_scaling_group, launch_template


def charges(resources: Resources, zones: Collection[str]) -> Iterator[Charge]:
    """Yield the charges for the nodes of both groups, at the size that each group has. `zones` contains the zones of Spot Instances."""
    for group in NODE_TYPES:
        address = auto_scaling_group(group)
        if address in resources and launch_template(group) in resources:
            count = int(resources[address].properties["size"])
            template = resources[launch_template(group)].properties
            yield Charge(address, of_market(template["instance_type"], template["market"], zones), count)
            volume = (template[f"root_volume_{name}"] for name in ("type", "size", "iops", "throughput"))
            for product, quantity in products(*volume):
                yield Charge(address, product, count * (quantity or 0))
            if template["public_address"]:
                yield Charge(address, PUBLIC_IPV4, count)
    if MASTER_ADDRESS in resources:
        yield Charge(MASTER_ADDRESS, PUBLIC_IPV4, 1)
