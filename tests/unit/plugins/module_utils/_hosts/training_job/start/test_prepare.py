"""Tests that check which hosts and jobs can be prepared."""

from __future__ import annotations

import json
import os
import threading
import time
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import HealthFinding
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_setup import records as node_setup_records
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.start import prepare
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, exclusions, records
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition import job_parameters


def record(paths, rank, state, heartbeat=None, processes=2, part="worker", **changes):
    os.makedirs(paths.status, exist_ok=True)
    now = time.time()
    entry = {"name": f"rank{rank}", "rank": rank, "ranks": [rank], "host": "w1", "part": part, "state": state, "processes": processes}
    entry.update(started=now, heartbeat=heartbeat or now, finished=now, **changes)
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
        record(paths, rank, state, cause={"kind": "script_error", "what": "ValueError at train.py, line 3"})
    with pytest.raises(job_parameters.RefusalError, match=rf"already run \({word}\).*Choose another name"):
        prepare.check_job("digits", paths, 60)


@pytest.mark.parametrize(
    ("cause", "can_continue"),
    [
        ({"kind": "host_shut_down"}, True),
        ({"kind": "spot_interruption"}, True),
        ({"kind": "killed"}, True),
        ({"kind": "hang"}, True),
        ({"kind": "time_limit"}, True),
        ({"kind": "out_of_memory"}, True),
        ({"kind": "signal", "name": "SIGKILL"}, True),
        ({"kind": "signal", "name": "SIGSEGV"}, False),
        ({"kind": "exit_status"}, False),
        ({"kind": "not_started"}, False),
    ],
)
def test_a_job_that_the_infrastructure_has_ended_can_be_continued(paths, cause, can_continue):
    record(paths, 0, "failed", cause={"what": "it", **cause})
    record(paths, 1, "stopped")
    records.write_json(paths.verdict, {"state": "failed", "failure": records.read_record(paths.record("rank0"))})
    if can_continue:
        assert prepare.check_job("digits", paths, 60) == "ended"
    else:
        with pytest.raises(job_parameters.RefusalError, match=r"already run \(failed\)"):
            prepare.check_job("digits", paths, 60)


def test_a_job_that_an_operator_has_stopped_can_be_continued(paths):
    record(paths, 0, "stopped")
    record(paths, 1, "stopped")
    assert prepare.check_job("digits", paths, 60) == "ended"
    with pytest.raises(job_parameters.RefusalError, match=r"already run \(stopped\)"):
        prepare.check_job("digits", paths, 60, "slurm")


def test_a_job_that_has_lost_its_hosts_can_be_continued(paths):
    """All hosts are gone, so no supervisor has written a verdict."""
    record(paths, 0, "running", heartbeat=time.time() - 100)
    record(paths, 1, "running", heartbeat=time.time() - 100)
    for rank in range(2):
        os.utime(paths.record(f"rank{rank}"), (0, time.time() - 100))
    assert prepare.check_job("digits", paths, 60) == "ended"
    record(paths, 1, "running")
    assert prepare.check_job("digits", paths, 60) == "running"


def test_a_job_that_lacks_hosts_can_be_continued(paths):
    record(paths, 0, "stopped", restartable=True)
    record(paths, 1, "running", heartbeat=time.time() - 100, restartable=True)
    records.write_json(paths.verdict, {"state": "lost", "failure": records.read_record(paths.record("rank1")), "restartable": True})
    records.write_json(paths.following, {"action": "stop", "rule": "too_few_hosts", "decided": time.time()})
    assert prepare.check_job("digits", paths, 60) == "ended"
    records.write_json(paths.following, {"action": "restart", "rule": "continued", "decided": time.time()})
    second = paths.of_attempt(2)
    record(second, 0, "running")
    assert prepare.check_job("digits", paths, 60) == "running"


