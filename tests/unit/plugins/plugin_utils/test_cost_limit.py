"""Tests of the time limit that follows from the maximum cost of a job."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import cost_limit
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.node_variables import NodeVariables

NODES = [
    {"kind": "auto_scaling_group", "key": "master", "product": "instance", "quantity": 1, "hourly": 1.0},
    {"kind": "auto_scaling_group", "key": "workers", "product": "instance", "quantity": 3, "hourly": 26.0},
    {"kind": "auto_scaling_group", "key": "workers", "product": "volume", "quantity": 300, "hourly": 4.0},
    {"kind": "nat_gateway", "key": "main", "product": "nat_gateway", "quantity": 1, "hourly": 100.0},
]
PRICE = {"currency": "USD", "charges": NODES, "read_at": 1_790_000_000.0, "published": "", "problem": ""}


@pytest.mark.parametrize(
    ("max_cost", "time_limit", "hosts", "expected"),
    [(40, 0, 4, 3600), (40, 7200, 4, 3600), (40, 600, 4, 600), (40, 0, 2, 7200), (0.75, 0, 4, 67), (1, 0, 6, 60)],
)
def test_the_shorter_limit_applies(max_cost, time_limit, hosts, expected):
    """Each worker costs 10 dollars per hour, the master is cheaper, and the NAT gateway is no node."""
    assert cost_limit.limited_seconds(max_cost, time_limit, PRICE, hosts) == expected


def test_an_amount_that_pays_for_nothing_is_refused():
    message = r"0.500 USD pay for only 45 s of 4 nodes, at 40.00 USD per hour at prices of 2026-09-21. Set it to more than 0.667 USD\."
    with pytest.raises(ValueError, match=message):
        cost_limit.limited_seconds(0.5, 0, PRICE, 4)


def test_nodes_that_are_paid_in_advance_have_no_limit():
    """Their volumes are not the price of a node."""
    charges = [NODES[0], {**NODES[1], "product": "capacity_block", "hourly": 0.0}, NODES[2]]
    with pytest.raises(ValueError, match=r"max_cost: nodes in a Capacity Block are paid in advance\. .* with training_job_time_limit\."):
        cost_limit.limited_seconds(40, 3600, {**PRICE, "charges": charges}, 4)


TOLD = {"read_at": None, "published": "", "endpoint": "", "problem": "DescribeSpotPriceHistory was denied"}


@pytest.mark.parametrize(
    ("price", "why"),
    [
        (None, r"in this run\. Start the job with the playbook train and with deeplearning_prices: true, or"),
        ({}, "in this run"),
        (
            {**PRICE, **TOLD, "charges": []},
            r"\. AWS has told no prices: DescribeSpotPriceHistory was denied\. Correct this, or",
        ),
        (
            {**PRICE, **TOLD, "charges": [{**NODES[0], "hourly": None}]},
            "denied. Correct this, or limit the duration of the job with training_job_time_limit",
        ),
        (
            {**PRICE, **TOLD, "charges": [], "problem": ""},
            r"\. AWS has told no prices\. Limit the duration of the job with training_job_time_limit\.",
        ),
    ],
)
def test_without_a_price_there_is_no_limit_and_no_job(price, why):
    with pytest.raises(ValueError, match=f"max_cost: the price of the nodes is not known.*{why}"):
        cost_limit.limited_seconds(40, 3600, price, 4)


def test_a_wrong_amount_has_one_message():
    """Checks know it as the number, or as the text that the user has written. The same message appears only once."""
    with pytest.raises(ValueError, match=r"max_cost: -1 is not valid\."):
        cost_limit.read(-1.0)


def test_what_the_job_has_cost_counts():
    """A host tells for how long the job has run."""
    assert [cost_limit.spent(40, seconds, PRICE, 4) for seconds in (0, 3600, -1, float("nan"))] == [0, 10, 0, 0]
    assert cost_limit.spent(0.5, 0, PRICE, 4) == 0, "no attempt has used up anything"
    assert cost_limit.spent(40, 3600, None, 4) == 0
    message = (
        r"max_cost: 10\.50 USD are used up, because .* have cost about 10\.00 USD at the present price\. Set it to more than 10\.67 USD\."
    )
    with pytest.raises(ValueError, match=message):
        cost_limit.spent(10.5, 3600, PRICE, 4)
    with pytest.raises(ValueError, match="cost about inf USD"):
        cost_limit.spent(40, float("inf"), PRICE, 4)


@pytest.mark.parametrize("given", [-5, "-0.5", "nan", float("inf")])
def test_only_an_amount_of_money_is_a_maximum_cost(given):
    with pytest.raises(ValueError, match=rf"max_cost: {given} is not valid\. Specify an amount such as 250, or 0 for no limit\."):
        cost_limit.read(given)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"max_cost": 40}, (0, 3600)),
        ({"max_cost": "40", "time_limit": 7200, "hosts": "trainers"}, (7200, 3600)),
        ({"max_cost": 40, "time_limit": 600}, (600, 600)),
        ({"max_cost": 40, "host_count": 2}, (0, 7200)),
        ({"max_cost": 40, "hosts": ""}, (0, 3600)),
        ({"max_cost": 40, "hosts": "workers[0]"}, (0, 14400)),
        ({"max_cost": "{{ inventory_hostname }}"}, (0, 0)),
        ({"time_limit": 600}, (0, 0)),
        ({}, (0, 0)),
    ],
)
def test_the_limit_is_known_before_the_nodes_are_launched(job, expected):
    """All four nodes of the cluster run the job, or as many as its queue allocates. A pattern of hosts means at least one."""
    nodes = NodeVariables({f"training_job_{name}": value for name, value in job.items()}, lambda value: value)
    assert cost_limit.before_launch(nodes, PRICE) == expected
    assert cost_limit.before_launch(None, PRICE) == (0, 0)


@pytest.mark.parametrize(("minimum", "limits", "expected"), [(9000, (7200, 3600), 5400), ("9000", (0, 3600), 9000), (60, (7200, 600), 0)])
def test_a_lease_lasts_no_longer_than_the_maximum_cost_allows(minimum, limits, expected):
    assert cost_limit.lease_minimum({"lease_minimum": minimum}, *limits) == expected
    assert cost_limit.lease_minimum({}, *limits) == cost_limit.lease_minimum({"lease_minimum": None}, *limits) == 0


@pytest.mark.parametrize(("time_limit", "seconds"), [(0, 3600), (600, 600)])
def test_the_limit_is_told(time_limit, seconds):
    shown, job = [], {"training_job_max_cost": 40, "training_job_time_limit": time_limit}
    cost_limit.before_launch(NodeVariables(job, lambda value: value), PRICE, shown.append)
    assert shown == [f"{cost_limit.told(40, seconds, time_limit, PRICE, 4)}, if no earlier attempt has cost anything"]
    nodes = "4 nodes at 40.00 USD per hour at prices of 2026-09-21"
    told = f"training_job_max_cost: 40.00 USD for {nodes}, so the job is stopped after 1 h 0 min"
    assert cost_limit.told(40, 3600, 7200, PRICE, 4) == cost_limit.told(40, 3600, 0, PRICE, 4) == told
    shorter = f"{nodes}, which pays for more than the time limit of the job (10 min 0 s)"
    assert shorter in cost_limit.told(40, 600, 600, PRICE, 4)
    assert "for 1 node at 10.00 USD per hour" in cost_limit.told(10, 3600, 0, PRICE, 1)


def test_the_date_of_prices_that_are_not_current_is_told():
    published, old = {**PRICE, "published": "2026-07-20", "read_at": None}, {**PRICE, "problem": "denied"}
    assert "at 40.00 USD per hour at prices of us-east-1 of 2026-07-20, so the job" in cost_limit.told(40, 3600, 0, published, 4)
    assert "at 40.00 USD per hour at prices of 2026-09-21, so the job" in cost_limit.told(40, 3600, 0, old, 4)
    with pytest.raises(ValueError, match=r"at 40.00 USD per hour at prices of us-east-1 of 2026-07-20\. Set it"):
        cost_limit.limited_seconds(0.5, 0, published, 4)


@pytest.mark.parametrize("foreign", [0, 1, 2, 3])
def test_prices_of_nodes_in_other_regions_are_no_limit(foreign):
    charges = [{**each, "foreign": number == foreign} for number, each in enumerate(NODES)]
    if foreign > 1:  # volumes and gateways are a small part of the price
        assert cost_limit.limited_seconds(40, 0, {**PRICE, "charges": charges}, 4) == 3600
        return
    with pytest.raises(ValueError, match=r"max_cost: AWS has not told the price of the nodes in their region\. Allow pricing:GetProducts"):
        cost_limit.limited_seconds(40, 0, {**PRICE, "charges": charges}, 4)
