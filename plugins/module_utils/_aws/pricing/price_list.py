# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Prices per hour from the AWS Price List and from the history of Spot prices.

Attributes of products: AWS Billing User Guide, "Finding services and products using AWS Price List Query API".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any, NamedTuple

try:
    from botocore.config import Config
except ImportError:
    pass  # AnsibleAWSModule reports the missing library

from ..client import SDK_ERRORS, AwsClient
from ..regions import partition_of
from .charges import Product
from .instance_products import SPOT

# A price must not delay a run: one attempt with short time limits, in seconds.
LIMITS = {"connect_timeout": 2, "read_timeout": 5, "retries": {"total_max_attempts": 1}}
MOST_REQUESTS = 8  # at a time


class Price(NamedTuple):
    """A price per hour for one unit of a product."""

    hourly: float
    currency: str


def fetch(cloud: AwsClient, products: Iterable[Product]) -> tuple[dict[Product, Price], dict[bool, str]]:
    """Return the prices that AWS tells, and why it did not tell any of the Spot prices (`True`) and of the others (`False`).

    Performs all requests at the same time.
    """
    problems, wanted = dict[bool, str](), list(products)

    def ask(product: Product) -> Price | None:
        try:
            return _spot_price(cloud, product) if product.name == SPOT else _listed_price(get_products, cloud.region, product)
        except (*SDK_ERRORS, AttributeError, KeyError, TypeError, ValueError) as error:
            problems.setdefault(product.name == SPOT, f"{type(error).__name__}: {error}")
            return None

    try:
        get_products = cloud.connect("pricing", _endpoint_region(cloud), Config(**LIMITS)).get_products
    except ValueError as error:  # but EC2 tells Spot prices
        problems[False] = str(error)
        wanted = [product for product in wanted if product.name == SPOT]
    with ThreadPoolExecutor(min(max(len(wanted), 1), MOST_REQUESTS)) as pool:
        found = dict(zip(wanted, pool.map(ask, wanted)))
    return {product: price for product, price in found.items() if price}, problems


def _endpoint_region(cloud: AwsClient) -> str:
    """Return the region of the price list for the region of a cluster. Raises ValueError if the partition has no price list."""
    region, partition = cloud.region, partition_of(cloud.region).name
    regions = cloud.session.get_available_regions("pricing", partition)
    if not regions:
        raise ValueError(f"AWS has no price list in the partition {partition}.")
    return region if region in regions else "us-east-1" if "us-east-1" in regions else regions[0]


def _listed_price(get_products: Callable[..., Any], region: str, product: Product) -> Price | None:
    """Return the On-Demand price of a product, or None if the price list does not have exactly one."""
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in (("regionCode", region), *product.attributes)]
    if product.usage:
        filters.append({"Type": "CONTAINS", "Field": "usagetype", "Value": product.usage})
    page = get_products(ServiceCode=product.service, Filters=filters)
    texts = list(page["PriceList"])
    while page.get("NextToken"):
        page = get_products(ServiceCode=product.service, Filters=filters, NextToken=page["NextToken"])
        texts += page["PriceList"]
    return _only(price for text in texts for price in _prices(json.loads(text), product))


def _prices(item: Mapping[str, Any], product: Product) -> Iterator[Price]:
    """Yield the prices of an item of the price list, if it has the usage type and the unit of the product."""
    usage = rf"(?:^|-){re.escape(product.usage)}$" if product.usage else ""
    if not re.search(usage, item["product"]["attributes"].get("usagetype", "")):
        return
    for term in item["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            if dimension["unit"].lower().replace("month", "mo") == product.unit.lower():  # io2 has another name of the same unit
                for currency, amount in dimension["pricePerUnit"].items():
                    yield Price(float(amount) / product.hours, currency)


def _spot_price(cloud: AwsClient, product: Product) -> Price | None:
    history = cloud.retrieve(
        "ec2",
        "describe_spot_price_history",
        "SpotPriceHistory",
        InstanceTypes=[product.variant],
        ProductDescriptions=["Linux/UNIX"],
        StartTime=datetime.now(timezone.utc),
        Filters=[{"Name": "availability-zone", "Values": [product.usage]}],
    )
    newest = max(history, key=lambda each: each["Timestamp"], default=None)
    return Price(float(newest["SpotPrice"]), partition_of(cloud.region).currency) if newest else None


def _only(prices: Iterable[Price]) -> Price | None:
    """Return the price if all prices are equal. Otherwise, the product is not described well enough, and no price is better."""
    different = {price for price in prices if price.hourly > 0}
    return different.pop() if len(different) == 1 else None
