"""Tests of the time limit that follows from the maximum cost of a job."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import cost_limit

NODES = [
    {"kind": "auto_scaling_group", "key": "master", "product": "instance", "quantity": 1, "hourly": 1.0},
    {"kind": "auto_scaling_group", "key": "workers", "product": "instance", "quantity": 3, "hourly": 26.0},
    {"kind": "auto_scaling_group", "key": "workers", "product": "volume", "quantity": 300, "hourly": 4.0},
    {"kind": "nat_gateway", "key": "main", "product": "nat_gateway", "quantity": 1, "hourly": 100.0},
]
PRICE = {"currency": "USD", "charges": NODES}


@pytest.mark.parametrize(
    ("max_cost", "time_limit", "hosts", "expected"),
    [(40, 0, 4, 3600), (40, 7200, 4, 3600), (40, 600, 4, 600), (40, 0, 2, 7200), (0.75, 0, 4, 67)],
)
def test_the_shorter_limit_applies(max_cost, time_limit, hosts, expected):
    """Each worker costs 10 dollars per hour, the master is cheaper, and the NAT gateway is no node."""
    assert cost_limit.limited_seconds(max_cost, time_limit, PRICE, hosts) == expected


def test_an_amount_that_pays_for_nothing_is_refused():
    message = r"0.500 USD pay for only 45 s of 4 nodes, at 40.00 USD per hour. Set it to more than 0.667 USD\."
    with pytest.raises(ValueError, match=message):
        cost_limit.limited_seconds(0.5, 0, PRICE, 4)


def test_nodes_that_are_paid_in_advance_have_no_limit():
    """Their volumes are not the price of a node."""
    charges = [NODES[0], {**NODES[1], "product": "capacity_block", "hourly": 0.0}, NODES[2]]
    with pytest.raises(ValueError, match=r"max_cost: nodes in a Capacity Block are paid in advance\. .* with time_limit\."):
        cost_limit.limited_seconds(40, 3600, {**PRICE, "charges": charges}, 4)


@pytest.mark.parametrize("price", [None, {}, {**PRICE, "charges": []}, {**PRICE, "charges": [{**NODES[0], "hourly": None}]}])
def test_without_a_price_there_is_no_limit_and_no_job(price):
    with pytest.raises(ValueError, match="max_cost: the price of the nodes is not known in this run"):
        cost_limit.limited_seconds(40, 3600, price, 4)


def test_the_limit_is_told():
    assert cost_limit.told(40, 3600, PRICE, 4) == (
        "training_job_max_cost: 40.00 USD for 4 nodes at 40.00 USD per hour, so the job is stopped after 1 h 0 min"
    )
