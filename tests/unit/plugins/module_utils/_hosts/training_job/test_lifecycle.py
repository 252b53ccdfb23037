"""Tests of how the processes of a job start on their host."""

from __future__ import annotations

import os
import pwd
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import lifecycle, specification, systemd, unpack
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records

from .conftest import parameters


def test_two_runs_at_once_start_the_processes_once(paths, tmp_path, monkeypatch):
    started, asked = [], threading.Semaphore(0)

    def active_units(run, name):
        asked.release()
        return list(started)

    def start(run, name, place, specs):
        asked.acquire(timeout=60)  # the query of this run
        asked.acquire(timeout=0.3)  # the query of the other run, if the lock allows it
        started.extend(spec["rank"] for spec in specs)

    monkeypatch.setattr(records, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(systemd, "active_units", active_units)
    monkeypatch.setattr(systemd, "start", start)
    monkeypatch.setattr(systemd, "refuse_nfs", lambda run, user: "")
    monkeypatch.setattr(lifecycle, "read_metadata", lambda directory, generation: {"number": 3, "gpu_count": 0})
    unpack.make_directories(paths)
    user = pwd.getpwuid(os.getuid()).pw_name
    fake = SimpleNamespace(
        params=parameters(user=user, metadata_directory="/m", generation="", sandbox=True), check_mode=False, run_command=None
    )
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: lifecycle.start(fake, paths), range(2)))
    assert started == [1]
    assert sorted(result["changed"] for result in results) == [False, True]


@pytest.mark.parametrize(
    ("own", "other", "message"),
    [
        ({"gpus": [0, 1]}, {"gpus": [1, 2, 3]}, "job other uses GPU 1 of w1.*give each job its own gpus"),
        ({"gpus": [0, 1]}, {"gpus": [2, 3]}, None),
        ({"cwd": "/scratch/code"}, {"cwd": "/scratch/code"}, "job other runs in /scratch/code on w1.*its own sync_directory"),
        ({"cwd": "/scratch/code"}, {"cwd": "/scratch"}, "job other runs in /scratch on w1"),
        ({"cwd": "/scratch/code"}, {"cwd": "/scratch/code2"}, None),
    ],
)
def test_jobs_on_one_host_have_gpus_and_directories_of_their_own(paths, monkeypatch, own, other, message):
    beside = {"job": "other", "gpus": [], "cwd": "/efs/jobs/other/code", **other}
    monkeypatch.setattr(systemd, "other_jobs", lambda name: [beside])
    specs = [{"name": "rank0", "host": "w1", "gpus": [], "cwd": paths.code, **own}]
    if message is None:
        lifecycle.check_place("digits", specs)
    else:
        with pytest.raises(specification.RefusalError, match=message):
            lifecycle.check_place("digits", specs)