def test_processes_on_standby_do_not_count(paths):
    record(paths, 2, "running", part="standby", processes=1)
    assert prepare.check_job("digits", paths, 60) == "running"
    record(paths, 0, "succeeded", processes=1)
    with pytest.raises(job_parameters.RefusalError, match=r"already run \(succeeded\)"):
        prepare.check_job("digits", paths, 60)


def test_a_job_in_a_queue_is_waited_for(paths):
    os.makedirs(paths.status)
    records.write_json(paths.queue, {"queue": "slurm", "id": "7", "submitted": 5.0})
    assert prepare.check_job("digits", paths, 60) == "running"


def test_a_job_that_its_queue_could_not_start_is_refused(paths):
    os.makedirs(paths.status)
    records.write_json(paths.queue, {"queue": "slurm", "id": "7", "submitted": 5.0, "failure": "no space"})
    with pytest.raises(job_parameters.RefusalError, match=r"job digits could not be started by its queue.*Choose another name"):
        prepare.check_job("digits", paths, 60)


@pytest.mark.parametrize(
    ("on_first_host", "count", "mount", "runs"),
    [(True, 3, "/", True), (False, 1, "/", True), (False, 3, "/efs", True), (False, 3, "/", False)],
)
def test_several_hosts_need_shared_storage(paths, monkeypatch, on_first_host, count, mount, runs):
    workers = [{"number": n, "name": f"w{n}", "address": "127.0.0.1"} for n in range(1, count + 1)]
    monkeypatch.setattr(prepare, "read_metadata", lambda directory, generation: {"number": 1, "workers": workers, "gpu_count": 0})
    monkeypatch.setattr(prepare, "check_python", lambda params: None)
    monkeypatch.setattr(prepare.local_code, "mount_point", lambda path: mount)
    monkeypatch.setattr(prepare.local_code, "shared_mounts", list)
    params = {"metadata_directory": "/opt/deeplearning", "generation": "", "efa": False, "gpus": None, "sandbox": False}
    params |= {"name": "digits", "directory": "/data/jobs", "heartbeat_timeout": 60, "resume": None, "environment": {}}
    params["instance_id"] = None
    params |= {"on_first_host": on_first_host, "queue": None, "cost_limit": {"amount": 5.0}}
    module = SimpleNamespace(params=params, run_command=None)
    if runs:
        found = prepare.examine(module, paths, None)
        assert (found["job_state"], found["earlier_node_seconds"]) == ("new", 0)
    else:
        message = r"directory: '/data/jobs' is on this host's own disk\..* To run the job there, set training_job_hosts: master\."
        with pytest.raises(job_parameters.RefusalError, match=message):
            prepare.examine(module, paths, None)


def test_a_host_that_cannot_use_its_efa_is_refused(tmp_path, monkeypatch):
    worker = {"number": 2, "name": "deeplearning-worker2", "address": "127.0.0.1"}
    monkeypatch.setattr(prepare, "read_metadata", lambda directory, generation: {"number": 2, "workers": [worker], "gpu_count": 8})
    monkeypatch.setattr(prepare, "missing_for_efa", lambda run: "no driver")
    params = {"metadata_directory": "/opt/deeplearning", "generation": "", "efa": True, "gpus": None, "environment": {}}
    module = SimpleNamespace(params=params, run_command=None)
    with pytest.raises(job_parameters.RefusalError, match="deeplearning-worker2 has EFA but cannot use it: no driver"):
        prepare.examine(module, directories.Paths(str(tmp_path)), None)


def test_a_host_whose_set_up_is_not_done_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(node_setup_records, "RECORDS", str(tmp_path))
    (tmp_path / "aaa.json").write_text('{"state": "succeeded"}')
    prepare.check_setup({"aaa": "step 1 (tools)"})
    prepare.check_setup({})
    with pytest.raises(
        job_parameters.RefusalError, match=r"node_setup_steps: step 2 \(data\) must succeed on this host before a job starts\."
    ):
        prepare.check_setup({"aaa": "step 1 (tools)", "bbb": "step 2 (data)"})


