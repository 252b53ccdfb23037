"""Tests of the function and the role that end idle nodes."""

from __future__ import annotations

import io
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


def test_the_code_of_the_function_needs_nothing_of_the_collection_and_is_always_equal():
    with zipfile.ZipFile(io.BytesIO(definition.code())) as archive:
        (entry,) = archive.infolist()
        source = archive.read(entry).decode()
    assert (entry.filename, entry.external_attr >> 16 & 0o444) == ("function.py", 0o444)
    space: dict[str, object] = {}
    exec(compile(source, "function.py", "exec"), space)
    assert callable(space["handler"])
    assert definition.code() == definition.code()


def test_names_are_within_the_limits_of_aws():
    """Names of roles and functions have at most 64 characters, and cluster names at most 30."""
    assert len(definition.role_name("c" * 30, "us-gov-northwest-1")) <= 64
    assert len(definition.name_of("c" * 30)) <= 64


def test_only_a_role_that_ends_nodes_may_end_them():
    def actions(then, topic):
        return str([each["Action"] for each in definition.policy("bert", "us-east-1", then, topic)["Statement"]])

    assert "DeleteAutoScalingGroup" in actions("terminate", None)
    assert "DeleteAutoScalingGroup" not in actions("notify", "arn:aws:sns:us-east-1:123456789012:alerts")
    assert "sns:Publish" not in actions("terminate", None)
