"""Killed controllers, lost responses and throttled calls: the next run completes the work, and nothing is created twice."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter

import pytest

from .clusters import numbers
from .conftest import FAST, REGION
from .killing import kill_at, start

NOT_COUNTED = ("ec2:instance", "ec2:natgateway", "ec2:volume")  # deleted resources keep their tags for a while
SAMPLE = 20  # test every 20th call, except in make test-all


def census(cloud, name):
    """Return the number of the cluster's tagged resources of each kind, and the cluster's node numbers."""
    tagged = (
        cloud.client("resourcegroupstaggingapi")
        .get_paginator("get_resources")
        .paginate(TagFilters=[{"Key": "deeplearning:cluster", "Values": [name]}])
    )
    kinds = (arn["ResourceARN"].split(":", 5) for page in tagged for arn in page["ResourceTagMappingList"])
    count = Counter(f"{parts[2]}:{parts[5].split('/')[0]}" for parts in kinds)
    ec2 = cloud.client("ec2")
    own = [{"Name": "tag:deeplearning:cluster", "Values": [name]}]
    gateways = ec2.describe_nat_gateways(Filter=[*own, {"Name": "state", "Values": ["pending", "available"]}])["NatGateways"]
    addresses = ec2.describe_addresses(Filters=own)["Addresses"]
    return {
        **{kind: number for kind, number in count.items() if kind not in NOT_COUNTED},
        "nat gateways": len(gateways),
        "addresses": len(addresses),
        "numbers": sorted(numbers(cloud, name).values()),
    }


@pytest.fixture(scope="module")
def expected(cloud, tmp_path_factory):
    """The result of census() for a cluster that was created without faults, and the write calls of that run."""
    cloud.control.set_delays(**FAST)
    options = dict(DEFINITION, cluster="undisturbed")
    cloud.control.forget_calls()
    assert start(options).communicate()[0]
    writes = [call["action"] for call in cloud.control.calls() if not call["read_only"]]
    return census(cloud, "undisturbed"), writes


DEFINITION = {
    "region": REGION,
    "ssh_cidrs": ["203.0.113.0/24"],
    "instance_type": "c5.large",
    "worker_count": 2,
    "image_parameter": "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04/latest/ami-id",
    "key_name": "tests",
    "wait_timeout": 30,
}


def points(writes, every):
    """Return every nth write call, as a pair: the action, and the number of the call among all calls with this action.

    The order of concurrent calls varies.
    """
    count = Counter(writes)
    return [{"action": action, "nth": nth} for action in sorted(count) for nth in range(1, count[action] + 1)][::every]


@pytest.mark.parametrize("every", [SAMPLE, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("stage", ["before", "after"])
def test_a_controller_killed_while_it_creates(cloud, run, expected, every, stage):
    cloud.control.set_quotas({"L-F678F1CE": 1000, "L-0263D0A3": 1000})
    clean, writes = expected
    for number, call in enumerate(points(writes, every)):
        options = dict(DEFINITION, cluster=f"killed-{stage}-{every}-{number}")
        assert kill_at(cloud, options, stage, **call)
        run("cluster", **options)
        assert census(cloud, options["cluster"]) == clean, f"killed {stage} {call}"
        assert not run("cluster", **options)["changed"], f"killed {stage} {call}"
        run("cluster", cluster=options["cluster"], state="absent", delete_data=True)


@pytest.mark.parametrize("every", [SAMPLE, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_an_answer_that_is_lost_makes_nothing_twice(cloud, run, expected, every):
    clean, writes = expected
    for number, call in enumerate(points(writes, every)):
        options = dict(DEFINITION, cluster=f"lost-{every}-{number}")
        cloud.control.set_faults([{"read_only": False, **call, "code": "InternalError", "status": 500, "after": True}])
        run("cluster", **options)
        assert census(cloud, options["cluster"]) == clean, f"lost response to {call}"
        cloud.control.set_faults([])
        assert not run("cluster", **options)["changed"]
        run("cluster", cluster=options["cluster"], state="absent", delete_data=True)


def test_a_server_error_now_and_then(cloud, run, expected):
    options = dict(DEFINITION, cluster="shaky")
    cloud.control.set_faults([{"code": "InternalError", "status": 500, "probability": 0.05}])
    run("cluster", **options)
    cloud.control.set_faults([])
    assert census(cloud, "shaky") == expected[0]


@pytest.mark.parametrize("every", [SAMPLE, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_a_controller_killed_while_it_deletes(cloud, run, every):
    options = dict(DEFINITION, cluster=f"half-{every}")
    absent = {"region": REGION, "cluster": options["cluster"], "state": "absent", "delete_data": True}
    run("cluster", **options)
    call = 1
    while kill_at(cloud, absent, "after" if call % 2 else "before", nth=call):
        call += every
    assert not {kind: count for kind, count in census(cloud, options["cluster"]).items() if count}
    assert not run("cluster", **absent)["changed"]


@pytest.fixture
def interrupt(cloud, repository, tmp_path):
    """Run playbooks/provision.yml, send it a signal when it prints certain words, and return its exit status and remaining output."""

    def run(options, words, number=signal.SIGINT):
        variables = {f"deeplearning_{name}": value for name, value in options.items() if name not in ("region", "cluster")}
        inventory = {"plugin": "deeplearning.cluster.nodes", "cluster": options["cluster"], "region": options["region"]}
        (tmp_path / "nodes.yml").write_text(json.dumps(inventory))
        command = ["ansible-playbook", "-i", str(tmp_path / "nodes.yml"), "playbooks/provision.yml", "-e", json.dumps(variables)]
        environment = {**cloud.environment, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            command, env=environment, cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        shown = ""
        for line in process.stdout:
            shown += line
            if words in line:
                break
        else:
            raise AssertionError(shown)
        process.send_signal(number)
        rest = process.communicate()[0]
        return process.returncode, rest

    return run


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive)])
def test_an_interrupted_run_tells_what_goes_on_and_costs_money(cloud, run, expected, interrupt, tmp_path, number):
    name = f"asked-{number.value}"
    options = dict(DEFINITION, cluster=name, wait_timeout=900, capacity_timeout=900, network_cidr="10.0.0.0/16")
    cloud.control.set_capacity({"c5.large": {"us-east-1a": 1, "us-east-1b": 0, "us-east-1c": 0}})
    status, shown = interrupt(options, "0 of 2 nodes in service", number)
    assert status == (99 if number == signal.SIGINT else -signal.SIGTERM), shown
    assert f"Cluster {name}: Interrupted. Applied changes: create " in shown
    assert f"AWS continues to launch nodes in {name}-master and {name}-workers, and these nodes cost money." in shown
    assert "These resources still exist and cost money: Elastic IP address nat, EFS file system main, NAT gateway main." in shown
    destroy = f"ansible-playbook -i {tmp_path / 'nodes.yml'} deeplearning.cluster.destroy"
    assert f"To stop these costs, delete the cluster with {destroy}" in shown
    cloud.control.reset()
    cloud.control.set_delays(**FAST)
    options["capacity_timeout"] = 30
    run("cluster", **options)
    assert census(cloud, name) == expected[0]
    assert not run("cluster", **options)["changed"]


def test_an_interrupted_run_lets_a_call_end_and_makes_no_other(cloud, run, expected):
    options = dict(DEFINITION, cluster="gentle")
    cloud.control.set_faults([{"action": "CreateSubnet", "nth": 1, "pause": "after"}])
    process = start(options)
    cloud.control.wait_until_paused()
    process.send_signal(signal.SIGINT)
    cloud.control.set_faults([])
    cloud.control.forget_calls()
    cloud.control.resume()
    output = process.communicate()[0].decode()
    result = json.loads(output[output.index("{") :])
    assert "Interrupted. Applied changes: create " in result["msg"]
    assert [change["key"] for change in result["changes"] if change["kind"] == "subnet"]
    run("cluster", **options)
    assert census(cloud, "gentle") == expected[0]