class Readings:
    """A stub that replaces the function that runs checks. The storage check is the only check that runs for each mount."""

    checks = [SimpleNamespace(name=name, read=name, until_boot=name == "disks") for name in ("storage", "xid", "disks", "gpu_count")]

    def __init__(self, *findings):
        self._findings = [HealthFinding(check, severity, "is broken.") for check, severity in findings]

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def findings(self, chosen=lambda check: True):
        return [each for each in self._findings if chosen(SimpleNamespace(per_mount=each.check == "storage"))]


FOUND = {"host": {"name": "w1"}}
INSTANCE = "i-0123456789abcdef0"


@pytest.fixture
def prepared(monkeypatch, paths, tmp_path):
    """Return a function that prepares a job on a host with the given findings and returns the completed steps."""

    monkeypatch.setattr(exclusions, "PATH", str(tmp_path / "node-health/exclusions.json"))
    monkeypatch.setattr(exclusions, "OWNER", os.geteuid())

    def prepare_job(*findings, health_check=True, active=(), job_state="new", failures=(), restarts=0, check_mode=False):
        steps = []

        def record_start(user, params):
            steps.append((user, params["directory"], params["instance_type"], params["efa_devices"]))
            return Readings(*findings)

        account = SimpleNamespace(pw_name="deeplearning")
        params = {"user": "deeplearning", "name": "digits", "directory": "/efs/jobs", "metadata_directory": "/opt/deeplearning"}
        params |= {
            "health_check": health_check,
            "instance_type": "p5.48xlarge",
            "efa_devices": 32,
            "archive": "code.tar",
            "sandbox": False,
            "sync_directory": "",
            "setup_digests": {},
            "queue": None,
            "restarts": restarts,
            "instance_id": INSTANCE,
        }
        module = SimpleNamespace(params=params, check_mode=check_mode, run_command=None)
        found = {**FOUND, "job_state": job_state, "failures": {name: time.time() for name in failures}}
        monkeypatch.setattr(prepare.install_health_service, "install", lambda _run, params: steps.append(params["instance_id"]))
        monkeypatch.setattr(prepare.submission, "queues_of_host", lambda _run, _name: [])
        monkeypatch.setattr(prepare.users, "ensure", lambda *_arguments, **_options: account)
        monkeypatch.setattr(prepare.users, "as_user", lambda *_arguments: steps.append("examine") or found)
        monkeypatch.setattr(prepare, "install_code", lambda *_arguments: steps.append("install"))
        monkeypatch.setattr(prepare.systemd, "active_units", lambda _run, name: list(active))
        monkeypatch.setattr(prepare, "before_job", record_start)
        monkeypatch.setattr(prepare.systemd, "other_jobs", lambda _name: [{"job": "b"}, {"job": "a"}, {"job": "b"}])
        try:
            result = prepare.prepare(module, paths)
            assert result["other_jobs"] == ["a", "b"]
            steps += [result["excluded"]] if result["excluded"] else []
        except job_parameters.RefusalError as error:
            steps.append(str(error))
        return steps

    return prepare_job


STARTED = ("deeplearning", "/efs/jobs", "p5.48xlarge", 32)


def test_a_healthy_host_is_prepared(prepared):
    assert prepared(("xid", "monitor")) == [STARTED, "examine", "install"]


def test_hanging_storage_is_refused_before_it_is_used(prepared):
    _started, refusal = prepared(("storage", "restart"), ("xid", "replace"))
    assert refusal.startswith("this node is unhealthy. storage: is broken. To see what to do, run deeplearning.cluster.health.")


def test_an_unhealthy_host_is_refused(prepared):
    refusal = prepared(("xid", "replace"), ("disks", "monitor"), ("gpu_count", "reboot"))[-1]
    assert refusal.startswith("this node is unhealthy. xid: is broken. gpu_count: is broken. To see")
    assert "training_job_health_check" in refusal


