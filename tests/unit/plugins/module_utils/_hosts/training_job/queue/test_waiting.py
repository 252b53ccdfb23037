"""Tests that check how new hosts get the parameters of waiting jobs. tests/hosts/test_queues.py tests the same with Slurm and SGE."""

from __future__ import annotations

import base64
import json
import os
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.queue import hold, submission, waiting
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories

from ...._job.definition.parameters import parameters

NEW = {"name": "deeplearning-worker3", "address": "10.0.9.3", "number": 3, "gpus": [0, 1], "interface": "eth0", "efa": False}
NEW_INSTANCE = {"instance_id": "i-0aaaaaaaaaaaaaaaa", "capacity_end": 1.8e9}
# The options of the launcher with their defaults, which the module adds before the parameters are kept
OPTIONS = {"min_hosts": 0, "max_restarts": 0}
CURRENT = [
    {"name": "deeplearning-worker1", "address": "10.0.0.1", "number": 1, "gpus": [0, 1], "interface": "ens5", "efa": False},
    NEW,
    {"name": "stranger", "address": "10.0.0.7", "number": 7, "gpus": [], "interface": "ens5", "efa": False},
]


def kept(**changes):
    """Return the parameters that a host keeps."""
    given = parameters(directory="/efs/jobs", metadata_directory="/m", **{"user": "deeplearning", "launcher_options": OPTIONS, **changes})
    hosts = [{**each, "gpus": [0], "efa": False} for each in given["hosts"]]
    return {**{key: given[key] for key in submission.KEPT}, "hosts": hosts}


