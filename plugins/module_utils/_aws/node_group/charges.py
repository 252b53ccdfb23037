# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What AWS charges for nodes: instances, root volumes and public addresses. Performs no I/O."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..network.charges import PUBLIC_IPV4
from ..node_names import NODE_TYPES
from ..plan.resources import Address
from ..pricing.charges import Charge, Product, Resources
from ..pricing.instance_products import of_market
from .definition import MASTER_ADDRESS, auto_scaling_group, launch_template

# The IOPS and the throughput in MiB/s that the price of a gp3 volume includes.
GP3_IOPS, GP3_THROUGHPUT = 3000, 125
# The names of volume types in usage types, where they differ from those of the EC2 API.
USAGE = {"io1": "piops"}
# Published prices in us-east-1, in dollars per GB or IOPS and month.
GB_PRICES = {"gp2": 0.1, "gp3": 0.08, "io1": 0.125, "io2": 0.125}
IOPS_PRICES = {"gp3": 0.005, "io1": 0.065, "io2": 0.065, "io2.tier2": 0.0455, "io2.tier3": 0.03185}
# The IOPS of a volume above which each tier begins, for volume types whose price has tiers.
TIERS = {"io2": {"io2": 0, "io2.tier2": 32000, "io2.tier3": 64000}}


def charges(resources: Resources, zones: Collection[str]) -> Iterator[Charge]:
    """Yield the charges for the nodes of both groups, at the size that each group has. `zones` contains the zones of Spot Instances."""
    for group in NODE_TYPES:
        address = auto_scaling_group(group)
        if address in resources and launch_template(group) in resources:
            count = int(resources[address].properties["size"])
            template = resources[launch_template(group)].properties
            yield Charge(address, of_market(template["instance_type"], template["market"], zones), count)
            yield from _root_volumes(address, template, count)
            if template["public_address"]:
                yield Charge(address, PUBLIC_IPV4, count)
    if MASTER_ADDRESS in resources:
        yield Charge(MASTER_ADDRESS, PUBLIC_IPV4, 1)


def _root_volumes(address: Address, template: Mapping[str, Any], count: int) -> Iterator[Charge]:
    volume, iops, throughput = (template[f"root_volume_{name}"] for name in ("type", "iops", "throughput"))
    usage = USAGE.get(volume, volume)
    storage = Product("volume", volume, "AmazonEC2", f"EBS:VolumeUsage.{usage}", "GB-Mo", published=GB_PRICES.get(volume))
    yield Charge(address, storage, count * (template["root_volume_size"] or 0))
    if volume == "gp3":
        iops, throughput = max(iops - GP3_IOPS, 0), max(throughput - GP3_THROUGHPUT, 0)
    tiers = TIERS.get(volume, {usage: 0})
    for (tier, start), end in zip(tiers.items(), (*[*tiers.values()][1:], math.inf)):
        if (iops or 0) > start:
            price = IOPS_PRICES.get(volume if tier == usage else tier)
            product = Product("volume_iops", volume, "AmazonEC2", f"EBS:VolumeP-IOPS.{tier}", "IOPS-Mo", published=price)
            yield Charge(address, product, count * (min(iops, end) - start))
    if throughput:
        product = Product("volume_throughput", volume, "AmazonEC2", f"EBS:VolumeP-Throughput.{usage}", "GiBps-Mo", published=40.96)
        yield Charge(address, product, count * throughput / 1024)
