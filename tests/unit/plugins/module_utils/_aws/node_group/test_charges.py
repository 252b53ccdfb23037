"""Tests of what AWS charges for nodes."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.charges import charges
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.definition import (
    MASTER_ADDRESS,
    auto_scaling_group,
    launch_template,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found

TEMPLATE = {
    "instance_type": "g5.xlarge",
    "market": "on-demand",
    "public_address": False,
    "root_volume_size": 100,
    "root_volume_type": "gp3",
    "root_volume_iops": 0,
    "root_volume_throughput": 0,
}


def found(size=3, group="workers", **template):
    """Return the quantities by product and variant, and the usage types."""
    items = [
        Found(auto_scaling_group(group), "g", {"size": size}),
        Found(launch_template(group), "t", {**TEMPLATE, **template}),
    ]
    return list(charges({item.address: item for item in items}, ["us-east-1b", "us-east-1a"]))


def quantities(made):
    return {(each.product.name, each.product.variant): each.quantity for each in made}


@pytest.mark.parametrize(
    ("market", "product"),
    [
        ("on-demand", "instance"),
        ("capacity-reservation", "instance"),
        ("spot", "spot_instance"),
        ("capacity-block", "capacity_block"),
    ],
)
def test_the_market_decides_what_an_instance_costs(market, product):
    made = found(market=market)
    assert quantities(made) == {(product, "g5.xlarge"): 3, ("volume", "gp3"): 300}
    assert made[0].product.usage == {"spot": "us-east-1a us-east-1b", "capacity-block": ""}.get(market, "BoxUsage:g5.xlarge")


@pytest.mark.parametrize(
    ("volume", "iops", "throughput", "expected"),
    [
        ("gp2", 0, 0, {}),
        ("gp3", 3000, 125, {}),
        ("gp3", 4000, 637, {("volume_iops", "gp3"): 3000, ("volume_throughput", "gp3"): 1.5}),
        ("io1", 200, 0, {("volume_iops", "io1"): 600}),
        ("io2", 200, 0, {("volume_iops", "io2"): 600}),
    ],
)
def test_volumes_cost_by_size_and_by_what_exceeds_the_included_performance(volume, iops, throughput, expected):
    made = found(root_volume_type=volume, root_volume_iops=iops, root_volume_throughput=throughput)
    assert quantities(made[1:]) == {("volume", volume): 300, **expected}
    assert {each.product.usage.split(".")[-1] for each in made[1:]} == {{"io1": "piops"}.get(volume, volume)}


def test_the_price_of_many_iops_has_tiers_in_each_volume():
    made = found(3, root_volume_type="io2", root_volume_iops=100_000)[2:]
    assert {each.product.usage: (each.quantity, each.product.published) for each in made} == {
        "EBS:VolumeP-IOPS.io2": (96_000, 0.065),
        "EBS:VolumeP-IOPS.io2.tier2": (96_000, 0.0455),
        "EBS:VolumeP-IOPS.io2.tier3": (108_000, 0.03185),
    }
    assert [each.quantity for each in found(3, root_volume_type="io1", root_volume_iops=64_000)[2:]] == [192_000]


def test_a_template_that_somebody_has_changed_has_no_known_price():
    made = found(root_volume_type=None, root_volume_size=None, root_volume_iops=None)
    assert (made[1].product.published, made[1].quantity) == (None, 0)


def test_public_addresses_cost_money():
    assert quantities(found(1, "master", public_address=True))["public_ipv4", ""] == 1
    (charge,) = charges({MASTER_ADDRESS: Found(MASTER_ADDRESS, "e")}, [])
    assert (charge.address, charge.product.name, charge.quantity) == (MASTER_ADDRESS, "public_ipv4", 1)


def test_a_group_without_its_template_has_no_known_charges():
    group = auto_scaling_group("workers")
    assert list(charges({group: Found(group, "g", {"size": 3})}, [])) == []