class Host:
    """A host that keeps parameters in a directory."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch, self.warnings = folder, monkeypatch, []

    def __enter__(self):
        self.monkeypatch.setattr(directories, "HELD", str(self.folder))
        return self

    def __exit__(self, *_):
        pass

    def keep(self, **changes):
        with self:
            found = kept(**changes)
            submission.keep(found["name"], {"queue": "slurm", "parameters": found})

    def read(self, *names):
        with self:
            return waiting.read({"queue": "slurm", "names": names})

    def ensure(self, *given, names=("digits",), check_mode=False):
        params = {"queue": "slurm", "names": names, "hosts": CURRENT, "parameters": given, **NEW_INSTANCE}
        with self:
            return waiting.ensure(SimpleNamespace(params=params, check_mode=check_mode, warn=self.warnings.append))

    def job(self, name="digits"):
        with self:
            return hold.read_job(hold.directory(name))


@pytest.fixture
def former(tmp_path, monkeypatch):
    """A host of the job that was not replaced."""
    host = Host(tmp_path / "former", monkeypatch)
    host.keep()
    return host


@pytest.fixture
def new(tmp_path, monkeypatch):
    return Host(tmp_path / "new", monkeypatch)


def test_a_new_host_gets_the_parameters_with_current_addresses(former, new):
    assert new.ensure(*former.read("digits")) == ["digits"]
    found = new.job()
    assert (found.queue, found.name, found.nonce) == ("slurm", "digits", "")
    twelve, three, one = found.parameters["hosts"]
    assert three == {**NEW, "gpus": [0]}, "the job was submitted for one GPU per host"
    assert twelve["address"] == "10.0.0.12", "a host that takes no part in the run"
    assert one["interface"] == "ens5"
    assert found.parameters == {**kept(), "hosts": [twelve, three, one], **NEW_INSTANCE}
    place = str(new.folder / "digits")
    assert (os.stat(place).st_mode & 0o777, os.stat(os.path.join(place, hold.PARAMETERS)).st_mode & 0o777) == (0o700, 0o600)
    assert {"hold", "hold.zip"} < set(os.listdir(place))
    assert new.ensure(*former.read("digits")) == []


def test_the_other_hosts_get_only_the_addresses(former):
    forged = base64.b64encode(json.dumps({**kept(), "script": "/forged.py"}).encode()).decode()
    assert former.ensure({"name": "digits", "document": forged}) == ["digits"]
    found = former.job().parameters
    assert found["hosts"][1] == {**NEW, "gpus": [0]}
    assert (found["script"], found["instance_id"]) == ("/home/me/train.py", "i-0123456789abcdef0")
    assert former.warnings == []


def test_check_mode_writes_nothing(former, new):
    assert new.ensure(*former.read("digits"), check_mode=True) == ["digits"]
    assert not new.folder.exists()


def test_jobs_that_do_not_wait_are_ignored(former, new):
    assert new.ensure(*former.read("digits"), names=["bert"]) == []
    assert not new.folder.exists()


def test_jobs_of_another_queue_are_not_read(former):
    with former:
        assert waiting.read({"queue": "sge", "names": ["digits"]}) == []


def document(remove=(), **changes):
    found = {key: value for key, value in kept(**changes).items() if key not in {*waiting.OWN, *remove}}
    return base64.b64encode(json.dumps(found).encode()).decode()


@pytest.mark.parametrize(
    ("forged", "reason"),
    [
        ("!", "the parameters are not valid: "),
        (base64.b64encode(b"x").decode(), "the parameters are not valid: "),
        (base64.b64encode(b"[" * 100_000).decode(), "the parameters are not valid: "),
        (base64.b64encode(b"[]").decode(), "the parameters are not those of a job in a queue"),
        (document(remove=["user"]), "the parameters are not those of a job in a queue"),
        (document(name="bert"), "the parameters are those of job 'bert'"),
        (document(user="root"), "the job would run as the system user 'root'"),
        (document(user="games"), "the job would run as the system user 'games'"),
        (document(user="nobody"), "user: no second host of the job has confirmed the value 'nobody'"),
        (document(sandbox=False), "sandbox: no second host of the job has confirmed the value False"),
        (document(sync_directory="/etc/cron.d/x"), "sync_directory: no second host of the job has confirmed the value '/etc/cron.d/x'"),
        (document(metrics_directory="/etc/systemd/system/ssh.service.d"), "metrics_directory: no second host of the job has confirmed"),
        (document(name="../bert"), "name: '../bert'"),
        (document(restarts="many"), "restarts"),
        (document(launcher="sh"), "launcher: 'sh' is unknown"),
        (document(script=None), "script: missing"),
    ],
)
def test_parameters_that_are_not_valid_are_ignored(former, new, forged, reason):
    assert new.ensure({"name": "digits", "document": forged}) == []
    assert new.job() is None
    assert len(new.warnings) == 1
    assert "parameters: the parameters of job digits from another host were ignored: " in new.warnings[0]
    assert reason in new.warnings[0]
    assert new.ensure({"name": "digits", "document": forged}, *former.read("digits")) == ["digits"]


def test_names_cannot_lead_out_of_the_directory(former):
    with pytest.raises(ValueError, match="name"):
        former.read("../former/digits")


def test_a_host_describes_itself_and_its_jobs(former, monkeypatch):
    monkeypatch.setattr(waiting.host, "read_metadata", lambda directory, generation: {})
    monkeypatch.setattr(waiting.host, "describe_host", lambda metadata, gpus, efa: waiting.host.Host("w", "10.0.0.1", 1, [0], "ens5", efa))
    with former:
        found = waiting.examine({"queue": "slurm", "names": ["digits", "bert"], "metadata_directory": "/m", "efa": True})
    assert found["jobs"] == [{"name": "digits", "hosts": [f"deeplearning-worker{number}" for number in (12, 3, 1)]}]
    assert found["host"]["efa"] is True


ROWS = "7 PENDING deeplearning.cluster waits <> Resources\n8 RUNNING deeplearning.cluster runs <w1> None\n"


def listed(run, check_mode=False):
    return waiting.waiting(SimpleNamespace(params={"queue": "slurm"}, run_command=run, check_mode=check_mode))


def test_only_waiting_jobs_are_listed():
    assert listed(lambda command: (0, ROWS if "--user=root" in command else "7\n", "")) == ["waits"]


def test_check_mode_finds_no_jobs_in_a_queue_that_it_would_set_up():
    def missing(command):
        return 127, "", "squeue: not found"

    assert listed(missing, check_mode=True) == []
    with pytest.raises(submission.QueueError, match="squeue: not found"):
        listed(missing)


def test_the_program_of_the_queue_reads_them(former, new):
    new.ensure(*former.read("digits"))
    assert new.job().paths == directories.Paths("/efs/jobs/digits")


CUSTOM = {"user": "nobody", "sandbox": False, "metrics_directory": "/nowhere/metrics"}


def test_a_second_host_confirms_the_user_and_the_directories(new):
    unconfirmed, confirmed = document(sandbox=False, metrics_directory="/etc/x"), document(**CUSTOM)
    given = [{"name": "digits", "document": each} for each in (unconfirmed, confirmed, document(**CUSTOM, restarts=5))]
    assert new.ensure(*given[:2]) == []
    assert new.ensure(*given) == ["digits"]
    assert {key: new.job().parameters[key] for key in CUSTOM} == CUSTOM
    assert any("metrics_directory: no second host of the job has confirmed the value '/etc/x'" in warning for warning in new.warnings)


@pytest.mark.parametrize("key", ["sync_directory", "metrics_directory"])
def test_a_directory_that_exists_needs_a_second_host_too(new, tmp_path, key):
    """Another host may redirect a link in the path before root creates the directory."""
    given = {"name": "digits", "document": document(**{key: str(tmp_path)})}
    assert new.ensure(given) == []
    assert f"{key}: no second host of the job has confirmed the value" in new.warnings[0]
    assert new.ensure(given, given) == ["digits"]


@pytest.mark.parametrize(
    ("uid", "gid", "member", "reason"),
    [
        (61000, 61000, "", None),
        (1000, 1000, "", None),
        (999, 1000, "", "the system user 'trainer'"),
        (0, 0, "", "the system user 'trainer'"),
        (1000, 27, "", "who belongs to the group 'sudo'"),
        (1000, 1000, "trainer", "who belongs to the group 'sudo'"),
    ],
)
def test_no_job_from_another_host_runs_as_an_administrator(monkeypatch, uid, gid, member, reason):
    groups = {"sudo": SimpleNamespace(gr_mem=[member], gr_gid=27)}
    monkeypatch.setattr(waiting.grp, "getgrnam", groups.__getitem__)
    account = SimpleNamespace(pw_name="trainer", pw_uid=uid, pw_gid=gid)
    if reason:
        with pytest.raises(waiting.RefusalError, match=reason):
            waiting.check_account(account)
    else:
        waiting.check_account(account)
    waiting.check_account(SimpleNamespace(pw_name="deeplearning", pw_uid=999, pw_gid=27))
