"""What the module and the action of a training job decide before anything runs."""

from __future__ import annotations

import json
import os
import pwd
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.action import training_job as action
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import (
    host,
    lifecycle,
    plan,
    prepare,
    specification,
    systemd,
    unpack,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.worker_metadata import metadata
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records


@pytest.fixture
def paths(tmp_path):
    return records.Paths(str(tmp_path / "jobs/digits"))


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
    with pytest.raises(specification.RefusalError, match=rf"already run \({word}\).*choose another name"):
        prepare.check_job("digits", paths, 60)


def parameters(**changes):
    hosts = [
        {"name": f"deeplearning-worker{n}", "address": f"10.0.0.{n}", "number": n, "gpus": [], "interface": "ens5"} for n in (12, 3, 1)
    ]
    defaults = {"name": "digits", "python": "/p", "script": "/home/me/train.py", "source": None, "repository": None, "arguments": ["a b"]}
    defaults.update(launcher="torchrun", launcher_options={}, command=[], sync_directory=None, key="k", sandbox=True)
    limits = {"processes_per_host": 0, "time_limit": 9, "stop_timeout": 5, "heartbeat_timeout": 60}
    return {**defaults, **limits, "hosts": hosts, "environment": {"OMP_NUM_THREADS": 4}, "secrets": {"TOKEN": "t"}, **changes}


def test_ranks_follow_the_numbers_of_the_hosts(paths):
    ranks = {number: plan.plan(parameters(), paths, number)[0]["rank"] for number in (1, 3, 12)}
    assert ranks == {1: 0, 3: 1, 12: 2}


def test_a_spec_holds_the_users_environment_over_the_launchers(paths):
    (spec,) = plan.plan(parameters(), paths, 3)
    assert spec["environment"]["OMP_NUM_THREADS"] == "4"
    assert spec["environment"]["TOKEN"] == "t"
    assert spec["environment"]["DEEPLEARNING_PROGRESS"] == paths.progress
    assert spec["argv"][-2:] == [os.path.join(paths.code, "train.py"), "a b"]
    assert (spec["processes"], spec["host"], spec["time_limit"], spec["stop_timeout"]) == (3, "deeplearning-worker3", 9, 5)


def test_with_a_source_the_script_keeps_its_path(paths):
    (spec,) = plan.plan(parameters(source="/home/me/project", script="src/train.py"), paths, 1)
    assert spec["argv"][-2] == os.path.join(paths.code, "src/train.py")


def test_with_a_sync_directory_the_processes_run_there(paths):
    (spec,) = plan.plan(parameters(repository="https://x/y", script="src/train.py", sync_directory="/scratch/code"), paths, 1)
    assert spec["cwd"] == "/scratch/code"
    assert spec["argv"][-2] == "/scratch/code/src/train.py"


def test_a_host_that_is_not_the_jobs_is_refused(paths):
    with pytest.raises(specification.RefusalError, match="number 2, which is not among"):
        plan.plan(parameters(), paths, 2)


def test_two_runs_at_once_start_the_processes_once(paths, tmp_path, monkeypatch):
    started, asked = [], threading.Semaphore(0)

    def active_units(run, name):
        asked.release()
        return list(started)

    def start(run, name, place, specs):
        asked.acquire(timeout=5)  # this run's own question
        asked.acquire(timeout=0.3)  # the other's, if it may ask now
        started.extend(spec["rank"] for spec in specs)

    monkeypatch.setattr(records, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(systemd, "active_units", active_units)
    monkeypatch.setattr(systemd, "start", start)
    monkeypatch.setattr(systemd, "refuse_nfs", lambda run, user: "")
    monkeypatch.setattr(lifecycle, "read_metadata", lambda generation: {"number": 3, "gpu_count": 0})
    unpack.make_directories(paths)
    user = pwd.getpwuid(os.getuid()).pw_name
    fake = SimpleNamespace(params=parameters(user=user, generation="", sandbox=True), check_mode=False, run_command=None)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: lifecycle.start(fake, paths), range(2)))
    assert started == [1]
    assert sorted(result["changed"] for result in results) == [False, True]


def test_the_loopback_interface_has_the_loopback_address():
    assert host.interface_address("lo") == "127.0.0.1"
    assert host.interface_address("none0") == ""


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


def variables(**changes):
    hosts = {
        f"c-{n}": {"deeplearning_cluster": "c", "deeplearning_number": n, "deeplearning_private_ip": f"10.0.0.{n}"} for n in (1, 2, 10)
    }
    other = {"x": {"deeplearning_cluster": "other", "deeplearning_number": 1, "deeplearning_private_ip": "10.1.0.1"}, "localhost": {}}
    return {**hosts["c-2"], "hostvars": {**hosts, **other}, "ansible_play_hosts_all": ["c-10", "c-2", "c-1"], **changes}


def test_the_generation_is_that_of_the_clusters_hosts_alone():
    workers = [{"number": n, "address": f"10.0.0.{n}"} for n in (10, 2, 1)]
    assert action.inventory_generation(variables()) == metadata.generation("c", workers)


def test_an_inventory_without_a_cluster_is_refused():
    with pytest.raises(AnsibleActionFail, match="no deeplearning_cluster"):
        action.inventory_generation({"hostvars": {}})


def test_the_lowest_number_in_the_play_gets_the_code():
    assert not action.is_first(variables())
    assert action.is_first(variables(ansible_play_hosts_all=["c-10", "c-2"]))
