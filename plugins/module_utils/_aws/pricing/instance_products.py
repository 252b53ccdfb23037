# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Instances as products of the price list. Performs no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from .. import instances as markets
from .charges import PREPAID, Product
from .instance_prices import TABLE

INSTANCE, SPOT = "instance", "spot_instance"
ATTRIBUTES = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}


def instance(instance_type: str) -> Product:
    attributes = tuple({"instanceType": instance_type, **ATTRIBUTES}.items())
    return Product(INSTANCE, instance_type, "AmazonEC2", f"BoxUsage:{instance_type}", "Hrs", attributes, _published().get(instance_type))


def spot_instance(instance_type: str, zones: Iterable[str]) -> Product:
    """Return the product for a Spot Instance in one of the zones. Its price changes all the time, so none is published."""
    return Product(SPOT, instance_type, "spot", " ".join(sorted(zones)))


def in_each_zone(product: Product) -> list[Product]:
    """Return a product for each zone of a Spot Instance, or the product itself if its price does not depend on the zone."""
    return [spot_instance(product.variant, [zone]) for zone in product.usage.split()] if product.name == SPOT else [product]


def prepaid_instance(instance_type: str) -> Product:
    return Product(PREPAID, instance_type, "", "", published=0.0)


def of_market(instance_type: str, market: str, zones: Iterable[str]) -> Product:
    """Return the product for an instance of a market. A reservation of On-Demand Instances does not change their price."""
    if market == markets.SPOT:
        return spot_instance(instance_type, zones)
    return prepaid_instance(instance_type) if market == markets.BLOCK else instance(instance_type)


@lru_cache(maxsize=None)
def _published() -> dict[str, float]:
    lines = [line.split() for line in TABLE.splitlines()]
    pairs = [(family, *each.split("=")) for family, *sizes in lines for each in sizes]
    return {f"{family}.{size}": float(number) for family, size, number in pairs}
