# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What AWS charges for in a Lustre file system: its capacity, at a price that depends on the throughput. Performs no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...pricing.charges import Charge, Product, Resources
from .definition import LUSTRE

# Published prices in us-east-1, in dollars per GB and month, by deployment and throughput in MB/s per TiB.
PRICES = {
    ("PERSISTENT_1", 50): 0.14,
    ("PERSISTENT_1", 100): 0.19,
    ("PERSISTENT_1", 200): 0.29,
    ("PERSISTENT_2", 125): 0.145,
    ("PERSISTENT_2", 250): 0.21,
    ("PERSISTENT_2", 500): 0.34,
    ("PERSISTENT_2", 1000): 0.6,
    ("SCRATCH", 200): 0.14,
}


def charges(resources: Resources, _zones: Collection[str]) -> Iterator[Charge]:
    for address, item in resources.items():
        if address.kind == LUSTRE.kind:
            deployment, throughput = item.properties["deployment"], item.properties.get("throughput")
            yield Charge(
                address, _storage(*(("SCRATCH", 200) if throughput is None else (deployment, throughput))), item.properties["capacity"]
            )


def _storage(deployment: str, throughput: int) -> Product:
    """Return the product. If several deployments have a throughput, the price list does not tell which price is whose."""
    attributes = (("fileSystemType", "Lustre"), ("storageType", "SSD"), ("throughputCapacity", str(throughput)))
    published = PRICES.get((deployment, throughput))
    return Product("storage", f"{deployment} {throughput}", "AmazonFSx", "", "GB-Mo", attributes, published)
