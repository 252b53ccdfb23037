"""Tests of the resources that exist after a plan."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, Change
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found, Ref, Wanted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.charges import dated, of_nodes, resources_after

ENDPOINT, GROUP, GATEWAY = Address("vpc_endpoint", "ssm"), Address("auto_scaling_group", "workers"), Address("nat_gateway", "main")
SUBNETS = frozenset({Ref(Address("subnet", "a")), Ref(Address("subnet", "b"))})


def test_new_resources_have_the_references_of_their_definition():
    """The plan itself contains one unknown value for two subnets that do not exist yet."""
    change = Change(ENDPOINT, Action.CREATE, Wanted(ENDPOINT, {"type": "Interface", "subnets": SUBNETS}), after={"type": 1, "subnets": 2})
    assert resources_after([change], [])[ENDPOINT].properties == {"type": "Interface", "subnets": SUBNETS}


def test_changed_resources_keep_what_does_not_change():
    found = Found(GROUP, "g", {"size": 2, "minimum": 0}, {"wanted": "2"})
    change = Change(GROUP, Action.UPDATE, Wanted(GROUP, {"size": 5, "minimum": 0}), after={"size": 5}, found=found)
    assert resources_after([change], [found]) == {GROUP: Found(GROUP, "g", {"size": 5, "minimum": 0}, {"wanted": "2"})}


def test_deleted_and_adopted_resources_cost_nothing():
    found = Found(GROUP, "g", {"size": 2})
    adopted = Found(ENDPOINT, "e", {}, adopted=True)
    plan = [Change(GROUP, Action.DELETE, Wanted(GROUP), found=found), Change(GATEWAY, Action.CREATE, Wanted(GATEWAY))]
    assert resources_after(plan[:1], [found, adopted]) == {}
    assert resources_after(plan, [found, adopted]).keys() == {GATEWAY}


@pytest.mark.parametrize(
    ("published", "read_at", "told"),
    [
        ("2026-07-20", None, " at prices of us-east-1 of 2026-07-20"),
        ("2026-07-20", 1_790_032_000.0, ", partly at prices of us-east-1 of 2026-07-20"),
        ("", 1_790_032_000.0, " at prices of 2026-09-21"),
        ("", None, ""),
    ],
)
def test_prices_have_a_date(published, read_at, told):
    assert dated({"published": published, "read_at": read_at}) == told


def test_only_running_nodes_count():
    """A group of an EMR cluster has several instance types. Other charges do not depend on the nodes."""
    node = {"kind": "auto_scaling_group", "key": "workers", "product": "instance", "quantity": 2, "hourly": 4.0}
    gateway = {**node, "kind": "nat_gateway", "key": "workers", "product": "nat_gateway", "hourly": 1.0}
    price = {"hourly": 9.0, "charges": [node, {**node, "variant": "c5"}, {**node, "product": "emr", "hourly": None}, gateway]}
    assert [of_nodes(price, ["workers"] * count)["hourly"] for count in (4, 2, 0)] == [9, 5, 1]
    assert of_nodes(price, [])["charges"] == [gateway | {"quantity": 2.0}]
    assert [each["quantity"] for each in of_nodes(price, ["workers"] * 2)["charges"]] == [1, 1, 1, 2]
