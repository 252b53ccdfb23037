"""Tests that read a sample of a long progress file."""

from __future__ import annotations

import json
import math

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import progress_times


@pytest.fixture
def sample(tmp_path):
    """Return a function that writes a progress file and returns the sampled entries."""

    def sample_it(lines):
        path = tmp_path / "progress.jsonl"
        path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        content = path.read_bytes()
        found = list(progress_times.sample(str(path)))
        assert all(content[:offset].endswith(b"\n") for offset, _entry in found)
        return [entry for _offset, entry in found]

    return sample_it


def test_of_a_short_file_every_entry_is_sampled(sample):
    lines = [{"step": step} for step in range(100)]
    assert sample([*lines[:50], "no json\n", "[]\n", *lines[50:], '{"step": 100']) == lines


def test_of_a_long_file_fewer_entries_are_sampled_towards_the_end(sample, monkeypatch):
    monkeypatch.setattr(progress_times, "SAMPLED", 4)
    found = [entry["step"] for entry in sample({"step": step} for step in range(30))]
    assert found == [0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24]
    monkeypatch.setattr(progress_times, "LINES_LIMIT", 9)
    assert [entry["step"] for entry in sample({"step": step} for step in range(30))] == [0, 1, 2, 3, 4, 6, 8]


def test_entries_about_checkpoints_are_always_sampled(sample, monkeypatch):
    def lines(*saved):
        return ({"step": step, **({"checkpoint_seconds": 1} if step in saved else {})} for step in range(30))

    monkeypatch.setattr(progress_times, "SAMPLED", 4)
    assert [entry["step"] for entry in sample(lines(21, 23))] == [0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 21, 23, 24]
    monkeypatch.setattr(progress_times, "ALWAYS_LIMIT", 12)
    assert [entry["step"] for entry in sample(lines(21, 23))] == [0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 21, 24]


@pytest.mark.parametrize(
    ("entry", "time"),
    [
        ({"time": 1790000000.5}, 1790000000.5),
        ({"time": 1790000000}, 1790000000.0),
        ({"time": 1000000000}, 1e9),
        *(({"time": value}, None) for value in (999999999, math.inf, math.nan, True, "1790000000", None)),
        ({}, None),
    ],
)
def test_a_time_is_in_seconds_since_1970(entry, time):
    assert progress_times.told_time(entry) == time
