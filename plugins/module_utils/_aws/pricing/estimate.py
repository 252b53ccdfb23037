# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a cluster costs per hour: charges times prices."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..client import AwsClient, environment_endpoint
from ..plan.resources import Address
from ..regions import partition_of
from . import cache, price_list
from .charges import HOURS_PER_MONTH, Charge, Product, known_sum
from .instance_prices import DATE, REGION
from .instance_products import INSTANCE, PREPAID, SPOT, in_each_zone, spot_instance

# The product of a file system whose size is that of its data.
DATA = "data"
EMR_NAMES = {"emr": "EMR on {}", "volumes": "the volumes of {}"}
UNTOLD = cache.Known(None, 0)  # a price that AWS has never told
NOT_ASKED = "this run asks AWS for no prices. Run the playbook info, which asks for them and keeps them for a week on this controller"


@dataclass(frozen=True)
class Place:
    """The region of a cluster, for an estimate that sends no request to AWS."""

    region: str

    def endpoint(self, service: str) -> str:
        return environment_endpoint(service)


def spot_prices(cloud: AwsClient, instance_type: str, zones: Iterable[str]) -> list[float]:
    known, _problem = _known_prices(cloud, [spot_instance(instance_type, [zone]) for zone in zones])
    return [each.price.hourly for each in known.values() if each and each.price]


class Estimate:
    """The prices of the charges before and after a plan."""

    def __init__(self, cloud: AwsClient | Place, before: Iterable[Charge], after: Iterable[Charge]) -> None:
        self._before, self._after = _merged(before), _merged(after)
        products = {charge.product for charge in (*self._before, *self._after) if charge.product.service}
        self._endpoint = cloud.endpoint("pricing")
        self._region, self._known, self._problem = cloud.region, *_known_prices(cloud, sorted(products))

    def describe(self) -> dict[str, Any]:
        """Return what the resources cost after the plan, as a dictionary for the result of a module."""
        used = {charge.product for charge in self._after}
        charges = [self._describe_charge(charge) for charge in self._after]
        return {
            "hourly": known_sum(charges),
            "charges": charges,
            "data": [self._describe_data(charge) for charge in self._after if charge.product.name == DATA],
            **self._source([each for product, each in self._known.items() if product in used and each]),
            "published": DATE if any(self._is_published(product) for product in used) else "",
            "problem": self._problem,
            "endpoint": self._endpoint,
        }

    def _source(self, told: Sequence[cache.Known]) -> dict[str, Any]:
        return {"currency": partition_of(self._region).currency, "read_at": min((each.read_at for each in told), default=None)}

    def _describe_charge(self, charge: Charge) -> dict[str, Any]:
        return {
            "kind": charge.address.kind,
            "key": charge.address.key,
            "product": charge.product.name,
            "variant": charge.product.variant,
            "quantity": charge.quantity,
            "hourly": self._hourly(charge),
            "foreign": self._is_foreign(charge.product),
        }

    def _describe_data(self, charge: Charge) -> dict[str, Any]:
        price = self._price(charge.product)
        return {
            "kind": charge.address.kind,
            "key": charge.address.key,
            "monthly": None if price is None else price * HOURS_PER_MONTH,
        }

    def difference(self, address: Address) -> float | None:
        """Return by how much the plan changes the price per hour of a resource. Return None if a price is not known."""
        sides = [[self._hourly(charge) for charge in side if charge.address == address] for side in (self._before, self._after)]
        if None in (*sides[0], *sides[1]):
            return None
        before, after = (sum(each or 0.0 for each in side) for side in sides)
        return after - before

    def unknown(self) -> list[str]:
        """Return the names of what the plan adds and whose price is not known, such as `8 x p6-b200.48xlarge`.

        This includes nodes with a published price, unless it is one of their region.
        """
        before = defaultdict[Hashable, float](float)
        for charge in self._before:
            before[_use(charge)] += charge.quantity
        added = (charge for charge in self._after if charge.quantity > before[_use(charge)])
        foreign = {charge: self._is_foreign(charge.product) and charge.product.name == INSTANCE for charge in added}
        names = [_name(each) + f" in {self._region}" * foreign[each] for each in foreign if foreign[each] or self._hourly(each) is None]
        return list(dict.fromkeys(names))

    def _hourly(self, charge: Charge) -> float | None:
        price = self._price(charge.product)
        return None if price is None else price * charge.quantity

    def _price(self, product: Product) -> float | None:
        """Return the price per hour that AWS tells, or else the published price. Other partitions can have other currencies."""
        known = self._known.get(product)
        if known and known.price:
            return known.price.hourly
        if product.published is None or (product.published and partition_of(self._region).name != "aws"):
            return None
        return product.published / product.hours

    def _is_published(self, product: Product) -> bool:
        known = self._known.get(product)
        return product.name != PREPAID and not (known and known.price) and self._price(product) is not None

    def _is_foreign(self, product: Product) -> bool:
        """Return whether the price is one of another region, where it may be lower."""
        return self._region != REGION and self._is_published(product)


