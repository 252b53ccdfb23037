"""AWS has insufficient capacity for the desired nodes of a cluster with real hosts. The tests build on each other."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = [pytest.mark.exhaustive, pytest.mark.whole_file]

TYPE = "c5.large"
PATIENCE = ("-e", "deeplearning_capacity_timeout=20")
AT_LEAST_ONE = ("-e", "deeplearning_worker_minimum=1", *PATIENCE)


@pytest.fixture(scope="module", autouse=True)
def _an_account_with_room_afterwards(cloud, playbook):
    yield
    cloud.control.reset()
    playbook("destroy.yml", "-e", "deeplearning_delete_data=true")


@pytest.fixture
def nodes(cloud):
    """Return the instance IDs of the cluster's pending and running nodes by node number."""

    def nodes():
        filters = [
            {"Name": "tag:deeplearning:cluster", "Values": ["demo"]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        found = cloud.client("ec2").describe_instances(Filters=filters)["Reservations"]
        tags = {item["InstanceId"]: {tag["Key"]: tag["Value"] for tag in item["Tags"]} for each in found for item in each["Instances"]}
        return {int(own.get("deeplearning:number", 0)): instance_id for instance_id, own in tags.items()}

    return nodes


def test_nothing_is_left_when_there_are_none(cloud, playbook, nodes):
    cloud.control.set_capacity({TYPE: {"us-east-1a": 1}})
    failed = playbook("provision.yml", *AT_LEAST_ONE, status=2)
    assert re.search(
        r"0 of 2 nodes of demo-workers.*AWS has insufficient capacity for this launch.*The Auto Scaling groups were restored", failed.output
    )
    assert nodes() == {}


def test_a_job_runs_on_what_there_is(cloud, playbook, nodes):
    cloud.control.set_capacity({TYPE: {"us-east-1a": 2}})
    output = playbook("train.yml", *AT_LEAST_ONE, "-e", '{"training_job_arguments": ["--epochs", "2"]}').output
    assert re.search(r"demo-workers: [01] of 2 nodes in service, c5.large in us-east-1a \(on-demand\).*, \d+ of \d+ s", output), (
        "no progress was shown"
    )
    assert "The cluster has 1 of 2 workers, which deeplearning_worker_minimum allows" in re.sub(r"\s+", " ", output)
    assert "hosts        2 (demo-master, demo-worker2)" in output
    assert set(nodes()) == {1, 2}


def test_the_rest_comes_when_it_is_asked_for(cloud, playbook, nodes):
    before = nodes()
    cloud.control.set_capacity({TYPE: {"us-east-1a": None}})
    assert playbook("provision.yml", *AT_LEAST_ONE).recap["localhost"]["changed"] == 0
    cloud.control.fail_launches({TYPE: 1})
    playbook("provision.yml", "-e", "deeplearning_grow=true", "-e", "deeplearning_worker_minimum=1")
    assert set(nodes()) == {1, 2, 3}
    assert before.items() <= nodes().items()


def test_a_cluster_that_cannot_grow_stays_as_it_was(cloud, playbook, nodes):
    before = nodes()
    cloud.control.set_capacity({TYPE: {"us-east-1a": 3}})
    failed = playbook("provision.yml", *PATIENCE, "-e", "deeplearning_worker_count=3", status=2)
    assert "2 of 3 nodes of demo-workers" in failed.output
    assert nodes() == before
    assert playbook("provision.yml", *PATIENCE).recap["localhost"]["changed"] == 0


def test_replaced_nodes_keep_their_numbers_and_train(cloud, playbook, nodes):
    cloud.control.set_capacity({TYPE: {"us-east-1a": None}})
    before = nodes()
    bigger = ("-e", "deeplearning_root_volume_size=120")
    told = playbook("provision.yml", *bigger)
    assert "so nodes 1, 2, 3 need to be replaced" in re.sub(r"\s+", " ", told.output)
    assert nodes() == before
    job = ("-e", json.dumps({"training_job_arguments": ["--epochs", "2"]}))
    refused = " ".join(playbook("train.yml", *bigger, *job, "-e", "deeplearning_worker_count=3", status=2).output.split())
    difference = "deeplearning_root_volume_size is 120, but the nodes have 100."
    assert f"demo-master, demo-worker2, demo-worker3 differ from the definition: {difference}" in refused
    assert nodes() == before, "no worker was added either"
    kept = playbook("train.yml", *bigger, *job, "-e", "deeplearning_allow_outdated_nodes=true")
    assert "3 nodes of cluster demo keep running (c5.large)" in " ".join(kept.output.split())
    assert nodes() == before
    replaced = playbook("train.yml", *bigger, *job, "-e", "deeplearning_replace_nodes=true")
    assert set(nodes()) == {1, 2, 3}
    assert not set(nodes().values()) & set(before.values())
    assert "hosts        3" in replaced.output
