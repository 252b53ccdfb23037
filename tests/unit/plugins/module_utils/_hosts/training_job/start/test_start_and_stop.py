"""Tests that check how the processes of a job start on their host."""

from __future__ import annotations

import os
import pwd
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.start import start_and_stop, unpack
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, jobs_after_reboot, records

from ...._job.definition.parameters import parameters


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Return a function that returns the module of this host, which is worker 3, and the specs of the processes that it has started."""
    started = []
    monkeypatch.setattr(directories, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(systemd, "active_units", lambda run, name: [])
    monkeypatch.setattr(systemd, "start", lambda run, name, place, specs: started.extend(specs))
    monkeypatch.setattr(systemd, "refuse_nfs", lambda run, user: "")
    monkeypatch.setattr(start_and_stop, "read_metadata", lambda directory, generation: {"number": 3, "gpu_count": 0})
    own = {"user": pwd.getpwuid(os.getuid()).pw_name, "metadata_directory": "/m", "generation": "", "sandbox": True}

    def module(check_mode=False, **params):
        return SimpleNamespace(params=parameters(**own, **params), check_mode=check_mode, run_command=None, warn=None)

    return module, started


def test_a_job_continues_with_its_next_attempt(host, paths):
    module, started = host
    unpack.make_directories(paths)
    record = {"name": "rank1", "rank": 1, "ranks": [1], "host": "w1", "part": "worker", "processes": 1, "state": "stopped"}
    records.write_json(paths.record("rank1"), {**record, "started": 1.0, "heartbeat": 2.0, "finished": 2.0})
    assert start_and_stop.start(module(check_mode=True, attempt=2), paths)["changed"]
    assert (started, os.path.exists(paths.following)) == ([], False)
    result = start_and_stop.start(module(attempt=2), paths)
    assert [(spec["attempt"], spec["environment"]["DEEPLEARNING_ATTEMPT"]) for spec in started] == [(2, "2")]
    assert result["processes"][0]["log"] == os.path.join(paths.directory, "logs/attempt2/rank1.log")
    assert (records.read_following(paths)["rule"], records.read_following(paths)["cause"]["kind"]) == ("continued", "operator")
    assert records.newest_attempt(paths).attempt == 2


def test_two_runs_at_once_start_the_processes_once(paths, tmp_path, monkeypatch):
    started, asked = [], threading.Semaphore(0)

    def active_units(run, name):
        asked.release()
        return list(started)

    def start(run, name, place, specs):
        asked.acquire(timeout=60)  # the query that this run sends
        asked.acquire(timeout=0.3)  # the query that the other run sends, if the lock allows it
        started.extend(spec["rank"] for spec in specs)

    monkeypatch.setattr(directories, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(systemd, "active_units", active_units)
    monkeypatch.setattr(systemd, "start", start)
    monkeypatch.setattr(systemd, "refuse_nfs", lambda run, user: "")
    monkeypatch.setattr(start_and_stop, "read_metadata", lambda directory, generation: {"number": 3, "gpu_count": 0})
    unpack.make_directories(paths)
    user = pwd.getpwuid(os.getuid()).pw_name
    fake = SimpleNamespace(
        params=parameters(user=user, metadata_directory="/m", generation="", sandbox=True), check_mode=False, run_command=None, warn=None
    )
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: start_and_stop.start(fake, paths), range(2)))
    assert started == [1]
    assert sorted(result["changed"] for result in results) == [False, True]


@pytest.mark.parametrize("check_mode", [True, False])
def test_when_a_job_is_stopped_its_secrets_do_not_stay_in_memory(host, tmp_path, monkeypatch, check_mode):
    module, _started = host
    monkeypatch.setattr(jobs_after_reboot, "STARTED", str(tmp_path / "started"))
    monkeypatch.setattr(directories, "runtime_directory", lambda job, process: f"{tmp_path}/running/{job}-{process}")
    monkeypatch.setattr(directories, "HELD", str(tmp_path / "held"))
    monkeypatch.setattr(systemd, "active_units", lambda _run, _name: ["deeplearning-digits-rank1.service"])
    monkeypatch.setattr(systemd, "stop", lambda _run, _name: None)
    monkeypatch.setattr(systemd, "remove_private_directories", lambda _name: None)
    monkeypatch.setattr(systemd, "running_jobs", lambda _run: [])
    jobs_after_reboot.write(jobs_after_reboot.STARTED, "digits", b"secret")
    assert start_and_stop.stop(module(check_mode=check_mode))["changed"]
    assert bool(jobs_after_reboot.files(jobs_after_reboot.STARTED)) == check_mode
