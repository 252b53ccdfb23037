"""Tests of the sentences about the cost of a job."""

from __future__ import annotations

import math

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._report import cost

START, HOUR = 1_790_000_000.0, 3600.0
NOW = START + 10 * HOUR


VOLUME = {"kind": "auto_scaling_group", "key": "workers", "product": "volume", "variant": "gp3", "quantity": 100, "hourly": 0.1}


def price(hourly=2.0, product="instance", *more):
    charge = {"kind": "auto_scaling_group", "key": "workers", "product": product, "variant": "g5.xlarge", "quantity": 1, "hourly": hourly}
    volume = {**charge, "product": "volume", "hourly": 0.0}
    facts = {"currency": "USD", "read_at": START, "published": "", "problem": "", "endpoint": ""}
    return {**facts, "hourly": hourly, "charges": [charge, volume, *more]}


def node(number, launched=START - HOUR):
    return {"instance_id": f"i-{number}", "launched_at": launched}


def former(number, launched, left):
    return {**node(number, launched), "left_at": left, "cause": "", "replacement": ""}


NODES, PRICE = [node(1), node(2), node(3)], price()


def told(instances=("i-1", "i-2"), start=START, end=START + HOUR, nodes=NODES, gone=(), at=PRICE, later=()):
    return cost.cost_of({"instances": list(instances), "runs": [[start, end], *later]}, nodes, gone, at, NOW)


def test_nodes_cost_their_time_in_the_job():
    assert told().startswith("4.00 USD for 2.0 node-hours of 2 nodes, at 2.00 USD per hour. AWS tells when ")
    assert "Prices: AWS Price List, read on 2026-09-21." in told()
    assert told().endswith(" deeplearning.cluster.events")


@pytest.mark.parametrize(
    ("changes", "hours"),
    [
        ({"nodes": [node(1, START + HOUR / 2)]}, "30.0 node-minutes of 1 node"),
        ({"nodes": [node(2)], "gone": [former(1, START - HOUR, START + HOUR / 2)]}, "1.5 node-hours of 2 nodes"),
        ({"nodes": [node(1), node(2)], "gone": [former(1, START - HOUR, START + HOUR / 2)]}, "1.5 node-hours of 2 nodes"),
        ({"gone": [former(3, START, START + HOUR)]}, "2.0 node-hours of 2 nodes"),
        ({"gone": [former(1, None, START + 1)], "nodes": [node(2)]}, "1.0 node-hours of 1 node"),
        ({"nodes": [node(1)], "gone": [former(2, START - HOUR, None)]}, "2.0 node-hours of 2 nodes"),
        # What the hosts say decides nothing beyond the times of AWS
        ({"start": 0.0, "end": 1e300}, "22.0 node-hours of 2 nodes"),
        ({"start": math.nan, "end": math.nan}, "22.0 node-hours of 2 nodes"),
        ({"start": math.inf}, "0.0 node-minutes of 2 nodes"),
        ({"end": -math.inf}, "0.0 node-minutes of 2 nodes"),
        ({"later": [[START + 5 * HOUR, START + 6 * HOUR]]}, "4.0 node-hours of 2 nodes"),
        ({"later": [[START, START + HOUR]] * 99}, "22.0 node-hours of 2 nodes"),
        ({"instances": ["i-1"] * 99}, "1.0 node-hours of 1 node"),
        ({"instances": ["i-1", "i-2", "i-99"]}, "2.0 node-hours of 2 nodes, at 2.00 USD per hour, without 1 node that is no longer in "),
    ],
)
def test_aws_bounds_the_times_of_the_hosts(changes, hours):
    assert hours in told(**changes)


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (None, "2.0 node-hours of 2 nodes, whose price is not known. AWS"),
        (price(None), "2.0 node-hours of 2 nodes, whose price is not known. AWS"),
        (price(0.0, "capacity_block"), "2.0 node-hours of 2 nodes, paid in advance. AWS"),
        (price(0.0, "capacity_block", VOLUME), "2.0 node-hours of 2 nodes, paid in advance. AWS"),
        ({**price(), "charges": price()["charges"][:1]}, "at 2.00 USD per hour without volumes. AWS"),
    ],
)
def test_a_missing_price(at, words):
    assert words in told(at=at)


def test_hosts_that_are_no_nodes():
    assert told(instances=()) == ""
    assert told(instances=["i-8", "i-9"]).startswith("not known, because the job ran on 2 nodes that are no longer in the cluster.")
