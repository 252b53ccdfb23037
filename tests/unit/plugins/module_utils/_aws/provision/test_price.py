"""Tests of the limit of the price. tests/integration/test_prices.py provisions clusters with such a limit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.charges import products
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, Change
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Wanted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.charges import Charge
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.estimate import Place
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.instance_prices import DATE
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.instance_products import instance, spot_instance
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import price

GROUP, GATEWAY = Address("auto_scaling_group", "workers"), Address("nat_gateway", "main")
PLAN = [Change(GROUP, Action.UPDATE, Wanted(GROUP), before={"size": 1}, after={"size": 8})]
HUGE = instance("x9.huge")


class Cluster(Place):
    cluster = "demo"


@pytest.fixture
def forbidden(monkeypatch, tmp_path):
    """Return a function that returns why a plan with these charges before and after it is forbidden, and the warnings."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(price, "charges", lambda resources, _zones: resources)

    def ask(before, after, *, limit=100.0, region="us-east-1"):
        monkeypatch.setattr(price, "resources_after", lambda plan, _found: after if plan else before)
        warnings = []
        options = {"prices": True, "price_warning": limit, "enforce_price_warning": True}
        request = SimpleNamespace(options=options, cloud=Cluster(region), manages={"node_group"}.__contains__)
        run = SimpleNamespace(request=request, before=(), module=SimpleNamespace(warn=warnings.append))
        found = price.forbidden_price(run, PLAN, (), None)
        assert (found is None) == (not warnings)
        return found and found.reason, warnings

    return ask


def test_an_unknown_price_that_a_plan_adds_is_forbidden(forbidden):
    reason, (warning,) = forbidden([], [Charge(GROUP, HUGE, 8)])
    assert reason == "the price of 8 x x9.huge (workers) is not known"
    assert warning.startswith(f"price_warning: {reason}. To see ")
    reason, _warnings = forbidden([Charge(GROUP, HUGE, 1)], [Charge(GROUP, HUGE, 8), Charge(GATEWAY, HUGE, 1)], region="cn-north-1")
    assert reason == "the price of 8 x x9.huge (workers), instance (main) is not known"


def test_the_reason_says_which_prices_these_are_and_that_some_are_missing(forbidden):
    """Nobody has read a price here."""
    reason, _warnings = forbidden([], [Charge(GROUP, instance("p5.48xlarge"), 1)], region="eu-central-1")
    assert f" costs 1,320.96 USD per day at prices of us-east-1 of {DATE}, more than the 100.00 that " in reason
    reason, _warnings = forbidden([], [Charge(GROUP, instance("p5.48xlarge"), 1), Charge(GATEWAY, HUGE, 1)])
    assert " costs at least 1,320.96 USD per day" in reason


def test_only_the_fee_of_emr_may_be_unknown(forbidden):
    reason, _warnings = forbidden(
        [], [Charge(Address("emr_cluster", "main"), each, 2) for each, _count in products("m5.xlarge", [])], limit=1000.0
    )
    assert reason == "the price of EMR on 2 x m5.xlarge is not known"


def test_a_group_of_nodes_that_grows_is_not_hidden_by_others_of_its_type(forbidden):
    """The master and the other nodes of an EMR cluster belong to the same resource."""
    cluster = Address("emr_cluster", "main")
    sides = ((1, 1), (1, 2))
    before, after = ([Charge(cluster, each, count) for count in side for each, _count in products("m5.xlarge", [])] for side in sides)
    assert forbidden(before, after)[0] == "the price of EMR on 3 x m5.xlarge is not known"
    assert forbidden(before, before) == (None, [])


def test_the_advice_about_an_unknown_price_helps():
    """A higher limit does not."""
    for problem, expected in (("", False), ("AccessDenied: no.", True)):
        told = price._advice(problem)
        assert ("AccessDenied: no. Allow pricing:GetProducts and, for Spot" in told, "higher" in told) == (expected, False)
        assert told.endswith("To make the changes although the price is not known, set enforce_price_warning: false.")


@pytest.mark.parametrize(
    ("before", "after", "limit"),
    [
        ([], [Charge(GROUP, HUGE, 8)], None),
        ([Charge(GROUP, HUGE, 8)], [Charge(GROUP, HUGE, 1)], 100.0),
        ([Charge(GROUP, HUGE, 8)], [], 100.0),
        ([Charge(GROUP, spot_instance("x9.huge", "a"), 8)], [Charge(GROUP, spot_instance("x9.huge", "ab"), 8)], 100.0),
        ([], [Charge(GROUP, HUGE, 0)], 100.0),
        ([], [Charge(GROUP, instance("c5.large"), 1)], 100.0),
    ],
)
def test_an_unknown_price_that_does_not_rise_is_allowed(forbidden, before, after, limit):
    assert forbidden(before, after, limit=limit) == (None, [])
