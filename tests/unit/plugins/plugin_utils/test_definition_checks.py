"""Tests of what a job needs of the definition of the cluster."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.definition_checks import (
    definition_errors,
    host_errors,
    image_errors,
    own_disk_errors,
    permission_errors,
    spare_errors,
    then_errors,
)
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.node_variables import UNKNOWN

from unit.inventories import HostVars, node


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, ""),
        ({"training_job_then": "keep", "training_job_wait": False}, ""),
        ({"training_job_then": "destroy", "training_job_wait": UNKNOWN}, ""),
        ({"training_job_then": "scale_in", "training_job_wait": "yes"}, ""),
        ({"training_job_then": "destroy", "training_job_then_delay": "0.5"}, ""),
        ({"training_job_then": "destroy", "training_job_then_delay": "1h"}, "training_job_then_delay: '1h' is not a number of minutes."),
        ({"training_job_then": "delete"}, "training_job_then: 'delete' is not a valid value. Use one of keep, scale_in, destroy."),
        (
            {"training_job_then": "destroy", "training_job_wait": "false"},
            "training_job_then: 'destroy' cannot be combined with training_job_wait: false",
        ),
    ],
)
def test_what_happens_after_the_job(values, message):
    assert "".join(then_errors(values))[: len(message) or None] == message


NEEDS_STORAGE = "deeplearning_efs: false leaves the cluster without shared storage, which a job on 3 hosts needs. Set deeplearning_efs:"
RESULTS_GO = "training_job_then: 'destroy' would delete the results of the job, because deeplearning_efs: false"


@pytest.mark.parametrize(
    ("values", "messages"),
    [
        ({}, [NEEDS_STORAGE]),
        ({"deeplearning_efs": True}, []),
        ({"deeplearning_efs": None}, []),
        ({"deeplearning_efs": UNKNOWN}, []),
        ({"deeplearning_lustre": "yes"}, []),
        ({"deeplearning_lustre_file_system_id": "fs-1"}, []),
        ({"deeplearning_file_system_id": UNKNOWN}, []),
        ({"training_job_hosts": "master"}, []),
        ({"deeplearning_worker_count": 0}, []),
        ({"deeplearning_worker_count": 0, "deeplearning_spares": 2}, [NEEDS_STORAGE]),
        ({"training_job_hosts": "master", "training_job_then": "destroy"}, [RESULTS_GO]),
        ({"training_job_hosts": "master", "training_job_then": "destroy", "training_job_export": "s3://results"}, []),
        ({"training_job_hosts": "master", "training_job_then": "scale_in"}, []),
        ({"training_job_then": "destroy"}, [NEEDS_STORAGE, RESULTS_GO]),
    ],
)
def test_a_job_without_shared_storage(values, messages):
    found = list(own_disk_errors({"deeplearning_efs": "false", "deeplearning_worker_count": 2, **values}))
    assert [message[: len(expected)] for message, expected in zip(found, messages, strict=True)] == messages


@pytest.mark.parametrize(
    ("destination", "definition", "allowed"),
    [
        ("s3://results/team", {}, False),
        ("s3://results/team", {"export_destinations": ["s3://results/team"]}, True),
        ("s3://results/team/bert", {"export_destinations": ["s3://other", "s3://results/team/"]}, True),
        ("s3://results/teams", {"export_destinations": ["s3://results/team"]}, False),
        ("s3://results", {"export_destinations": ["s3://results/team"]}, False),
        ("s3://results/team", {"export_destinations": ["s3://results"]}, True),
        ("s3://results/team", {"write_buckets": ["results"]}, True),
        ("s3://results/team", {"write_buckets": ["result"]}, False),
        ("s3://results/team", {"instance_profile": "theirs"}, True),
        ("s3://results/team", {"write_buckets": UNKNOWN}, True),
        (UNKNOWN, {}, True),
        ("not a bucket, which is another message", {}, True),
        ("", {}, True),
    ],
)
def test_the_nodes_must_be_allowed_to_export(destination, definition, allowed):
    controller = {f"deeplearning_{name}": value for name, value in definition.items()}
    found = list(permission_errors({"training_job_export": destination}, controller))
    refused = [
        f"training_job_export: the nodes are not allowed to write to '{destination}'. Add it to deeplearning_export_destinations, or its"
        " bucket to deeplearning_write_buckets."
    ]
    assert found == ([] if allowed else refused)


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ("", []),
        (UNKNOWN, []),
        ("trainers", []),
        ("workers[0:1],bert-master", []),
        ("trainers:!bert-worker9", []),
        ("trainers:&bert-worker3", []),
        ("bert-*", []),
        ("workers[0-1]", []),
        ("bert-worker[!13]", []),
        ("~bert-w.*9", []),
        ("spare", []),
        ("bert-worker4", ["bert-worker4"]),
        ("bert-worker2,bert-worker5,bert-wroker3", ["bert-worker5", "bert-wroker3"]),
        ("workers:&bert-worker1", ["&bert-worker1"]),
        ("bert-worker[4-9]", ["bert-worker[4-9]"]),
    ],
)
def test_the_hosts_of_a_job_exist_after_the_cluster_is_provisioned(pattern, wrong):
    """`bert-worker4` and `bert-worker5` still exist, but the definition has two workers."""
    nodes = {"bert-master": node(1), "bert-worker4": node(4), "bert-worker5": node(5)}
    variables = {
        "groups": {"all": [*nodes, "spare"], "trainers": list(nodes), "workers": []},
        "hostvars": HostVars({}, nodes),
    }
    values = {"training_job_hosts": pattern, "deeplearning_cluster": "bert", "deeplearning_worker_count": "2"}
    nodes = "According to the definition, the nodes are bert-master, bert-worker2, bert-worker3. Use these names,"
    assert list(host_errors(values, variables)) == [
        f"training_job_hosts: {each!r} matches no host. {nodes} a group such as workers, or a higher worker count." for each in wrong
    ]


def test_spares_are_nodes_of_the_definition():
    values = {"training_job_hosts": "bert-worker4", "deeplearning_cluster": "bert", "deeplearning_worker_count": 2}
    variables = {"groups": {"all": []}, "hostvars": HostVars({"localhost": {}})}
    assert len(list(host_errors(values, variables))) == 1
    assert list(host_errors({**values, "deeplearning_spares": 1}, variables)) == []
    assert list(host_errors({**values, "deeplearning_spares": UNKNOWN}, variables)) == []


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({}, ""),
        ({"training_job_spares": 3}, ""),
        ({"training_job_spares": "4"}, "4 is too many for the 4 nodes"),
        ({"training_job_spares": 4, "training_job_hosts": "others"}, ""),
        ({"training_job_spares": 4, "deeplearning_worker_count": UNKNOWN}, ""),
        ({"training_job_spares": UNKNOWN}, ""),
    ],
)
def test_all_nodes_cannot_be_spares(values, shown):
    found = list(spare_errors({"deeplearning_worker_count": 2, "deeplearning_spares": 1, **values}))
    advice = " of the definition. Use a smaller number, or more nodes."
    assert found == ([f"training_job_spares: {shown}{advice}"] if shown else [])


def test_values_of_the_definition():
    values = {
        "deeplearning_worker_count": "three",
        "deeplearning_market": "cheap",
        "deeplearning_zones": "us-east-1a us-east-1b",
        "deeplearning_efs": "maybe",
    }
    found = list(definition_errors(values))
    assert sorted(message.partition(".")[0] for message in found) == [
        "deeplearning_efs: 'maybe' has the wrong type",
        "deeplearning_market: 'cheap' is not supported",
        "deeplearning_worker_count: 'three' has the wrong type",
        "deeplearning_zones: 'us-east-1a us-east-1b' is a string",
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([{"zones": "us-east-1a"}], "deeplearning_alternatives.zones. Supported parameters include: "),
        ([{"market": "cheap"}], "deeplearning_alternatives: value of market must be one of: "),
        ([{"market": "spot"}], None),
    ],
)
def test_the_keys_of_dictionaries_in_the_definition(value, message):
    found = list(definition_errors({"deeplearning_alternatives": value}))
    assert [each.startswith(message or "") for each in found] == [True] * (message is not None), found


def test_good_empty_and_unknown_values_of_the_definition():
    good = {
        "state": "validated",
        "worker_count": "3",
        "efs": "yes",
        "zones": ["us-east-1a"],
        "vpc_id": "",
        "worker_minimum": "",
        "market": UNKNOWN,
    }
    assert not list(definition_errors({f"deeplearning_{name}": value for name, value in good.items()}))


@pytest.mark.parametrize(("cluster", "count"), [("bert", UNKNOWN), (None, 2), (UNKNOWN, 2), ("bert", "x"), ("bert", None)])
def test_the_hosts_of_an_unknown_cluster_are_not_checked(cluster, count):
    values = {"training_job_hosts": "nope", "deeplearning_cluster": cluster, "deeplearning_worker_count": count}
    assert list(host_errors(values, {"groups": {}})) == []


def test_a_long_list_of_nodes_is_shortened():
    values = {"training_job_hosts": "nope", "deeplearning_cluster": "bert", "deeplearning_worker_count": 300}
    (found,) = host_errors(values, {"groups": {}})
    assert "According to the definition, the nodes are bert-master, bert-worker2, ..., bert-worker301." in found


@pytest.mark.parametrize(
    ("job_values", "framework", "refused"),
    [
        ({"python_environment_name": "bert"}, "base", True),
        ({"python_environment_name": "bert"}, "pytorch", False),
        ({"python_environment_name": "bert"}, None, False),
        ({"python_environment_name": UNKNOWN}, "base", False),
        ({"python_environment_name": "bert", "python_environment_requirements": "requirements.txt"}, "base", False),
        ({"python_environment_name": "bert", "node_setup_steps": UNKNOWN}, "base", False),
        ({}, "base", False),
    ],
)
def test_an_image_without_environments(job_values, framework, refused):
    found = list(image_errors(job_values, {"deeplearning_image_framework": framework}))
    message = (
        "python_environment_name: 'bert' is not set up, because images of deeplearning_image_framework: base contain no Python"
        " environments. Set python_environment_requirements, or use an image with a framework."
    )
    assert found == ([message] if refused else [])


def test_tags_that_yaml_reads_as_something_else_are_refused():
    (found,) = definition_errors({"deeplearning_tags": {"Team": True}})
    assert found.startswith("deeplearning_tags: Team: YAML reads the value as true")
