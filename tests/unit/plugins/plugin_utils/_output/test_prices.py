"""Tests of the words for prices."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output import prices

READ_AT = 1795910400  # 2026-11-29


def charge(product, quantity=1, hourly=0.5, kind="auto_scaling_group", key="workers", variant="p5.48xlarge"):
    return {"kind": kind, "key": key, "product": product, "variant": variant, "quantity": quantity, "hourly": hourly}


def price(*charges, **more):
    total = sum(each["hourly"] or 0 for each in charges)
    facts = {
        "hourly": total,
        "currency": "USD",
        "charges": list(charges),
        "data": [],
        "read_at": READ_AT,
        "published": "",
        "problem": "",
        "endpoint": "",
    }
    return {**facts, **more}


@pytest.mark.parametrize(
    ("value", "currency", "text"),
    [
        (0, "USD", "0.000 USD"),
        (0.005, "USD", "0.005 USD"),
        (0.0001, "USD", "0.0001 USD"),
        (0.0009, "USD", "0.001 USD"),
        (-0.00048, "USD", "-0.0005 USD"),
        (1, "CNY", "1.00 CNY"),
        (-1234.567, "USD", "-1,234.57 USD"),
    ],
)
def test_an_amount(value, currency, text):
    assert prices.amount(value, currency) == text


@pytest.mark.parametrize(("hourly", "text"), [(None, ""), (0.0, ""), (0.25, "+0.250 USD per hour"), (-3, "-3.00 USD per hour")])
def test_a_difference(hourly, text):
    assert prices.difference(hourly, "USD") == text


@pytest.mark.parametrize(
    ("told", "name"),
    [
        (charge("instance", 3), "3 x p5.48xlarge (workers)"),
        (charge("spot_instance"), "1 x p5.48xlarge (Spot, workers)"),
        (charge("capacity_block", 2), "2 x p5.48xlarge (workers) in a Capacity Block, paid in advance"),
        (charge("volume", 1000, variant="gp3"), "1,000 GB in gp3 volumes, workers"),
        (charge("volume_throughput", 0.25, variant="gp3"), "0.25 GiB/s of gp3 volumes, workers"),
        (charge("endpoint", 2, kind="vpc_endpoint", key="ssm"), "VPC endpoint ssm, 2 zones"),
        (charge("endpoint", 1, kind="vpc_endpoint", key="ssm"), "VPC endpoint ssm, 1 zone"),
        (charge("data", 1234.5, kind="file_system", key="main"), "1,234.5 GB of data in file system main"),
    ],
)
def test_a_charge_has_a_name(told, name):
    assert prices.name_of(told) == name


def test_a_price_says_what_it_leaves_out_and_how_old_it_is():
    assert prices.sentence(price(charge("instance", hourly=2))) == (
        "The cluster costs 2.00 USD per hour (48.00 USD per day), 1,460.00 USD per month, without traffic, requests, taxes and discounts. "
        "Prices: AWS Price List, read on 2026-11-29."
    )


def test_an_unknown_price_is_named():
    told = prices.sentence(price(charge("instance", hourly=2), charge("emr", hourly=None)))
    assert "discounts, and without EMR on 1 x p5.48xlarge (workers), whose price is not known." in told
    unknown = (charge("instance", 1, None, key="master"), charge("instance", 8, None))
    assert prices.per_hour(price(charge("nat_gateway", hourly=2), *unknown)) == (
        "at least 2.00 USD per hour (48.00 USD per day) at prices of 2026-11-29, without traffic and taxes; "
        "the price of 1 x p5.48xlarge (master), 8 x p5.48xlarge (workers) is not known"
    )


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ({}, " at prices of 2026-11-29"),
        ({"published": "2026-07-20", "read_at": None}, " at prices of us-east-1 of 2026-07-20"),
        ({"published": "2026-07-20"}, ", partly at prices of us-east-1 of 2026-07-20"),
        ({"problem": "Denied."}, " at prices of 2026-11-29"),
        ({"problem": "Denied.", "read_at": None}, ""),
    ],
)
def test_prices_are_dated(more, end):
    assert (
        prices.per_hour(price(charge("instance", hourly=2), **more))
        == f"2.00 USD per hour (48.00 USD per day){end}, without traffic and taxes"
    )


@pytest.mark.parametrize(
    ("read_at", "problem", "end"),
    [
        (None, "Denied.", "Prices are those that AWS published for us-east-1 on 2026-07-20. AWS has not told them: Denied."),
        (
            READ_AT,
            "",
            "Prices: AWS Price List, read on 2026-11-29. Some are those that AWS published for us-east-1 on 2026-07-20.",
        ),
    ],
)
def test_published_prices_are_named_with_their_date(read_at, problem, end):
    told = prices.sentence(price(charge("instance"), read_at=read_at, published="2026-07-20", problem=problem))
    assert told.endswith(f"discounts. {end}")


def test_why_prices_are_old_is_told():
    told = prices.source(price(charge("instance"), problem="Denied."))
    assert told == "Prices: AWS Price List, read on 2026-11-29. AWS has not told all of them anew: Denied."


@pytest.mark.parametrize(("problem", "end"), [("", "."), ("AWS has no price list.", ": AWS has no price list.")])
def test_without_any_price_that_is_said(problem, end):
    unknown = price(charge("emr", hourly=None), hourly=None, read_at=None, problem=problem)
    assert prices.sentence(unknown) == f"The price of the cluster is not known. AWS has told no prices{end}"
    assert not any(map(prices.is_known, (unknown, {}, None)))
    assert prices.is_known(price())


def test_prices_of_another_endpoint_are_not_called_those_of_aws():
    told = prices.sentence(price(charge("instance"), endpoint="http://127.0.0.1:5"))
    assert told.endswith("Prices: the endpoint http://127.0.0.1:5, read on 2026-11-29.")


def test_data_that_grows_has_a_price_of_its_own():
    told = prices.sentence(price(charge("data"), data=[{"kind": "file_system", "key": "main", "monthly": 0.3}]))
    assert " Each GB of data in file system main costs 0.300 USD per month. " in told
    unknown = prices.sentence(price(charge("data"), data=[{"kind": "file_system", "key": "main", "monthly": None}]))
    assert "Each GB" not in unknown


NODES = [{"group": "master", "launched_at": READ_AT - 3600}, {"group": "workers", "launched_at": READ_AT - 7200}]


def test_what_nodes_have_cost_since_their_launch():
    """Each node costs its share of its group, with volumes, and from its own launch on."""
    charges = [charge("instance", 1, 2.0, key="master"), charge("instance", 4, 8.0), charge("volume", 400, 0.4)]
    other = charge("nat_gateway", 1, 5.0, kind="nat_gateway", key="main")
    told = "Since they were launched, the running nodes have cost 6.20 USD at these prices."
    assert prices.since_launch(price(*charges, other), NODES, READ_AT) == told


def test_nodes_have_the_price_of_the_most_expensive_group():
    master, workers = charge("instance", 1, 2.0, key="master"), [charge("instance", 4, 38.0), charge("volume", 400, 2.0)]
    assert prices.hourly_of_nodes(price(master, *workers)) == 10.0
    assert prices.hourly_of_nodes(price({**master, "hourly": 20.0}, *workers)) == 20.0
    assert prices.hourly_of_nodes(price(master, charge("instance", 0, 0.0), charge("volume", 0, 0.0))) == 2.0, "there are no workers"
    assert prices.hourly_of_nodes(price({**master, "hourly": None}, *workers)) == 0.0


def test_what_is_paid_in_advance_is_not_in_the_cost_so_far():
    """The volumes of these nodes are not the price of a node."""
    block = [charge("capacity_block", 4, 0.0), charge("volume", 400, 0.4)]
    told = prices.since_launch(price(charge("instance", 1, 2.0, key="master"), *block), NODES, READ_AT)
    assert told == (
        "Since they were launched, the running nodes have cost 2.00 USD at these prices, without the Capacity Block, which is paid in "
        "advance."
    )
    assert prices.since_launch(price(*block), NODES[1:], READ_AT) == ""


def test_without_all_prices_the_cost_so_far_is_not_told():
    known, unknown = charge("instance", 1, 2.0, key="master"), charge("instance", 4, None)
    assert prices.since_launch(price(known, unknown), NODES, READ_AT) == ""
    assert prices.since_launch(price(known), NODES, READ_AT) == "", "the group of a node may be gone"
    assert prices.since_launch(price(known), [], READ_AT) == ""


def test_each_charge_has_a_line_unless_there_is_none_of_it():
    """A file system without data has a line, because it fills."""
    empty = charge("data", 0, 0.0, "file_system", "main")
    told = price(charge("instance", hourly=1234.5), charge("endpoint", 0, 0.0), empty, charge("emr", hourly=None))
    assert prices.lines(told)[:-1] == [
        f"  {'1 x p5.48xlarge (workers)':48} 1,234.50 USD per hour",
        f"  {'0 GB of data in file system main':48} 0.000 USD per hour",
        f"  {'EMR on 1 x p5.48xlarge (workers)':48} not known",
    ]
    assert prices.lines(price()) == []
