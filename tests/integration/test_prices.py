"""What a run says that a cluster costs is what the cluster costs."""

from __future__ import annotations

import json
import os
import random
import re
import time
from typing import Any

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing import cache
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.instance_prices import DATE
from local_cloud.testing import wait_until

from .conftest import KEY_NAME, ModuleFailed, cluster_options, new_name

REGION, OTHER = "us-east-1", "eu-west-1"
# The number of random plans. `make exhaustive` checks all of them.
PLANS = 30


def random_definition(seed: int) -> dict[str, Any]:
    """Return a definition whose resources of every kind are chosen at random."""
    choose = random.Random(seed)
    market = choose.choice(["on-demand", "spot"])
    volume = choose.choice(
        [
            {"root_volume_type": "gp2"},
            {"root_volume_type": "gp3"},
            {"root_volume_type": "gp3", "root_volume_iops": 6000, "root_volume_throughput": 500},
            {"root_volume_type": "io1", "root_volume_iops": 400},
            {"root_volume_type": "io2", "root_volume_iops": choose.choice([500, 60000, 70000])},
        ]
    )
    efs = choose.choice([{}, {"efs": False}, {"throughput_mode": "provisioned", "provisioned_throughput": choose.randint(1, 50)}])
    lustre = choose.choice(
        [
            {},
            {"lustre": True, "lustre_capacity": choose.choice([1200, 2400]), "lustre_throughput": choose.choice([125, 250, 500])},
            {"lustre": True, "lustre_deployment": "SCRATCH_2", "lustre_capacity": 1200},
        ]
    )
    if efs.get("efs") is False:
        efs["mount_point"] = "/fsx" if lustre else "/data"
    # The price list does not tell the price of scratch file systems, so only that of one region is known
    region = REGION if "lustre_deployment" in lustre else choose.choice([REGION, OTHER])
    return {
        **cluster_options(new_name()),
        "region": region,
        "worker_count": choose.randint(0, 4),
        "instance_type": choose.choice(["c5.large", "g5.xlarge", "g4dn.12xlarge"]) if market == "on-demand" else "g5.xlarge",
        "market": market,
        "master_market": choose.choice([None, "on-demand"]) if market == "spot" else None,
        "root_volume_size": choose.randint(100, 300),
        "nat": choose.choice(["single", "per_zone", "none"]),
        "zones": [region + zone for zone in choose.choice(["a", "ab"])],
        "interface_endpoints": choose.choice([[], ["ssm"], ["ssm", "logs"]]),
        "master_public_address": choose.choice([True, False]),
        "placement": "none",
        **volume,
        **efs,
        **lustre,
    }


@pytest.fixture(scope="module", autouse=True)
def _key_of_other_region(cloud):
    cloud.client("ec2", OTHER).create_key_pair(KeyName=KEY_NAME)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.exhaustive] if seed > 3 else []) for seed in range(1, PLANS + 1)])
def test_the_estimate_is_what_the_meter_counts(cloud, run, seed):
    """The estimate of check mode, in an empty account, equals that of the run and that of a run without changes."""
    options = random_definition(seed)
    region = options["region"]
    before = sum(cloud.control.cost(region).values())
    try:
        predicted = run("cluster", **options, prices=True, check=True)
        made = run("cluster", **options, prices=True)
        metered = sum(cloud.control.cost(region).values()) - before
        again = run("cluster", **options, prices=True)
        for result in (predicted, made, again):
            assert result["price"]["hourly"] == pytest.approx(metered, rel=0.01), result["price"]
            assert (result["price"]["problem"], result["price"]["currency"]) == ("", "USD")
        assert sum(change["hourly"] for change in predicted["changes"]) == pytest.approx(metered, rel=0.01)
        assert again["changes"] == []
    finally:
        gone = run("cluster", cluster=options["cluster"], region=region, state="absent", delete_data=True, prices=True)
    assert gone["price"]["hourly"] == 0
    assert sum(change["hourly"] for change in gone["changes"]) == pytest.approx(-metered, rel=0.01)


def test_prices_in_the_cache_are_not_asked_for_again(cloud, run, definition, tmp_path, monkeypatch):
    """A second controller process asks AWS for no price, until a price is too old."""
    file = tmp_path / "folder" / "prices.json"
    monkeypatch.setattr(cache, "path", lambda _region, _endpoint: file)
    run("cluster", **definition, prices=True, check=True)
    first = asked(cloud)
    assert set(first) == {"GetProducts"}
    assert run("cluster", **definition, prices=True, check=True)["price"]["problem"] == ""
    assert asked(cloud) == first
    entries = json.loads(file.read_text())
    entries[next(iter(entries))]["read_at"] -= 8 * 24 * 3600
    file.write_text(json.dumps(entries))
    run("cluster", **definition, prices=True, check=True)
    assert len(asked(cloud)) == len(first) + 1
    file.write_text("damaged")
    run("cluster", **definition, prices=True, check=True)
    assert len(asked(cloud)) == 2 * len(first) + 1