def test_a_job_that_runs_is_waited_for_on_an_unhealthy_host(prepared):
    steps = prepared(("storage", "restart"), active=["deeplearning-digits-rank0.service"], job_state="running")
    assert steps == [STARTED, "examine"]


def test_without_the_check_an_unhealthy_host_is_prepared(prepared):
    assert prepared(("xid", "replace"), health_check=False) == ["examine", "install"]


def write_exclusions(*makers):
    found = tuple(exclusions.Exclusion(by, "bad cable", 60.0) for by in makers)
    exclusions.write(exclusions.Memory(INSTANCE, found))


def makers():
    return [each.by for each in exclusions.read(INSTANCE).exclusions]


def test_a_change_of_the_exclusions_waits_for_another_one(prepared):
    """Otherwise, an exclusion that a person makes while a job is prepared could be lost."""
    write_exclusions("xid")
    thread = threading.Thread(target=prepared)
    with exclusions.locked():
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        write_exclusions("xid", "person")
    thread.join(10)
    assert makers() == ["person"]


def test_an_excluded_host_is_reported_and_not_refused(prepared):
    """The job may have enough other hosts. A check that excludes a host and still fails is no reason to refuse the job."""
    write_exclusions("person", "xid")
    excluded = "since 1970-01-01 00:01 UTC by a person: bad cable."
    assert prepared(("xid", "replace"))[-1] == f"{excluded} since 1970-01-01 00:01 UTC by the check xid: bad cable."
    assert prepared(check_mode=True)[-1] == excluded
    assert makers() == ["person", "xid"], "check mode ends no exclusion"
    assert prepared()[-1] == excluded
    assert makers() == ["person"], "the check has passed"


def test_without_the_check_the_exclusions_of_checks_do_not_count(prepared):
    write_exclusions("xid")
    assert prepared(health_check=False) == ["examine", "install"]
    assert makers() == ["xid"]


def test_a_host_on_which_two_attempts_failed_is_excluded(prepared):
    assert prepared(failures=["attempt 1 of a"])[-1] == "install"
    assert "after repeated failures of jobs: 2 attempts" in prepared(failures=["attempt 1 of a", "attempt 2 of a"])[-1]
    assert makers() == ["recovery"]
    assert "after repeated failures" in prepared()[-1], "the records of the failures may have been deleted"


@pytest.mark.parametrize(
    ("options", "installed"),
    [({"restarts": 3}, True), ({}, False), ({"restarts": 3, "health_check": False}, False), ({"restarts": 3, "check_mode": True}, False)],
)
def test_checks_after_a_failure_are_installed_if_the_job_may_be_restarted(prepared, options, installed):
    assert (INSTANCE in prepared(**options)) == installed


def test_a_job_is_not_continued_while_its_units_are_active(prepared):
    steps = prepared(active=["deeplearning-digits-rank0.service"], job_state="ended", health_check=False)
    assert steps[-1].startswith("job digits has ended, but deeplearning-digits-rank0.service is still active on this host. Wait until")


def test_the_code_of_a_job_that_continues_is_compared_and_not_unpacked(monkeypatch, paths, tmp_path):
    compared = []
    (tmp_path / "code.tar").write_bytes(b"code")
    monkeypatch.setattr(prepare.systemd, "active_units", lambda _run, _name: [])
    monkeypatch.setattr(prepare.users, "as_user", lambda _user, work, *_options: work())
    monkeypatch.setattr(prepare.continuation, "code_digest", lambda file: file.read().decode())
    monkeypatch.setattr(prepare.continuation, "check_unchanged", lambda *arguments: compared.append(arguments))
    module = SimpleNamespace(params={"name": "digits", "archive": str(tmp_path / "code.tar")}, run_command=None)
    prepare.check_continuation(module, paths, None)
    module.params["archive"] = None
    prepare.check_continuation(module, paths, None)
    assert [digest for _params, _paths, digest in compared] == ["code", ""]
