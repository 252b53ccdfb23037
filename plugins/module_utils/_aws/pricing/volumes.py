# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""EBS volumes as products of the price list. Performs no I/O."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .charges import Product

# The IOPS and the throughput in MiB/s that the price of a gp3 volume includes.
GP3_IOPS, GP3_THROUGHPUT = 3000, 125
# The names of volume types in usage types, where they differ from those of the EC2 API.
USAGE = {"io1": "piops"}
# Published prices in us-east-1, in dollars per GB or IOPS and month.
GB_PRICES = {"gp2": 0.1, "gp3": 0.08, "io1": 0.125, "io2": 0.125}
IOPS_PRICES = {"gp3": 0.005, "io1": 0.065, "io2": 0.065, "io2.tier2": 0.0455, "io2.tier3": 0.03185}
# The IOPS of a volume above which each tier begins, for volume types whose price has tiers.
TIERS = {"io2": {"io2": 0, "io2.tier2": 32000, "io2.tier3": 64000}}


def products(volume: str, size: int, iops: int | None, throughput: int | None) -> Iterator[tuple[Product, float]]:
    usage = USAGE.get(volume, volume)
    yield Product("volume", volume, "AmazonEC2", f"EBS:VolumeUsage.{usage}", "GB-Mo", published=GB_PRICES.get(volume)), size
    if volume == "gp3":
        iops, throughput = max((iops or 0) - GP3_IOPS, 0), max((throughput or 0) - GP3_THROUGHPUT, 0)
    # EC2 tells the IOPS of a gp2 volume, too, but they cost nothing
    tiers = TIERS.get(volume, {usage: 0}) if volume in IOPS_PRICES else {}
    for (tier, start), end in zip(tiers.items(), (*[*tiers.values()][1:], math.inf)):
        if (iops or 0) > start:
            price = IOPS_PRICES.get(volume if tier == usage else tier)
            product = Product("volume_iops", volume, "AmazonEC2", f"EBS:VolumeP-IOPS.{tier}", "IOPS-Mo", published=price)
            yield product, min(iops or 0, end) - start
    if throughput:
        product = Product("volume_throughput", volume, "AmazonEC2", f"EBS:VolumeP-Throughput.{usage}", "GiBps-Mo", published=40.96)
        yield product, throughput / 1024
