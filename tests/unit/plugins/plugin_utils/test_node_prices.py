"""Tests of the prices of nodes in the inventory."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.charges import products as emr_products
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing import cache, instance_products
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.price_list import Price
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import node_prices
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output.prices import hourly_of_nodes
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.cost_limit import limited_seconds

NODE = {"group": "workers", "instance_type": "g5.xlarge", "market": "on-demand", "zone": "us-east-1a"}
VARIABLES = {"hostvars": {}, "deeplearning_region": "us-east-1"}


@pytest.fixture(autouse=True)
def table(monkeypatch, tmp_path):
    """Return the nodes in the inventory, which a test can change. There are no prices of earlier runs."""
    nodes = {"c-worker2": dict(NODE)}
    monkeypatch.setattr(node_prices, "node_table", lambda _variables: nodes)
    monkeypatch.setattr(cache, "path", lambda _region, _endpoint: tmp_path / "prices.json")
    return nodes


def hourly(**variables):
    price = node_prices.price_of_nodes({**VARIABLES, **variables})
    return price and hourly_of_nodes(price)


def test_a_published_price_is_better_than_none(table):
    assert hourly() == 1.006
    table["c-worker3"] = {key: NODE[key] for key in ("group", "instance_type")}
    assert hourly() == 1.006
    assert hourly(deeplearning_region="cn-north-1") == 0


def test_a_price_that_another_run_has_kept(tmp_path, table):
    product = instance_products.spot_instance("g5.xlarge", {"us-east-1a"})
    cache.write(tmp_path / "prices.json", {product: cache.Known(Price(0.4, "USD"), cache.time.time())})
    table["c-worker2"]["market"] = "spot"
    assert hourly() == 0.4
    table["c-worker2"]["zone"] = "us-east-1b"
    assert hourly() == 0, "a Spot Instance in another zone has another price"


def test_the_price_of_the_run_counts():
    price = {"charges": [{"kind": "auto_scaling_group", "key": "workers", "product": "instance", "quantity": 2, "hourly": 5.0}]}
    assert hourly(hostvars={"localhost": {"provision_result": {"price": price}}}) == 2.5


def test_a_known_price_is_better_than_one_without_volumes(table):
    charge = {"kind": "auto_scaling_group", "key": "workers", "product": "instance", "quantity": 2, "hourly": 5.0}
    assert node_prices.price_of_nodes(VARIABLES, {"charges": [charge]}) == {"charges": [charge]}
    assert node_prices.price_of_nodes({**VARIABLES, "deeplearning_prices": False}, {"charges": [charge]}) is None


def test_no_price(table):
    assert hourly(deeplearning_prices="false") is None
    table.clear()
    assert hourly() is None


def test_emr_has_a_price_of_its_own(tmp_path, table):
    assert hourly(deeplearning_node_service="emr") == 0, "the price of EMR is not published"
    price = node_prices.price_of_nodes({**VARIABLES, "deeplearning_node_service": "emr"})
    with pytest.raises(ValueError, match=r"the price of EMR on 1 x g5\.xlarge \(workers\), .* is not known\..* Run the playbook info"):
        limited_seconds(40, 0, price, 1)
    node = {**NODE, "volumes": [["gp3", 15, 3000, 125], ["gp2", 64, 192, None]]}
    (*_others, fee, _root, _data) = emr_products(node["instance_type"], node["volumes"])
    cache.write(tmp_path / "prices.json", {fee[0]: cache.Known(Price(0.25, "USD"), cache.time.time())})
    table["c-worker2"] = node
    # A root of 15 GB at 0.08 USD, and 64 GB at 0.10 USD per month
    assert hourly(deeplearning_node_service="emr") == pytest.approx(1.006 + 0.25 + (1.2 + 6.4) / 730)
    table["c-worker2"] = NODE
    assert hourly(deeplearning_node_service="emr") == 0, "nobody knows the volumes"
