"""Tests that check how long the action polls a host for progress while it stages a data set."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.action import dataset
from ansible_collections.deeplearning.cluster.plugins.action.dataset import text
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import background

from .conftest import Clock, make_action

VARIABLES = {"inventory_hostname": "worker2", "deeplearning_answer_timeout": 100}


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(background, "time", found)
    return found


def action(answers):
    made = make_action(dataset, source="s3://sets/images")
    made._task.action = "deeplearning.cluster.dataset"
    made._execute_module = MagicMock(side_effect=answers)
    return made


@pytest.mark.parametrize("more", [{}, {"progress": {"stage": "fetching", "done": 5, "seconds": 5}}])
def test_a_host_that_always_answers_the_same_is_not_asked_for_ever(clock, more):
    def same():
        for _attempt in range(1000):
            yield {"finished": False, **more}

    staged = action(same())
    result = staged.run(task_vars=VARIABLES)
    assert result["failed"]
    assert result["msg"].startswith("worker2: the dataset module is still running, but its progress has not changed for 100 s.")
    assert staged._execute_module.call_count <= 102, "there is a pause between polls"


def test_a_host_at_work_is_given_its_time_although_nothing_moves(clock):
    looks = [{"finished": False, "progress": {"stage": "checking", "seconds": seconds}} for seconds in range(300)]
    result = action([*looks, {"finished": True, "changed": True, "path": "/efs/datasets/images"}]).run(task_vars=VARIABLES)
    assert not result.get("failed")
    assert result["path"] == "/efs/datasets/images"


def test_a_host_whose_progress_never_ends_is_not_asked_for_ever(clock, monkeypatch):
    monkeypatch.setattr(background, "PAUSE", 600.0)

    def forged():
        for count in range(1000):
            yield {"finished": False, "progress": {"stage": " " if count % 2 else "fetching", "done": count, "seconds": count}}

    result = action(forged()).run(task_vars=VARIABLES)
    assert result["failed"]
    assert result["msg"].startswith(
        "worker2: the dataset module has not finished within 24 h. The module may continue on the host. Run the playbook again"
    )


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        ({"stage": "examining", "done": 0, "total": 0}, "examining"),
        ({"stage": "fetching", "done": 1 << 30, "total": 18 << 30}, "fetching 1.0 GiB of 18.0 GiB"),
        ({"stage": "fetching", "done": 2048, "total": 0}, "fetching 2.0 KiB"),
        ({"stage": "unpacking", "done": 1, "total": 3}, "unpacking archive 2 of 3"),
        ({"stage": "fetching", "done": 2048, "source": 2, "sources": 4}, "fetching 2.0 KiB (source 2 of 4)"),
        ({}, ""),
    ],
)
def test_progress_in_words(progress, shown):
    assert text(progress) == shown
