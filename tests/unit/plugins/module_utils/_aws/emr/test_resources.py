"""Tests of reading descriptions of clusters."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import resources


def described(state, **more):
    return {"Id": "j-1", "Status": {"State": state, **more.pop("status", {})}, **more}


def group(running, requested, state):
    return {"RunningInstanceCount": running, "RequestedInstanceCount": requested, "Status": {"State": state}}


@pytest.mark.parametrize(
    ("state", "groups", "expected"),
    [
        ("STARTING", [group(0, 1, "PROVISIONING")], "starting"),
        ("WAITING", [group(1, 1, "RUNNING"), group(0, 0, "RUNNING")], "ready"),
        ("RUNNING", [group(1, 1, "RUNNING"), group(1, 2, "RESIZING")], "resizing"),
        ("RUNNING", [group(1, 2, "RESIZING"), group(0, 2, "ARRESTED")], "arrested"),
    ],
)
def test_the_state_of_a_cluster(state, groups, expected):
    assert resources.state(described(state), groups) == expected


@pytest.mark.parametrize(
    ("reason", "log_uri", "expected"),
    [
        (
            {"Code": "BOOTSTRAP_FAILURE", "Message": "bootstrap action 1 returned a non-zero return code."},
            "s3n://logs/emr/",
            "EMR cluster j-1 ended (BOOTSTRAP_FAILURE): bootstrap action 1 returned a non-zero return code. "
            "EMR copies the logs to s3://logs/emr/j-1/node/ a few minutes later.",
        ),
        (
            {"Code": "STEP_FAILURE", "Message": "Shut down as step failed"},
            "s3n://logs/",
            "EMR cluster j-1 ended (STEP_FAILURE): Shut down as step failed. "
            "EMR copies the logs to s3://logs/j-1/steps/ a few minutes later.",
        ),
        (
            {},
            None,
            "EMR cluster j-1 ended (no code): EMR returned no reason. Set emr_log_uri to keep the logs of nodes.",
        ),
    ],
)
def test_why_a_cluster_has_ended(reason, log_uri, expected):
    assert resources.ended(described("TERMINATING", LogUri=log_uri, status={"StateChangeReason": reason})) == expected
