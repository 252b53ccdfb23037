"""Tests of instances as products."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing import instance_products
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.charges import Product
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.instance_prices import TABLE


@pytest.mark.parametrize(
    ("instance_type", "price"), [("p5.48xlarge", 55.04), ("c5.large", 0.085), ("c7i.metal-24xl", 4.7124), ("x9.huge", None)]
)
def test_published_prices(instance_type, price):
    assert instance_products.instance(instance_type).published == price
    assert instance_products.spot_instance(instance_type, []).published is None, (
        "the price of an On-Demand Instance is none of a Spot Instance"
    )


def test_a_spot_instance_has_a_price_in_each_zone():
    spot = instance_products.spot_instance("g5.xlarge", ["b", "a"])
    assert instance_products.in_each_zone(spot) == [Product("spot_instance", "g5.xlarge", "spot", zone) for zone in "ab"]


def test_a_capacity_block_costs_nothing_more():
    prepaid = instance_products.prepaid_instance("p5.48xlarge")
    assert (prepaid, prepaid.published) == (Product("capacity_block", "p5.48xlarge", "", ""), 0)


def test_each_instance_type_has_one_price():
    sizes = [f"{line.split()[0]}.{each.split('=')[0]}" for line in TABLE.splitlines() for each in line.split()[1:]]
    assert len(sizes) == len(set(sizes)) > 150
