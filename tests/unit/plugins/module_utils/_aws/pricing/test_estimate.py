"""Tests of prices times quantities."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing import cache, estimate, price_list
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.charges import Charge, Product
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.instance_products import (
    instance,
    prepaid_instance,
    spot_instance,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.price_list import Price

GROUP, NAT, DATA = Address("auto_scaling_group", "workers"), Address("nat_gateway", "main"), Address("file_system", "main")
GATEWAY = Product("nat_gateway", "", "AmazonEC2", "NatGateway-Hours", published=0.045)
STORED = Product("data", "", "AmazonEFS", "TimedStorage-ByteHrs", "GB-Mo", published=0.3)


PROBLEMS = {True: "why no Spot prices", False: "why"}


@pytest.fixture
def told(monkeypatch):
    """Return the prices that AWS tells, which a test can change."""
    prices = {}
    monkeypatch.setattr(cache, "path", lambda _region, _endpoint: None)
    monkeypatch.setattr(
        price_list, "fetch", lambda _cloud, products: ({each: prices[each] for each in products if each in prices}, PROBLEMS)
    )
    return prices


def made(before, after, region="us-east-1"):
    return estimate.Estimate(SimpleNamespace(region=region, endpoint=lambda service: service), before, after)


def test_each_charge_and_the_sum(told):
    told[GATEWAY] = Price(0.05, "USD")
    found = made([], [Charge(NAT, GATEWAY, 2), Charge(GROUP, instance("p5.48xlarge"), 3)]).describe()
    assert [each["hourly"] for each in found["charges"]] == [0.1, pytest.approx(165.12)]
    assert found["hourly"] == pytest.approx(165.22)
    assert (found["published"] != "", found["read_at"] is not None, found["problem"]) == (True, True, "why")
    assert found["endpoint"] == "pricing"


def test_a_change_has_the_difference_of_its_resource(told):
    told[GATEWAY] = Price(0.05, "USD")
    found = made([Charge(NAT, GATEWAY, 1), Charge(GROUP, GATEWAY, 1)], [Charge(NAT, GATEWAY, 3), Charge(NAT, GATEWAY, 1)])
    assert (found.difference(NAT), found.difference(GROUP), found.difference(DATA)) == (pytest.approx(0.15), -0.05, 0)
    prepaid = Charge(GROUP, prepaid_instance("p5.48xlarge"), 3)
    assert made([Charge(GROUP, GATEWAY, 1)], [prepaid]).difference(GROUP) == -0.05


def test_an_unknown_price_is_none(told):
    found = made([], [Charge(GROUP, instance("x9.huge"), 3), Charge(NAT, GATEWAY, 1)])
    assert (found.difference(GROUP), found.describe()["charges"][0]["hourly"], found.describe()["hourly"]) == (None, None, 0.045)
    unknown, volume = Charge(GROUP, instance("x9.huge"), 3), Charge(GROUP, Product("volume", "gp9", "AmazonEC2", "x"), 300)
    assert made([], [unknown]).describe()["hourly"] is None
    assert made([unknown], []).difference(GROUP) is None
    assert made([unknown], [unknown, Charge(DATA, Product("a_b", "", "AmazonEFS", "x"), 1), volume]).unknown() == [
        "a b (main)",
        "volume (workers)",
    ]
    assert made([], []).describe()["hourly"] == 0


def test_what_has_no_known_price_is_named(told):
    emr = Address("emr_cluster", "main")
    new = [Charge(emr, Product(name, "x9.huge", "ElasticMapReduce", "x"), 3) for name in ("instance", "emr", "volumes")]
    assert made([], new).unknown() == ["3 x x9.huge", "EMR on 3 x x9.huge", "the volumes of 3 x x9.huge"]
    assert made(new * 2, [Charge(emr, new[0].product, 6)]).unknown() == []
    assert made(new * 2, [Charge(emr, new[0].product, 7)]).unknown() == ["7 x x9.huge"]


def test_published_prices_are_dollars_of_one_partition(told):
    assert made([], [Charge(NAT, GATEWAY, 1)], "cn-north-1").describe()["charges"][0]["hourly"] is None
    told[GATEWAY] = Price(0.4, "CNY")
    assert made([], [Charge(NAT, GATEWAY, 1)], "cn-north-1").describe()["currency"] == "CNY"


def test_a_price_in_another_currency_is_unknown(told):
    told[GATEWAY], told[STORED] = Price(0.4, "CNY"), Price(0.1, "USD")
    found = made([], [Charge(NAT, GATEWAY, 1), Charge(DATA, STORED, 1)], "cn-north-1").describe()
    assert (found["hourly"], [each["hourly"] for each in found["charges"]]) == (0.4, [0.4, None])
    assert made([], [], "eusc-de-east-1").describe()["currency"] == "EUR"


def test_each_denied_action_is_named(told):
    found = made([], [Charge(NAT, GATEWAY, 1), Charge(GROUP, spot_instance("g5.xlarge", ["a"]), 1)]).describe()
    assert found["problem"] == "why; why no Spot prices"


@pytest.mark.parametrize("region", ["us-east-1", "cn-north-1"])
def test_what_is_paid_in_advance_is_not_asked_for(told, region):
    found = made([], [Charge(GROUP, prepaid_instance("p5.48xlarge"), 3)], region).describe()
    assert (found["hourly"], found["published"], found["problem"]) == (0, "", "")


def test_spot_prices_are_kept_by_zone(told, tmp_path, monkeypatch):
    """The highest price counts. A run for one of the zones, and one that asks AWS for nothing, use the prices of the first run."""
    monkeypatch.setattr(cache, "path", lambda *names: tmp_path / " ".join(names))
    monkeypatch.setattr(estimate, "environment_endpoint", lambda service: service)
    told.update({spot_instance("g5.xlarge", [zone]): Price(price, "USD") for zone, price in (("a", 0.4), ("b", 0.7))})
    both, one, other = (Charge(GROUP, spot_instance("g5.xlarge", zones), 2) for zones in ("ab", "a", "c"))
    assert made([], [both]).describe()["hourly"] == 1.4
    told.clear()
    assert made([], [one]).describe()["hourly"] == 0.8
    assert estimate.Estimate(estimate.Place("us-east-1"), [], [one]).describe()["hourly"] == 0.8
    assert made([], [other]).describe()["hourly"] is None
    assert made([], [one], "us-gov-west-1").describe()["hourly"] is None
    assert (made([both], [one]).unknown(), made([both], [other]).unknown()) == ([], [])
    assert made([], [other]).unknown() == ["2 x g5.xlarge (workers)"]
    new = Charge(GROUP, spot_instance("g5.xlarge", "d"), 2)
    assert estimate.Estimate(estimate.Place("us-east-1"), [], [new]).describe()["problem"] == ""


def test_an_old_price_is_better_than_none(told, tmp_path, monkeypatch):
    """AWS is asked again, and after a failure, the old price is used with its date, and the problem is told for as long."""
    file, read_at = tmp_path / "prices.json", float(int(time.time() - 30 * 24 * 3600))
    monkeypatch.setattr(cache, "path", lambda _region, _endpoint: file)
    cache.write(file, {GATEWAY: cache.Known(Price(0.05, "USD"), read_at)})
    for _attempt in range(2):
        found = made([], [Charge(NAT, GATEWAY, 1)]).describe()
        assert (found["hourly"], found["read_at"], found["published"], found["problem"]) == (0.05, read_at, "", "why")
        told[GATEWAY] = Price(0.06, "USD")
    file.unlink()
    assert made([], [Charge(NAT, GATEWAY, 1)]).describe()["hourly"] == 0.06


def test_an_old_price_of_a_spot_instance_is_none(told, tmp_path, monkeypatch):
    file, hour, spot = tmp_path / "prices.json", 3600, spot_instance("g5.xlarge", ["a"])
    monkeypatch.setattr(cache, "path", lambda _region, _endpoint: file)
    monkeypatch.setattr(estimate, "environment_endpoint", lambda _service: "")
    for age, price in ((23 * hour, 0.4), (25 * hour, None)):
        cache.write(file, {spot: cache.Known(Price(0.4, "USD"), time.time() - age)})
        for _attempt in range(2):
            found = made([], [Charge(GROUP, spot, 1)])
            assert (found.describe()["hourly"], found.describe()["problem"]) == (price, "why no Spot prices")
            assert found.unknown() == ([] if price else ["1 x g5.xlarge (workers)"])
    # The report of a job is about the past
    assert estimate.Estimate(estimate.Place("us-east-1"), [], [Charge(GROUP, spot, 1)]).describe()["hourly"] == 0.4


def test_a_price_of_another_region_is_known_and_no_price_for_a_limit(told):
    nodes, gateway = Charge(GROUP, instance("g5.xlarge"), 4), Charge(NAT, GATEWAY, 1)
    for region, foreign in (("us-east-1", False), ("sa-east-1", True)):
        found = made([], [nodes, gateway], region)
        assert [(each["hourly"] > 0, each["foreign"]) for each in found.describe()["charges"]] == [(True, foreign)] * 2
        assert found.unknown() == (["4 x g5.xlarge (workers) in sa-east-1"] if foreign else [])
    assert made([nodes], [nodes], "sa-east-1").unknown() == []
    told[nodes.product] = Price(1.5, "USD")
    assert made([], [nodes, gateway], "sa-east-1").unknown() == []


def test_data_has_a_price_per_month(told):
    found = made([], [Charge(DATA, STORED, 0)]).describe()
    assert (found["hourly"], found["data"]) == (0, [{"kind": "file_system", "key": "main", "monthly": pytest.approx(0.3)}])
