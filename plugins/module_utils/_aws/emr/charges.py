# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What AWS charges for in an EMR cluster: instances, and EMR on each of them. Performs no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..pricing.charges import Charge, Product, Resources
from ..pricing.instance_products import instance
from .definition import CLUSTER


def charges(resources: Resources, _zones: Collection[str]) -> Iterator[Charge]:
    """Yield the charges. Volumes are left out, because EMR chooses their number and size."""
    if CLUSTER not in resources:
        return
    properties = resources[CLUSTER].properties
    usual = properties["master_instance_type"]
    for role in ("master", "core", "task"):
        count = 1 if role == "master" else properties.get(f"{role}_count") or 0
        instance_type = properties.get(f"{role}_instance_type") or usual
        if count:
            for product in products(instance_type):
                yield Charge(CLUSTER, product, count)


def products(instance_type: str) -> tuple[Product, Product]:
    """Return the products for a node: the instance, and EMR on it."""
    attributes = (("instanceType", instance_type), ("softwareType", "EMR"))
    return instance(instance_type), Product("emr", instance_type, "ElasticMapReduce", f"BoxUsage:{instance_type}", "Hrs", attributes)