def test_an_endpoint_of_the_options_has_prices_of_its_own(cloud, run, definition, tmp_path, monkeypatch):
    """Its prices never get into the file with the prices of AWS."""
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    price = run("cluster", **definition, prices=True, check=True, endpoint_url=endpoint)["price"]
    assert (price["endpoint"], price["problem"], list(tmp_path.iterdir())) == (endpoint, "", [])


def test_without_prices_aws_is_not_asked(cloud, run, definition):
    result = run("cluster", **definition, prices=False, check=True)
    assert (result["price"], {change["hourly"] for change in result["changes"]}) == (None, {None})
    assert asked(cloud) == []


def test_an_unchanged_spot_cluster_asks_for_its_own_zones(cloud, run, definition, name):
    options = {**definition, "instance_type": "g5.xlarge", "market": "spot", "zones": ["us-east-1a", "us-east-1b"]}
    made = run("cluster", **options, prices=True)
    cloud.control.set_spot_prices({"g5.xlarge": 7.5})
    found = run("cluster_info", cluster=name)["price"]
    (master,) = (each for each in found["charges"] if (each["key"], each["product"]) == ("master", "spot_instance"))
    assert (master["hourly"], made["price"]["hourly"] < found["hourly"]) == (7.5, True)
    run("cluster", cluster=name, state="absent")


def test_a_maximum_below_the_spot_price_is_a_warning(cloud, run, definition):
    """In one zone, nodes can be launched, and so they can by the second alternative."""
    options = {**definition, "instance_type": "g5.xlarge", "market": "spot", "prices": True, "zones": ["us-east-1a", "us-east-1b"]}
    cloud.control.set_spot_prices({"g5.xlarge": 0.75})

    def told(most, **more):
        found = run("cluster_validation", **{**options, "spot_max_price": most, **more})["findings"]
        return [each["message"] for each in found if each["validator"] == "spot_max_price"]

    (message,) = told("0.5")
    assert "a Spot Instance of type g5.xlarge in us-east-1a, us-east-1b costs 0.750 USD per hour at present, more than 0.5." in message
    assert (told("0.75"), told("0.5", alternatives=[{"market": "on-demand"}]), told(None)) == ([], [], [])
    assert told("0.5", prices=False) == []
    cloud.control.set_faults([{"action": "DescribeSpotPriceHistory", "code": "UnauthorizedOperation", "status": 403}])
    assert told("0.5") == []


def test_only_running_nodes_cost_money(cloud, run, definition, name):
    """The groups keep their size, and AWS can lack the capacity to launch the nodes again."""
    run("cluster", **definition, prices=True)
    for group in ("master", "workers"):
        cloud.client("autoscaling").suspend_processes(AutoScalingGroupName=f"{name}-{group}", ScalingProcesses=["Launch"])
    groups = {node["instance_id"]: node["group"] for node in run("cluster_info", cluster=name, prices=False)["nodes"]}
    listed = run("former_nodes_info", cluster=name, days=1)
    assert dict(zip(listed["running_instance_ids"], listed["running_groups"], strict=True)) == groups
    cloud.client("ec2").terminate_instances(InstanceIds=[*groups])
    wait_until(lambda: not run("cluster_info", cluster=name, prices=False)["nodes"])
    price = run("cluster_info", cluster=name)["price"]
    assert (price["hourly"], {each["kind"] for each in price["charges"]}) == (
        pytest.approx(0.05),
        {"nat_gateway", "elastic_ip", "file_system"},
    )
    run("cluster", cluster=name, state="absent", delete_data=True)