def _merged(charges: Iterable[Charge]) -> list[Charge]:
    """Return one charge for each product of a resource, such as for the nodes of an EMR cluster, whose roles can have the same type."""
    quantities = defaultdict[tuple[Address, Product], float](float)
    for each in charges:
        quantities[each.address, each.product] += each.quantity
    return [Charge(*use, quantity) for use, quantity in quantities.items()]


def _use(charge: Charge) -> Hashable:
    """Return what a charge is for. Other zones do not make another use of a Spot Instance."""
    product = charge.product
    return charge.address, product.name, product.variant, "" if product.name == SPOT else product.usage


def _name(charge: Charge) -> str:
    product = charge.product
    nodes = f"{charge.quantity:,g} x {product.variant}"
    if charge.address.kind == "emr_cluster":
        return EMR_NAMES.get(product.name, "{}").format(nodes)
    if charge.address.kind == "auto_scaling_group" and "." in product.variant:
        return f"{nodes} ({charge.address.key})"
    return f"{product.name.replace('_', ' ')} ({charge.address.key})"


def _known_prices(cloud: AwsClient | Place, products: Sequence[Product]) -> tuple[dict[Product, cache.Known | None], str]:
    """Return the prices from the cache and from AWS, and why AWS did not tell any, or an empty string.

    The cache has one price for each zone of Spot Instances, because a later run may ask for other zones. The highest of them counts.
    """
    file = cache.path(cloud.region, cloud.endpoint("pricing"))
    zonal = {product: in_each_zone(product) for product in products}
    each_zone = {each for zones in zonal.values() for each in zones}
    known = cache.read(file, each_zone)
    missing = sorted(each for each in each_zone if not known.get(each, UNTOLD).is_recent(each))
    if missing and not isinstance(cloud, Place):
        new = _ask(cloud, missing, known)
        cache.write(file, new)
        known.update(new)
    problem = "; ".join(sorted({each.problem for each in known.values() if each.problem} | _unasked(cloud, each_zone - known.keys())))
    currency, usable = partition_of(cloud.region).currency, _usable(cloud, known)
    return {product: _highest((usable.get(each, UNTOLD) for each in zones), currency) for product, zones in zonal.items()}, problem


def _unasked(cloud: AwsClient | Place, missing: Collection[Product]) -> set[str]:
    """Return why prices are missing, if the run asks for none."""
    return {NOT_ASKED} if missing and isinstance(cloud, Place) else set()


def _usable(cloud: AwsClient | Place, known: Mapping[Product, cache.Known]) -> Mapping[Product, cache.Known]:
    """Return the prices that are recent enough. An estimate that sends no request to AWS is about the past."""
    return known if isinstance(cloud, Place) else {product: each for product, each in known.items() if each.is_usable(product)}


def _ask(cloud: AwsClient, products: Sequence[Product], known: Mapping[Product, cache.Known]) -> dict[Product, cache.Known]:
    """Return the prices that AWS tells. In place of those that it does not tell, return those in `known`, however old."""
    found, problems = price_list.fetch(cloud, products)
    return {
        each: cache.Known(found[each], time.time())
        if each in found
        else known.get(each, UNTOLD).without_newer(problems.get(each.name == SPOT, ""))
        for each in products
    }


def _highest(known: Iterable[cache.Known], currency: str) -> cache.Known | None:
    """Return the highest price. Prices in another currency are left out, because they cannot be added to the others."""
    prices = [(each.price.hourly, each) for each in known if each.price and each.price.currency == currency]
    return max(prices)[1] if prices else None
