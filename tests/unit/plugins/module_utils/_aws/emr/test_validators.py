"""Tests of the errors that the validators find in the options of an EMR cluster."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import validators
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.definition import CLUSTER
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.releases import release
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import argument_spec
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found

DEFAULTS = {name: spec.get("default") for name, spec in argument_spec("emr").items()}
OPTIONS = {**DEFAULTS, "emr_release_label": "emr-7.9.0", "emr_instance_type": "c5.xlarge", "emr_core_count": 1}


def step(name, *arguments):
    return {"name": name, "jar": "command-runner.jar", "args": list(arguments), "on_failure": "continue"}


def action(path, name="a"):
    return {"name": name, "path": path, "args": []}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"emr_release_label": None}, ["emr_release_label: missing"]),
        ({"emr_release_label": "7.9.0"}, ["emr_release_label: '7.9.0' is not a release label"]),
        ({"emr_release_label": "emr-5.7.0", "emr_image_id": "ami-1"}, []),
        ({"emr_release_label": "emr-5.6.9", "emr_image_id": "ami-1"}, ["emr_image_id: emr-5.6.9 does not support custom images"]),
        ({"emr_root_volume_size": 15}, []),
        ({"emr_root_volume_size": 14}, ["emr_root_volume_size: 14 GiB is too small. Specify at least 15 GiB"]),
        ({"emr_root_volume_size": 10, "emr_release_label": "emr-6.9.0"}, []),
        ({"emr_root_volume_size": 9, "emr_release_label": "emr-6.9.0"}, ["Specify at least 10 GiB for emr-6.9.0"]),
        ({"emr_root_volume_size": 100}, []),
        ({"emr_root_volume_size": 101}, ["emr_root_volume_size: 101 GiB is too large. Specify at most 100 GiB"]),
        ({"emr_idle_after": "1m"}, []),
        ({"emr_idle_after": "7d"}, []),
        ({"emr_idle_after": "0m"}, ["emr_idle_after: '0m' is not from 1m to 7d"]),
        ({"emr_idle_after": "7d1m"}, ["emr_idle_after: '7d1m' is not from 1m to 7d"]),
        ({"emr_idle_after": "soon"}, ["emr_idle_after: 'soon' is not a duration"]),
        ({"emr_idle_after": "1h", "emr_release_label": "emr-6.0.0"}, ["emr_idle_after: emr-6.0.0 does not support auto-termination"]),
        ({"emr_instance_type": None}, ["emr_instance_type: missing"]),
        ({"emr_core_count": None}, ["emr_core_count: missing"]),
        ({"emr_core_count": -1}, ["emr_core_count: -1 is not valid"]),
        ({"emr_core_count": 0}, []),
        ({"emr_task_count": -1}, ["emr_task_count: -1 is not valid"]),
        ({"emr_core_count": 0, "emr_task_count": 1}, ["emr_task_count: task nodes require at least one core node"]),
        ({"emr_core_count": 0, "emr_core_instance_type": "m5.large"}, ["emr_core_instance_type: the cluster has no core nodes"]),
        ({"emr_security_group_ids": {"master": "sg-1", "workers": "sg-2", "service": None}}, []),
        ({"emr_security_group_ids": {"master": None, "workers": None, "service": None}}, []),
        ({"emr_security_group_ids": {"master": "sg-1", "workers": None}}, ["emr_security_group_ids: no group for workers"]),
        ({"emr_security_group_ids": {"service": "sg-1"}}, ["emr_security_group_ids: no group for master and workers"]),
        ({"emr_additional_security_group_ids": {"master": list("abcd"), "workers": None}}, []),
        ({"emr_additional_security_group_ids": {"workers": list("abcde")}}, ["ids.workers: 5 groups exceed the limit. Specify at most 4"]),
        ({"emr_log_uri": "s3://logs"}, []),
        ({"emr_log_uri": "S3://logs/emr/"}, []),
        ({"emr_log_uri": "logs"}, ["emr_log_uri: 'logs' is not a location in S3"]),
        ({"emr_log_uri": "s3://Logs"}, ["emr_log_uri: 's3://Logs' is not a location in S3"]),
        ({"emr_log_uri": "s3://logs--use1-az4--x-s3/a"}, ["emr_log_uri: 's3://logs--use1-az4--x-s3/a' is not a location in S3"]),
        ({"emr_applications": ["Spark", "Spark"]}, ["emr_applications: 'Spark' occurs more than once"]),
        ({"emr_bootstrap_actions": [action("s3://a/b.sh"), action("file:///bin/true"), action("/usr/bin/x")]}, []),
        ({"emr_bootstrap_actions": [action("b.sh")]}, ["emr_bootstrap_actions: 'b.sh' is not the location of a script"]),
        ({"emr_bootstrap_actions": [action("/a", name="")]}, ["the name of /a is not valid"]),
        ({"emr_bootstrap_actions": [action("/a")] * 17}, ["17 actions exceed the limit. Specify at most 16"]),
        ({"emr_steps": [step("a"), step("b")]}, []),
        ({"emr_steps": [step("a"), step("a")]}, ["emr_steps: 'a' occurs more than once"]),
        ({"emr_steps": [step("a", "x" * 5120, "y" * 5102)]}, []),
        (
            {"emr_steps": [step("a", "x" * 5120, "y" * 5103)]},
            ["emr_steps: jar and args of 'a' have 10241 characters. EMR allows at most 10240"],
        ),
        ({"emr_steps": [step("")]}, ["emr_steps: a step has no valid name"]),
        ({"emr_steps": [step(str(number)) for number in range(257)]}, ["257 steps exceed the limit"]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_options(change, expected):
    found = list(validators.EmrOptions().check(Request(None, {**OPTIONS, **change}), []))
    assert len(found) == len(expected), found
    assert all(text in finding for text, finding in zip(expected, found))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((4, 2), (4, 2), []),
        ((4, 2), (5, 3), []),
        ((4, 2), (3, 2), ["emr_core_count: EMR removes 1 of 4 core nodes"]),
        ((4, 2), (4, 0), ["emr_task_count: EMR removes 2 of 2 task nodes"]),
        ((4, 2), (None, 2), []),
    ],
)
def test_a_decrease_is_told(before, after, expected):
    cluster = Found(CLUSTER, "j-1", {"core_count": before[0], "task_count": before[1]})
    options = {**OPTIONS, "emr_core_count": after[0], "emr_task_count": after[1]}
    messages = list(validators.EmrShrinking().check(Request(None, options), [cluster]))
    assert len(messages) == len(expected)
    assert all(message.startswith(text) for text, message in zip(expected, messages))
    assert all(("copies of each block" in message) == ("core" in message) for message in messages)
    assert list(validators.EmrShrinking().check(Request(None, options), [])) == [], "a new cluster does not shrink"


@pytest.mark.parametrize(
    ("label", "expected"),
    [("emr-5.8.0", (5, 8, 0)), ("emr-spark-8.0.0", (8, 0, 0)), ("emr-5.8", None), ("", None), (None, None), ("emr-5.8.0a", None)],
)
def test_release_labels(label, expected):
    assert release(label) == expected


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "COMPLETED", "RUNNING"])
def test_steps_that_have_failed_are_told(state):
    status = {"State": state, "FailureDetails": {"Message": "no such file."}}
    found = [Found(Address("emr_step", name), "s-1", {}, {"status": status}) for name in ("prepare", "of somebody else")]
    messages = list(validators.EmrFailedSteps().check(Request(None, {**OPTIONS, "emr_steps": [step("prepare")]}), found))
    failed = state in ("FAILED", "CANCELLED")
    assert len(messages) == failed
    assert not failed or f"emr_steps: 'prepare' (s-1) has the state {state}: no such file. To run this step again" in messages[0]