FAULTS = {
    "denied": {"code": "AccessDeniedException", "status": 400},
    "throttled": {"code": "ThrottlingException", "status": 400},
    "broken": {"code": "InternalErrorException", "status": 500},
    "slow": {"latency": 30},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_missing_price_delays_and_breaks_nothing(cloud, run, definition, tmp_path, monkeypatch, fault):
    """Published prices take the place of those that AWS does not tell, and AWS is not asked again for a while."""
    file = tmp_path / "prices.json"
    monkeypatch.setattr(cache, "path", lambda _region, _endpoint: file)
    cloud.control.set_faults([{"action": "GetProducts", **FAULTS[fault]}])
    began = time.monotonic()
    price = run("cluster", **definition, prices=True, check=True)["price"]
    assert time.monotonic() - began < 25, "a price must not wait for the price list"
    assert (price["published"], price["read_at"]) == (DATE, None)
    assert price["problem"], "why is told"
    assert price["hourly"] == pytest.approx(3 * (0.085 + 100 * 0.08 / 730) + 2 * 0.005 + 0.045)
    calls = len(asked(cloud))
    assert run("cluster", **definition, prices=True, check=True)["price"]["published"] == DATE
    assert len(asked(cloud)) == calls


def test_a_price_that_nobody_knows_is_named(cloud, run, definition):
    """The types of the newest instances can be missing in the price list and among published prices."""
    cloud.control.set_faults([{"action": "GetProducts", "code": "AccessDeniedException", "status": 400}])
    result = run("cluster", **{**definition, "instance_type": "m5ad.large"}, prices=True, check=True)
    unknown = {(each["key"], each["variant"]) for each in result["price"]["charges"] if each["hourly"] is None}
    assert unknown == {("master", "m5ad.large"), ("workers", "m5ad.large")}
    assert {change["key"] for change in result["changes"] if change["hourly"] is None} == {"master", "workers"}


def test_validation_tells_the_price(run, definition):
    predicted = run("cluster", **definition, prices=True, check=True)["price"]
    told = run("cluster_validation", **definition, prices=True)["price"]
    assert {**told, "read_at": 0} == {**predicted, "read_at": 0}


@pytest.mark.parametrize(("limit", "is_told"), [(9.4, False), (9.3, True), (None, False)])
@pytest.mark.parametrize("module", ["cluster", "cluster_validation"])
def test_a_price_above_the_expected_one_is_a_warning(run, definition, name, module, limit, is_told):
    result = run(module, **definition, prices=True, check=True, price_warning=limit)
    told = [each for each in map(str, result.get("warnings", [])) if "price_warning" in each]
    assert len(told) == is_told
    assert all(
        re.search(f"cluster {name} costs 9.31 USD per day at prices of [0-9-]+, more than the 9.30 that the definition", each)
        for each in told
    )


def test_kept_data_costs_money(cloud, run, definition, name):
    """A file system whose data is kept continues to cost, and each run says so."""
    run("cluster", **definition, prices=True)
    kept = run("cluster", cluster=name, state="absent", prices=True)["price"]
    assert [(each["product"], each["hourly"]) for each in kept["charges"]] == [("data", 0.0)]
    assert kept["data"] == [{"kind": "file_system", "key": "main", "monthly": pytest.approx(0.3)}]
    run("cluster", cluster=name, state="absent", delete_data=True)


def asked(cloud) -> list[str]:
    return [call["action"] for call in cloud.control.calls() if call["service"] == "pricing"]


def test_a_run_that_enforces_the_warning_changes_nothing_above_it(cloud, run, definition):
    options = {**definition, "prices": True, "price_warning": 1.0, "enforce_price_warning": True}
    cloud.control.forget_calls()
    for check in (True, False):
        with pytest.raises(
            ModuleFailed, match=r"price_warning: this run was stopped because after it, cluster .* USD per day at .*Nothing was changed\."
        ) as failure:
            run("cluster", **options, check=check)
        assert failure.value.result["price_exceeded"]
    with pytest.raises(ModuleFailed, match=r"price_warning: .* USD per day") as failure:
        run("cluster_validation", **options)
    assert (failure.value.result["valid"], failure.value.result["findings"][0]["level"]) == (False, "error")
    allowed = run("cluster_validation", **{**options, "enforce_price_warning": False})
    assert [each["level"] for each in allowed["findings"] if each["message"].startswith("price_warning: cluster")] == ["warning"]
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []
    run("cluster", **{**options, "enforce_price_warning": False})
    assert run("cluster", **options)["changes"] == []
    assert run("cluster_validation", **{**options, "worker_count": 1})["valid"], "the price falls"
    assert kinds_of(run("cluster", **{**options, "worker_count": 1})) >= {"auto_scaling_group"}
    advice = "To see what costs how much, run the playbook validate with enforce_price_warning: false. To make the changes, set enforce"
    with pytest.raises(ModuleFailed, match=advice):
        run("cluster", **{**options, "worker_count": 3})


@pytest.mark.parametrize(("market", "other"), [("spot", "on-demand"), ("on-demand", "spot")])
def test_until_nodes_are_replaced_new_ones_are_in_the_market_of_the_others(cloud, run, definition, name, market, other):
    """Plan, limit, run and information agree: an additional node is launched and costs as the nodes that exist."""
    spot = {"instance_type": "g5.xlarge", "zones": ["us-east-1a", "us-east-1b"], "worker_count": 1, "prices": True}
    cloud.control.set_spot_prices({"g5.xlarge": 0.25})
    made = run("cluster", **{**definition, **spot}, market=market)
    more = {**definition, **spot, "market": other, "worker_count": 2, "allow_outdated_nodes": True}
    predicted, changed = (run("cluster", **more, check=check) for check in (True, False))
    reservations = cloud.client("ec2").describe_instances(Filters=alive(name))["Reservations"]
    instances = [instance for each in reservations for instance in each["Instances"]]
    assert {each.get("InstanceLifecycle", "on-demand") for each in instances} == {market}
    node = (made["price"]["hourly"] - 0.05) / 2  # without the gateway
    again, found = run("cluster", **more, check=True), run("cluster_info", cluster=name)
    prices = [each["price"]["hourly"] for each in (predicted, changed, again, found)]
    assert prices == pytest.approx([made["price"]["hourly"] + node] * 4, rel=0.01)
    for result in (predicted, changed):
        assert result["alternative"].endswith(f"({market})")
        assert "new nodes are launched with the former template, too" in str(result["warnings"])
    assert again["changes"] == []
    run("cluster", cluster=name, state="absent", delete_data=True)


def alive(name):
    return [{"Name": "tag:deeplearning:cluster", "Values": [name]}, {"Name": "instance-state-name", "Values": ["running"]}]


def test_no_price_can_be_enforced_without_one(run, definition):
    alone = {"cluster": definition["cluster"], "components": ["instance_role"]}
    for module, given in (("cluster", definition), ("cluster_validation", definition), ("cluster", alone)):
        with pytest.raises(ModuleFailed, match=r"enforce_price_warning: there is no price to enforce\. Set price_warning"):
            run(module, **given, enforce_price_warning=True, check=True)
        with pytest.raises(ModuleFailed, match=r"there is no price to enforce, because the option prices is false\."):
            run(module, **given, enforce_price_warning=True, price_warning=600.0, prices=False, check=True)
    with pytest.raises(ModuleFailed, match=r"price_warning: -5 is negative\. Specify a price per day, such as 600\."):
        run("cluster", **definition, price_warning=-5.0, check=True)


def test_an_alternative_above_the_price_is_skipped(cloud, run, definition):
    zones = ("us-east-1a", "us-east-1b", "us-east-1c")
    cloud.control.set_capacity({"c5.large": dict.fromkeys(zones, 0)})
    options = {
        **definition,
        "capacity_timeout": 1,
        "alternatives": [{"instance_type": "p4d.24xlarge"}],
        "suppress_validators": ["vcpu_quota"],
    }
    with pytest.raises(ModuleFailed, match=r"insufficient capacity.*p4d.*price_warning: with this alternative, cluster") as failure:
        run("cluster", **options, efa=False, placement="none", prices=True, price_warning=100.0, enforce_price_warning=True)
    assert "price_exceeded" not in failure.value.result


def test_a_run_that_enforces_the_warning_refuses_unknown_prices(cloud, run, definition):
    """A price that nobody knows is no price of zero."""
    cloud.control.set_faults([{"action": "GetProducts", "code": "AccessDeniedException", "status": 400}])
    options = {**definition, "instance_type": "m5ad.large", "prices": True, "price_warning": 100.0}
    told = r"price of 1 x m5ad.large (master), 2 x m5ad.large (workers) is not known"
    with pytest.raises(ModuleFailed, match=rf"because after it, the {re.escape(told)}\. Nothing was changed\.") as failure:
        run("cluster", **options, enforce_price_warning=True)
    assert failure.value.result["price_exceeded"]
    assert re.search("AccessDenied.*Allow pricing:GetProducts", str(failure.value))
    assert told in str(run("cluster", **options, check=True)["warnings"])


def test_an_alternative_of_unknown_price_is_skipped(cloud, run, definition):
    cloud.control.set_faults([{"action": "GetProducts", "code": "AccessDeniedException", "status": 400}])
    cloud.control.set_capacity({"c5.large": dict.fromkeys(("us-east-1a", "us-east-1b", "us-east-1c"), 0)})
    options = {**definition, "capacity_timeout": 1, "alternatives": [{"instance_type": "m5ad.large"}]}
    with pytest.raises(
        ModuleFailed, match=r"m5ad.*price_warning: with this alternative, the price of .* x m5ad.large \(workers\) is not known\."
    ):
        run("cluster", **options, placement="none", prices=True, price_warning=1000.0, enforce_price_warning=True)


def kinds_of(result):
    return {change["kind"] for change in result["changes"]}
