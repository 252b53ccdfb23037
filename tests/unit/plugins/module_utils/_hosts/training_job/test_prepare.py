"""Which hosts and jobs can be prepared."""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_setup import records as node_setup_records
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import prepare, specification
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records


def record(paths, rank, state, heartbeat=None, processes=2):
    os.makedirs(paths.status, exist_ok=True)
    now = time.time()
    entry = {"name": f"rank{rank}", "rank": rank, "ranks": [rank], "host": "w1", "part": "worker", "state": state, "processes": processes}
    entry.update(started=now, heartbeat=heartbeat or now, finished=now)
    with open(paths.record(f"rank{rank}"), "w") as file:
        json.dump(entry, file)


def test_a_job_nobody_has_started_is_new(paths):
    assert prepare.check_job("digits", paths, 60) == "new"


@pytest.mark.parametrize(
    ("states", "processes"),
    [(["running", "running"], 2), (["failed", "running"], 2), (["succeeded"], 2)],
    ids=["runs", "partly", "starting"],
)
def test_a_job_with_processes_left_is_waited_for(paths, states, processes):
    for rank, state in enumerate(states):
        record(paths, rank, state, processes=processes)
    assert prepare.check_job("digits", paths, 60) == "running"


@pytest.mark.parametrize(("states", "word"), [(["succeeded", "succeeded"], "succeeded"), (["stopped", "failed"], "failed")])
def test_a_job_that_has_ended_is_refused(paths, states, word):
    for rank, state in enumerate(states):
        record(paths, rank, state)
    with pytest.raises(specification.RefusalError, match=rf"already run \({word}\).*Choose another name"):
        prepare.check_job("digits", paths, 60)


def test_a_host_that_cannot_use_its_efa_is_refused(tmp_path, monkeypatch):
    worker = {"number": 2, "name": "deeplearning-worker2", "address": "127.0.0.1"}
    monkeypatch.setattr(prepare, "read_metadata", lambda directory, generation: {"number": 2, "workers": [worker], "gpu_count": 8})
    monkeypatch.setattr(prepare, "missing_for_efa", lambda run: "no driver")
    params = {"metadata_directory": "/opt/deeplearning", "generation": "", "efa": True, "gpus": None}
    module = SimpleNamespace(params=params, run_command=None)
    with pytest.raises(specification.RefusalError, match="deeplearning-worker2 has EFA but cannot use it: no driver"):
        prepare.examine(module, records.Paths(str(tmp_path)), None)


def test_a_host_whose_set_up_is_not_done_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(node_setup_records, "RECORDS", str(tmp_path))
    (tmp_path / "aaa.json").write_text('{"state": "succeeded"}')
    prepare.check_setup({"aaa": "step 1 (tools)"})
    prepare.check_setup({})
    with pytest.raises(
        specification.RefusalError, match=r"node_setup_steps: step 2 \(data\) must succeed on this host before a job starts\."
    ):
        prepare.check_setup({"aaa": "step 1 (tools)", "bbb": "step 2 (data)"})
