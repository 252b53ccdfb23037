"""Tests that the descriptions of clusters are read correctly."""

from __future__ import annotations

import gzip

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import cluster_properties, resources


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
    assert cluster_properties.state(described(state), groups) == expected


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


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"one\ntwo\n\n", "one / two"),
        (b"1\n2\n3\n4\n5\n6\n", "2 / 3 / 4 / 5 / 6"),
        (b"", "(nothing)"),
        (b"red \x1b[31m\xff\x00\xe2\x80\xae\n", "red [31m\ufffd"),
        (b"x" * 5000, "x" * 500),
    ],
)
def test_the_end_of_a_log_is_one_line_without_control_characters(written, shown):
    assert resources.last_lines(gzip.compress(written)) == shown


def test_a_log_that_is_damaged_or_huge_is_no_problem():
    assert resources.last_lines(b"not compressed") == "(its log is damaged)"
    assert resources.last_lines(gzip.compress(b"0" * 50_000_000)) == "0" * 500


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("On the master instance (i-0abc), bootstrap action 1 returned a non-zero return code", ("i-0abc", "1")),
        ("On 2 slave instances (including i-0abc and i-0def), bootstrap action 12 returned a non-zero return code", ("i-0abc", "12")),
        ("Master instance (i-0abc) failed attempting to download bootstrap action 1 file from S3", None),
        ("Terminated by user request", None),
    ],
)
def test_which_bootstrap_action_has_failed_where(message, found):
    match = resources.FAILED_ACTION.search(message)
    assert (match and (match["instance"], match["action"])) == found
