# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What AWS charges for in an EMR cluster: instances, EMR on each of them, and their volumes. Performs no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ..pricing import volumes
from ..pricing.charges import Charge, Product, Resources
from ..pricing.instance_products import instance
from .definition import CLUSTER, UNKNOWN_VOLUMES


def charges(resources: Resources, _zones: Collection[str]) -> Iterator[Charge]:
    if CLUSTER not in resources:
        return
    properties = resources[CLUSTER].properties
    usual = properties["master_instance_type"]
    for role in ("master", "core", "task"):
        count = 1 if role == "master" else properties.get(f"{role}_count") or 0
        used, disks = defaultdict[Product, float](float), properties["volumes"].get(role.upper(), UNKNOWN_VOLUMES)
        for product, quantity in products(properties.get(f"{role}_instance_type") or usual, disks):
            used[product] += count * quantity
        yield from (Charge(CLUSTER, product, quantity) for product, quantity in used.items() if count)


def products(instance_type: str, disks: Iterable[Sequence[Any] | None]) -> Iterator[tuple[Product, float]]:
    """Yield the products for a node, with their quantities. A disk is None if its type and size are not known."""
    attributes = (("instanceType", instance_type), ("softwareType", "EMR"))
    yield instance(instance_type), 1
    yield Product("emr", instance_type, "ElasticMapReduce", f"BoxUsage:{instance_type}", "Hrs", attributes), 1
    for disk in disks:
        if disk is None:
            yield Product("volumes", instance_type, "", ""), 1
        else:
            yield from volumes.products(*disk)
