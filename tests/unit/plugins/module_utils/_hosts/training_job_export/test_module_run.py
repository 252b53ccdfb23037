"""Tests that use a stub of systemd to check how the module manages the unit that exports a job."""

from __future__ import annotations

import json
import os
import pwd
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_export import module_run
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.directories import LOCK, Paths

DESTINATION = "s3://results/team/digits/"
OMITTED = {"omitted": ["checkpoints/.step-30"], "omitted_count": 1}


class Unit:
    """A stub of systemd: the state of a unit, and the recorded commands. Starting the unit calls `run`."""

    def __init__(self):
        self.is_in, self.specs, self.stops, self.run = "inactive", [], 0, lambda: None

    def state(self, _run, _job):
        return self.is_in

    def start(self, _run, _job, spec, _user):
        self.specs.append(spec)
        self.run()

    def stop(self, _run, _job):
        self.stops += 1

    def plan(self, _run, _job, spec, _user):
        self.specs.append(spec)
        return json.dumps(self.run())

    @staticmethod
    def name(job, action):
        return f"deeplearning_{action}-{job}.service"


@pytest.fixture
def unit(monkeypatch, tmp_path):
    found = Unit()
    monkeypatch.setattr(module_run, "unit", found)
    monkeypatch.setattr(module_run, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(systemd.directories, "LOCK", str(tmp_path / os.path.basename(LOCK)))
    return found


@pytest.fixture
def paths(tmp_path, monkeypatch):
    found = Paths(str(tmp_path / "jobs/digits"))
    for folder in (found.logs, found.status):
        os.makedirs(folder)
    Path(found.description).write_text(json.dumps({"launcher": "command", "created": 1.0}))
    monkeypatch.setattr(module_run, "DESTINATIONS", str(tmp_path / "destinations"))
    # Tests may run as root, but jobs never do.
    account = pwd.getpwuid(os.getuid())
    monkeypatch.setattr(module_run, "job_user", lambda *_: account)
    return found


def write(paths, state, **changes):
    document = {"destination": DESTINATION, "state": state, "began": time.time(), "heartbeat": time.time(), **changes}
    Path(paths.export).write_text(json.dumps(document))


def run(paths, check_mode=False, **params):
    defaults = {name: option.get("default") for name, option in module_run.ARGUMENTS.items()}
    params = {**defaults, "name": "digits", "directory": os.path.dirname(paths.directory), "destination": "s3://results/team", **params}
    return module_run.work_on(SimpleNamespace(params=params, check_mode=check_mode, run_command=None))


def test_an_export_is_started_and_its_result_returned(unit, paths, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    description = {"launcher": "command", "created": 1.0, "checkpoint_directory": str(tmp_path / "elsewhere")}
    Path(paths.description).write_text(json.dumps(description))
    unit.run = lambda: write(paths, "succeeded", finished=1.0, files=3, size=9, uploaded=1, uploaded_size=4, **OMITTED)
    result = run(paths, include=["logs"], region="us-east-1")
    del result["since"]
    numbers = {"files": 3, "size": 9, "uploaded": 1, "uploaded_size": 4, "changing": 0, **OMITTED}
    assert result == {"destination": DESTINATION, "finished": True, "changed": True, **numbers}
    (spec,) = unit.specs
    assert (spec["destination"], spec["include"], spec["follow"], spec["region"]) == (DESTINATION, ["logs"], False, "us-east-1")
    assert spec["checkpoints"] == str(tmp_path / "elsewhere")


def test_a_job_that_is_followed_is_asked_for_a_pass(unit, paths):
    write(paths, "waiting", finished=1.0, began=1.0)
    unit.is_in = "active"
    result = run(paths, wait=0)
    assert (result["finished"], unit.specs, os.path.exists(paths.export + ".request")) == (False, [], True)
    os.unlink(paths.export + ".request")
    write(paths, "running", uploaded_size=5)
    result = run(paths, wait=0, since=result["since"])
    assert (result["progress"]["uploaded_size"], os.path.exists(paths.export + ".request")) == (5, False)
    write(paths, "waiting", finished=2.0)
    assert run(paths, since=result["since"])["finished"]


def test_after_the_end_of_the_job_the_last_pass_counts(unit, paths):
    now = time.time()
    record = {"name": "rank0", "rank": 0, "ranks": [0], "part": "worker", "host": "w1", "processes": 1, "state": "succeeded"}
    Path(paths.record("rank0")).write_text(json.dumps({**record, "started": now, "heartbeat": now, "finished": now}))
    write(paths, "waiting", finished=1.0)
    unit.is_in = "active"
    assert not run(paths, since=1.0, wait=0)["finished"]
    write(paths, "succeeded", finished=2.0)
    assert run(paths, since=1.0, wait=0)["finished"]


def test_a_job_that_is_followed_is_not_followed_twice(unit, paths):
    unit.is_in = "active"
    assert run(paths, state="started") == {"finished": True, "changed": False, "destination": DESTINATION}
    assert not os.path.exists(paths.export + ".request")


def test_a_host_on_standby_waits_in_the_background(unit, paths):
    expected = {"finished": True, "changed": True, "destination": DESTINATION}
    assert run(paths, state="standby", standby=3) == expected
    (spec,) = unit.specs
    assert (spec["follow"], spec["standby"]) == (True, 3)
    unit.is_in = "active"
    assert run(paths, state="standby", standby=3) == {**expected, "changed": False}
    assert len(unit.specs) == 1


def test_an_export_that_ended_before_it_saw_the_request_is_started_again(unit, paths):
    write(paths, "succeeded", finished=1.0, began=1.0)
    unit.run = lambda: write(paths, "succeeded", finished=2.0)
    assert run(paths, since=time.time() - 1)["finished"]
    assert len(unit.specs) == 1


@pytest.mark.parametrize(("state", "is_in"), [("running", "inactive"), ("running", "failed"), ("succeeded", "failed")])
def test_an_export_that_was_killed_is_an_error(unit, paths, state, is_in):
    write(paths, state, began=1.0)
    unit.is_in = is_in
    with pytest.raises(module_run.ExportError, match=r"ended before it was complete.*journalctl -u deeplearning_export-digits.service"):
        run(paths, since=2.0)
    assert unit.specs == []


@pytest.mark.parametrize(("state", "stops"), [("present", 0), ("started", 1)])
def test_a_failure_is_told_and_a_job_that_cannot_be_exported_is_not_followed(unit, paths, state, stops):
    unit.run = lambda: write(paths, "waiting", finished=1.0, error="S3 denies it.")
    with pytest.raises(module_run.ExportError, match=r"^S3 denies it\.$"):
        run(paths, state=state)
    assert unit.stops == stops


def test_the_last_destination_is_the_default(unit, paths):
    with pytest.raises(
        module_run.ExportError, match="training_job_export: no destination is set, and this host has not exported the job yet"
    ):
        run(paths, destination=None)
    unit.run = lambda: write(paths, "succeeded", finished=2.0)
    run(paths)
    assert run(paths, destination=None)["destination"] == DESTINATION


def test_a_new_job_of_the_same_name_has_no_default_destination(unit, paths):
    unit.run = lambda: write(paths, "succeeded", finished=time.time())
    run(paths)
    Path(paths.description).write_text(json.dumps({"launcher": "command", "created": 2.0}))
    with pytest.raises(module_run.ExportError, match="no destination is set, and this host has not exported the job yet"):
        run(paths, destination=None)


def test_a_job_cannot_choose_the_destination(unit, paths):
    forged = "s3://other/digits/"
    write(paths, "succeeded", finished=1.0, began=1.0, destination=forged)
    with pytest.raises(module_run.ExportError, match="no destination is set"):
        run(paths, destination=None)
    unit.run = lambda: write(paths, "succeeded", finished=2.0, destination=forged)
    run(paths)
    assert run(paths, destination=None)["destination"] == DESTINATION
    assert {spec["destination"] for spec in unit.specs} == {DESTINATION}


def test_a_prediction_starts_nothing(unit, paths):
    unit.run = lambda: {"files": 3, "size": 9, "uploaded": 3, "uploaded_size": 9, **OMITTED, "keys": ["a", "b"]}
    result = run(paths, check_mode=True)
    (diff,) = result.pop("diff")
    assert diff["after"] == f"{DESTINATION}a\n{DESTINATION}b\nand 1 more\n"
    assert result == {
        "finished": True,
        "destination": DESTINATION,
        "changed": True,
        "files": 3,
        "size": 9,
        "uploaded": 3,
        "uploaded_size": 9,
        **OMITTED,
    }
    unit.run = lambda: {"error": "there is no bucket results"}
    with pytest.raises(module_run.ExportError, match="there is no bucket results"):
        run(paths, check_mode=True)
    assert not os.path.exists(paths.export)


@pytest.mark.parametrize(
    ("params", "message"),
    [({"name": "../x"}, "is not a valid job name"), ({"destination": "results"}, "'results' is not a bucket or prefix")],
)
def test_bad_input_is_refused(unit, paths, params, message):
    with pytest.raises(ValueError, match=message):
        run(paths, **params)


@pytest.mark.parametrize("state", ["running", "waiting", None])
def test_an_export_that_a_script_has_suspended_is_an_error(unit, paths, state):
    """The export's unit stays active, and the export's state file might have been deleted."""
    unit.is_in = "active"
    if state:
        write(paths, state, began=1.0, heartbeat=time.time() - 61)
    assert not run(paths, since=time.time() - 59, wait=0)["finished"], "an export that has just started may not have written its state"
    with pytest.raises(
        module_run.ExportError, match=r"no heartbeat for 60 s\. A process .* may have suspended the export.*deeplearning_export-digits"
    ):
        run(paths, since=time.time() - 61, wait=0)


@pytest.mark.parametrize(
    "forged",
    [{"files": "many"}, {"keys": "a"}, {"keys": [1]}, {"uploaded": -1}, {"size": None}, {"error": 1, "files": True}],
    ids=str,
)
def test_a_forged_plan_is_refused(unit, paths, forged):
    unit.run = lambda: {"files": 3, "size": 9, "uploaded": 1, "uploaded_size": 9, **OMITTED, "keys": ["a"], **forged}
    with pytest.raises(module_run.ExportError, match=r"^the export plan of job digits is not valid: its '.*\. Check"):
        run(paths, check_mode=True)


def test_a_plan_that_is_no_object_is_refused(unit, paths):
    unit.run = list
    with pytest.raises(module_run.ExportError, match="the plan is not a JSON object"):
        run(paths, check_mode=True)


def test_a_forged_plan_does_not_replace_other_values(unit, paths):
    forged = {"finished": False, "changed": False, "destination": "s3://other/digits/", "diff": [], "warnings": ["no"]}
    unit.run = lambda: {"files": 3, "size": 9, "uploaded": 1, "uploaded_size": 9, **OMITTED, "keys": ["a"], **forged}
    result = run(paths, check_mode=True)
    assert (result["finished"], result["changed"], result["destination"]) == (True, True, DESTINATION)
    assert (len(result["diff"]), "warnings" in result) == (1, False)


@pytest.fixture
def module(monkeypatch):
    found = SimpleNamespace(run_command=None, check_mode=False, params={"user": "deeplearning"})
    monkeypatch.setattr(
        module_run.users, "ensure", lambda _run, name, make: SimpleNamespace(pw_name=name, pw_uid=os.getuid() + 5, made=make)
    )
    return found


def test_the_user_of_a_job_owns_its_logs(tmp_path, monkeypatch, module):
    with pytest.raises(module_run.ExportError, match=rf"job 'digits' does not exist in {tmp_path}\. To list the jobs"):
        module_run.job_user(module, Paths(str(tmp_path / "digits")))
    os.makedirs(tmp_path / "digits/logs")
    monkeypatch.setattr(module_run.os, "lstat", lambda _path: SimpleNamespace(st_uid=os.getuid() + 5))
    assert module_run.job_user(module, Paths(str(tmp_path / "digits"))).made


def test_the_owner_of_the_logs_does_not_choose_the_user(tmp_path, module):
    """Root on one node can make any user of a different node, such as the login user, the owner of the logs."""
    os.makedirs(tmp_path / "digits/logs")
    with pytest.raises(module_run.ExportError, match=rf"_user: .*/logs belongs to uid {os.getuid()}, but user 'deeplearning' has uid"):
        module_run.job_user(module, Paths(str(tmp_path / "digits")))


def test_jobs_are_never_exported_as_root(tmp_path, monkeypatch, module):
    os.makedirs(tmp_path / "digits/logs")
    monkeypatch.setattr(module_run.users, "ensure", lambda _run, name, make: SimpleNamespace(pw_name=name, pw_uid=0))
    with pytest.raises(module_run.ExportError, match="jobs never run as root"):
        module_run.job_user(module, Paths(str(tmp_path / "digits")))


@pytest.mark.parametrize(
    ("own", "mounts", "shared", "accepted"),
    [
        (True, {}, (), True),
        (False, {}, (), False),
        (False, {"jobs": "/"}, (), False),
        (False, {"jobs": "x", "elsewhere": "x"}, (), True),
        (False, {"elsewhere": "y"}, ("y",), True),
        (False, {"elsewhere": "y"}, (), False),
    ],
    ids=["own", "others", "same-disk", "same-mount", "shared", "other-mount"],
)
def test_checkpoints_elsewhere(unit, paths, monkeypatch, own, mounts, shared, accepted):
    jobs, elsewhere = os.path.dirname(paths.directory), os.path.join(os.path.dirname(os.path.dirname(paths.directory)), "elsewhere")
    os.makedirs(elsewhere)
    Path(paths.description).write_text(json.dumps({"launcher": "command", "created": 1.0, "checkpoint_directory": elsewhere}))
    names = {jobs: mounts.get("jobs", "/"), elsewhere: mounts.get("elsewhere", "/")}
    monkeypatch.setattr(module_run.local_code, "mount_point", names.__getitem__)
    monkeypatch.setattr(module_run.local_code, "is_shared", shared.__contains__)
    found = module_run.own_or_shared(paths, os.getuid() if own else os.getuid() + 1)
    assert found == {"path": elsewhere, "accepted": accepted}
    monkeypatch.setattr(module_run, "own_or_shared", lambda _paths, _uid: found)
    if accepted:
        assert module_run.checkpoint_directory(paths, pwd.getpwuid(os.getuid())) == elsewhere
    else:
        with pytest.raises(module_run.ExportError, match="neither on shared storage nor a directory of user"):
            module_run.checkpoint_directory(paths, pwd.getpwuid(os.getuid()))


def test_a_link_to_other_directories_is_not_the_user_s_own(paths, monkeypatch):
    link = os.path.join(os.path.dirname(paths.directory), "link")
    os.symlink("/etc", link)
    Path(paths.description).write_text(json.dumps({"launcher": "command", "created": 1.0, "checkpoint_directory": link}))
    assert module_run.own_or_shared(paths, 12345) == {"path": "/etc", "accepted": False}
