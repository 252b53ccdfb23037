"""Tests that check how the processes of a job start on their host."""

from __future__ import annotations

import os
import pwd
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import lifecycle, systemd, unpack
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records

from .conftest import parameters


def test_two_runs_at_once_start_the_processes_once(paths, tmp_path, monkeypatch):
    started, asked = [], threading.Semaphore(0)

    def active_units(run, name):
        asked.release()
        return list(started)

    def start(run, name, place, specs):
        asked.acquire(timeout=60)  # the query that this run sends
        asked.acquire(timeout=0.3)  # the query that the other run sends, if the lock allows it
        started.extend(spec["rank"] for spec in specs)

    monkeypatch.setattr(records, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(systemd, "active_units", active_units)
    monkeypatch.setattr(systemd, "start", start)
    monkeypatch.setattr(systemd, "refuse_nfs", lambda run, user: "")
    monkeypatch.setattr(lifecycle, "read_metadata", lambda directory, generation: {"number": 3, "gpu_count": 0})
    unpack.make_directories(paths)
    user = pwd.getpwuid(os.getuid()).pw_name
    fake = SimpleNamespace(
        params=parameters(user=user, metadata_directory="/m", generation="", sandbox=True), check_mode=False, run_command=None, warn=None
    )
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: lifecycle.start(fake, paths), range(2)))
    assert started == [1]
    assert sorted(result["changed"] for result in results) == [False, True]
