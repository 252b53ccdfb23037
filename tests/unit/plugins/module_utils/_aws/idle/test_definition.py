"""Tests of the function and the role that end idle nodes."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from datetime import timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.idle import definition


@pytest.mark.parametrize(("text", "minutes"), [("15m", 15), ("30m", 30), ("1h30m", 90), ("1d", 1440), ("24h", 1440)])
def test_durations(text, minutes):
    assert definition.parse(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "14m", "25h", "30", "half an hour", "2026-12-01T18:00Z"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=repr(text)):
        definition.parse(text)


def test_the_code_of_the_function_needs_nothing_of_the_collection_and_is_always_equal(tmp_path):
    with zipfile.ZipFile(io.BytesIO(definition.code())) as archive:
        assert {entry.external_attr >> 16 & 0o444 for entry in archive.infolist()} == {0o444}
        archive.extractall(tmp_path)
    wanted = definition.wanted(
        timedelta(hours=1), "terminate", "bert", "us-east-1", lambda _address: {}, topic=None, permissions_boundary=None, since=""
    )
    module, _dot, name = wanted.properties["function"]["handler"].rpartition(".")
    code = f"import sys; sys.path.insert(0, '.'); from {module} import {name}"
    subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, check=True)
    assert definition.code() == definition.code()


@pytest.mark.parametrize("module", [definition.function, definition.messages])
def test_each_change_of_the_code_changes_its_digest(monkeypatch, module):
    before, source = definition.code_digest(), definition.inspect.getsource
    monkeypatch.setattr(definition.inspect, "getsource", lambda each: source(each) + ("#" if each is module else ""))
    assert definition.code_digest() != before


def test_names_are_within_the_limits_of_aws():
    """Names of roles and functions have at most 64 characters, and cluster names at most 30."""
    assert len(definition.role_name("c" * 30, "us-gov-northwest-1")) <= 64
    assert len(definition.name_of("c" * 30)) <= 64


OWN = "arn:aws:lambda:us-east-1:*:function:bert-nodes-idle"
OWN_TAGS = {"Null": {"aws:TagKeys": "false"}, "ForAllValues:StringLike": {"aws:TagKeys": ["deeplearning:idle-*", "deeplearning:hold:*"]}}
CONSOLES = {"StringEquals": {"aws:ResourceTag/aws:autoscaling:groupName": ["bert-master", "bert-workers"]}}
ENDS = [f"arn:aws:autoscaling:us-east-1:*:autoScalingGroup:*:autoScalingGroupName/bert-{group}" for group in ("master", "workers")]
DELETE = {"Sid": "EndNodes", "Action": "autoscaling:DeleteAutoScalingGroup", "Resource": ENDS}
NOTIFY = {"Sid": "Notify", "Action": "sns:Publish", "Resource": "arn:topic"}


@pytest.mark.parametrize(("then", "topic", "more"), [("terminate", None, [DELETE]), ("notify", "arn:topic", [NOTIFY])])
def test_only_a_role_that_ends_nodes_may_end_them(then, topic, more):
    """The role may neither read consoles of other clusters nor delete their groups."""
    statements = [
        {"Sid": "FindNodes", "Action": "ec2:DescribeInstances", "Resource": "*"},
        {"Sid": "ReadConsoles", "Action": "ec2:GetConsoleOutput", "Resource": "*", "Condition": CONSOLES},
        {"Sid": "OwnFunction", "Action": ["lambda:InvokeFunction", "lambda:ListTags"], "Resource": OWN},
        {"Sid": "OwnTags", "Action": ["lambda:TagResource", "lambda:UntagResource"], "Resource": OWN, "Condition": OWN_TAGS},
        *more,
    ]
    allowed = [{"Effect": "Allow", **each} for each in statements]
    assert definition.policy("bert", "us-east-1", then, topic) == {"Version": "2012-10-17", "Statement": allowed}


@pytest.mark.parametrize("topic", [None, "arn:topic"])
def test_aws_calls_the_function_every_5_minutes(topic):
    """What AWS then has equals what is wanted."""
    role, name = "bert-nodes-idle-us-east-1", "bert-nodes-idle"
    arguments = (timedelta(hours=1), "notify", "bert", "us-east-1", lambda address: {"of": address})
    made = definition.wanted(*arguments, topic=topic, permissions_boundary="arn:boundary", since="2026-12-01T16:00:00Z")
    properties = dict(made.properties)
    function, settings, trust = properties.pop("function"), properties.pop("schedule"), properties.pop("trust")
    assert (made.address, properties) == (
        definition.IDLE,
        {
            "name": role,
            "permissions_boundary": "arn:boundary",
            "policy": definition.policy("bert", "us-east-1", "notify", topic),
            "tags": {"of": definition.IDLE},
            "since": "2026-12-01T16:00:00Z",
        },
    )
    source = {"ArnLike": {"aws:SourceArn": "arn:aws:scheduler:us-east-1:*:schedule-group/bert-nodes-idle"}}
    assert [(each["Action"], each["Principal"], each.get("Condition")) for each in trust["Statement"]] == [
        ("sts:AssumeRole", {"Service": "lambda.amazonaws.com"}, None),
        ("sts:AssumeRole", {"Service": "scheduler.amazonaws.com"}, source),
    ]
    path = f"arn:aws:iam::123456789012:role/deeplearning/{role}"
    variables = {"CLUSTER": "bert", "GROUPS": "bert-master,bert-workers", "IDLE_SECONDS": "3600", "THEN": "notify"}
    variables |= {"TOPIC": topic} if topic else {}
    configuration = {
        "CodeSha256": definition.code_digest(),
        "Runtime": "python3.13",
        "Handler": "idle.function.handler",
        "Timeout": 300,
        "MemorySize": 512,
        "Role": path,
        "Environment": {"Variables": {**variables, definition.ROLE_ID: "AROA1"}},
    }
    assert definition.found_function(configuration, "AROA1") == function
    assert definition.found_function(configuration, "AROA2") == {**function, "role": f"a former {role}"}
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:{name}"
    schedule = definition.schedule("bert", settings, arn, path)
    assert schedule == {
        "GroupName": name,
        "Name": "check",
        "Description": "Looks whether the nodes of the training cluster bert are idle",
        "ScheduleExpression": "rate(5 minutes)",
        "State": "ENABLED",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {"Arn": arn, "RoleArn": path, "RetryPolicy": {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 3}},
    }
    assert definition.found_schedule(schedule, arn) == settings
    assert definition.found_schedule(schedule, None) == {**settings, "target": arn}
    forged = {**schedule, "EndDate": 1, "KmsKeyArn": 2, "Target": {**schedule["Target"], "Input": "{}"}}
    assert definition.found_schedule(forged, arn) == {**settings, "more": ["EndDate", "Input", "KmsKeyArn"]}
    assert definition.found_schedule(None, arn) is None
