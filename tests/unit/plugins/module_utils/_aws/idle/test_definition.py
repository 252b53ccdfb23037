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


def test_only_a_role_that_ends_nodes_may_end_them():
    def actions(then, topic):
        return str([each["Action"] for each in definition.policy("bert", "us-east-1", then, topic)["Statement"]])

    assert "DeleteAutoScalingGroup" in actions("terminate", None)
    assert "DeleteAutoScalingGroup" not in actions("notify", "arn:aws:sns:us-east-1:123456789012:alerts")
    assert "sns:Publish" not in actions("terminate", None)
