# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What AWS charges for in an EFS file system: stored data and provisioned throughput. Performs no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...pricing.charges import Charge, Product, Resources
from .definition import FILE_SYSTEM

GIB = 1 << 30
# The amount of data whose price includes a throughput of 1 MiB/s: https://aws.amazon.com/efs/pricing/
GIB_PER_MIBPS = 20
DATA = Product("data", "", "AmazonEFS", "TimedStorage-ByteHrs", "GB-Mo", published=0.3)
THROUGHPUT = Product("throughput", "", "AmazonEFS", "ProvisionedTP-MiBpsHrs", "MiBps-Mo", published=6.0)


def charges(resources: Resources, _zones: Collection[str]) -> Iterator[Charge]:
    """Yield the charges, with the size that EFS has measured last. A new file system contains no data.

    The price of data includes some throughput. AWS charges for provisioned throughput only if it is higher.
    """
    for address, item in resources.items():
        if address.kind == FILE_SYSTEM.kind:
            size = item.attributes.get("size", 0) / GIB
            yield Charge(address, DATA, size)
            throughput = (item.properties.get("provisioned_throughput") or 0) - size / GIB_PER_MIBPS
            if throughput > 0:
                yield Charge(address, THROUGHPUT, throughput)
