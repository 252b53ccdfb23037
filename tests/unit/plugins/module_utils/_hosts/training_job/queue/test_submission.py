"""Tests that check how jobs enter and leave a queue. tests/hosts/test_slurm.py tests the same behavior with Slurm."""

from __future__ import annotations

import os
import pwd
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import transient_units
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.queue import hold, queries, submission
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, records
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.refusal import RefusalError
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.base import QueueError
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.registry import QUEUES

from ...._job.definition.parameters import parameters

REPOSITORY = Path(__file__).parents[7]
SLURM = QUEUES["slurm"]
HOSTS = ["deeplearning-worker1", "deeplearning-worker12", "deeplearning-worker3"]
SHOWN_HOSTS = "\n".join(HOSTS)


class Slurm:
    """A stub of Slurm's commands. `own` and `waiting` are outputs of squeue, and `hosts` is the output of sinfo."""

    def __init__(self, own="", waiting="", hosts=SHOWN_HOSTS, errors=()):
        self.outputs = {"--user=root": own, "--states=PENDING": waiting, "--Node": hosts}
        self.errors, self.commands = errors, []

    def __call__(self, command):
        assert command[:2] == ["timeout", "30"]
        self.commands.append(command[2:])
        if command[2] in self.errors:
            return 1, "", f"{command[2]}: error: no answer.\n"
        if command[2] == "sbatch":
            self.outputs["--user=root"] += "12 PENDING deeplearning.cluster digits <> Priority\n"
            return 0, "12\n", ""
        if command[2] == "scancel":
            self.outputs["--user=root"] = ""
        return 0, next((text for word, text in self.outputs.items() if word in command), ""), ""

    def called(self, name):
        return [command for command in self.commands if command[0] == name]


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in SLURM.programs:
        (programs / name).touch(0o755)
    monkeypatch.setattr(queries, "SEARCH", str(programs))
    monkeypatch.setattr(directories, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(directories, "QUEUE_LOCK", str(tmp_path / "queue-lock"))
    monkeypatch.setattr(directories, "HELD", str(tmp_path / "held"))
    return programs


def test_a_queue_that_knows_all_hosts_can_be_used():
    submission.check(Slurm(), "slurm", HOSTS, "/m")


@pytest.mark.parametrize(
    ("slurm", "missing", "message"),
    [
        (Slurm(), "srun", "queue: Slurm is not installed on this host. "),
        (Slurm(errors=("sinfo",)), None, "queue: sinfo of Slurm failed: sinfo: error: no answer. "),
        (
            Slurm(hosts=HOSTS[0]),
            None,
            "queue: deeplearning-worker12, deeplearning-worker3 cannot be used, because Slurm does not know them. ",
        ),
    ],
)
def test_a_queue_that_cannot_run_the_job_is_refused(installed, slurm, missing, message):
    if missing:
        (installed / missing).unlink()
    with pytest.raises(RefusalError) as error:
        submission.check(slurm, "slurm", HOSTS, "/m")
    assert str(error.value) == f"{message}Run the playbook deeplearning.cluster.slurm, or remove training_job_queue."


@pytest.mark.parametrize(
    ("active", "status", "state", "found"),
    [(0, 0, "idle\n", ["slurm"]), (3, 0, "idle\n", []), (0, 1, "idle\n", []), (0, 0, "drained\n", [])],
)
def test_queues_of_a_host(active, status, state, found):
    def run(command):
        return (active, "", "") if command[0] == "systemctl" else (status, state, "")

    assert submission.queues_of_host(run, "w1") == found


def module(run, check_mode=False, **changes):
    given = parameters(user=pwd.getpwuid(os.getuid()).pw_name, queue="slurm", generation="", metadata_directory="/m", **changes)
    return SimpleNamespace(params=given, run_command=run, check_mode=check_mode)


def test_a_job_is_submitted_once(paths):
    os.makedirs(paths.status)
    slurm = Slurm()
    assert submission.submit(module(slurm), paths) == {"changed": True, "queue_id": "12"}
    note = records.read_queued(paths)
    assert (note["queue"], note["id"]) == ("slurm", "12")
    assert abs(note["submitted"] - time.time()) < 60
    assert submission.submit(module(slurm), paths) == {"changed": False, "queue_id": "12"}
    assert len(slurm.called("sbatch")) == 1


def test_jobs_can_start_while_another_job_is_submitted(paths, monkeypatch):
    """A queue may take a long time to respond."""
    os.makedirs(paths.status)
    monkeypatch.setattr(transient_units, "PATIENCE", 0)
    slurm = Slurm()

    def run(command):
        with transient_units.exclusive():
            if command[2] == "sbatch":
                with pytest.raises(systemd.UnitError, match="queue-lock"), transient_units.exclusive(directories.QUEUE_LOCK):
                    pytest.fail("two submissions at the same time")
            return slurm(command)

    assert submission.submit(module(run), paths)["changed"]
    assert len(slurm.called("sbatch")) == 1


def test_a_queue_whose_response_is_not_valid_starts_no_jobs(monkeypatch):
    monkeypatch.setattr(queries, "send", lambda queue, _command, _run: (0, "<html>" if queue.reservations else "idle\n", ""))
    assert submission.queues_of_host(lambda command: (0, "", ""), "w1") == ["slurm"]


def test_check_mode_submits_nothing(paths):
    slurm = Slurm()
    assert submission.submit(module(slurm, check_mode=True), paths) == {"changed": True}
    assert slurm.called("sbatch") == []


def test_a_job_that_cannot_be_recorded_leaves_the_queue(paths):
    slurm = Slurm()
    with pytest.raises(FileNotFoundError):
        submission.submit(module(slurm), paths)
    assert slurm.called("scancel") == [["scancel", "12"]]


@pytest.mark.parametrize(
    ("changes", "count", "excluded", "minutes"),
    [
        ({"time_limit": 0}, 3, ["stranger"], 0),
        ({"time_limit": 3600, "stop_timeout": 30, "host_count": 2}, 2, ["stranger"], 67),
    ],
)
def test_what_a_job_requests(changes, count, excluded, minutes):
    slurm = Slurm(hosts="\n".join([*HOSTS, "stranger", "stranger"]))
    found = submission.request(slurm, parameters(metadata_directory="/m", **changes), SLURM)
    assert found.hosts == ["deeplearning-worker1", "deeplearning-worker3", "deeplearning-worker12"]
    assert (found.job, found.host_count, found.excluded, found.minutes) == ("digits", count, excluded, minutes)
    assert found.hold[-2:] == [f"{directories.HELD}/digits/hold", "hold"]
    assert found.finish[-2:] == [f"{directories.HELD}/digits/hold", "finish"]


def test_more_hosts_than_there_are_are_refused():
    with pytest.raises(RefusalError, match="host_count: 4 is more than the 3 hosts of the job"):
        submission.host_count(parameters(host_count=4))


def test_parameters_are_kept_where_only_root_can_read_them(paths, monkeypatch):
    monkeypatch.setattr(submission.host, "read_metadata", lambda directory, generation: {})
    run = module(Slurm(), directory=os.path.dirname(paths.directory))
    assert submission.install(run, paths)["changed"]
    place = hold.directory("digits")
    assert [os.stat(each).st_mode & 0o777 for each in (directories.HELD, place)] == [0o711, 0o700]
    assert (directories.is_held("digits"), directories.is_held("other")) == (True, False)
    assert os.stat(os.path.join(place, hold.PARAMETERS)).st_mode & 0o777 == 0o600
    job = hold.read_job(place)
    assert (job.queue, job.name, job.paths) == ("slurm", "digits", paths)
    assert job.parameters["secrets"] == {"TOKEN": "t"}


@pytest.mark.parametrize(
    ("own", "age", "kept"),
    [
        ("7 PENDING deeplearning.cluster digits <> Priority", 7200, True),
        ("7 CANCELLED deeplearning.cluster digits <> Priority", 7200, False),
        ("", 7200, False),
        ("", 60, True),
    ],
    ids=["waits", "cancelled", "gone", "about to be submitted"],
)
def test_parameters_of_jobs_that_have_left_the_queue_are_deleted(own, age, kept):
    place = hold.directory("digits")
    os.makedirs(place)
    os.utime(place, (time.time() - age,) * 2)
    submission.prune(Slurm(own + "\n"), SLURM)
    assert os.path.exists(place) == kept


def held(**changes):
    return hold.QueuedJob("/held/digits", "slurm", parameters(**changes))


def test_a_cancelled_job_has_left_the_queue():
    slurm = Slurm("7 RUNNING deeplearning.cluster digits <w1> None\n")
    submission.cancel(slurm, held())
    assert slurm.called("scancel") == [["scancel", "7"]]


def test_a_failed_attempt_to_cancel_is_repeated():
    slurm, failures = Slurm("7 RUNNING deeplearning.cluster digits <w1> None\n"), [1]

    def run(command):
        return (failures.pop(), "", "busy") if "scancel" in command and failures else slurm(command)

    submission.cancel(run, held())
    assert slurm.called("scancel") == [["scancel", "7"]]


def test_nothing_is_cancelled_twice():
    slurm = Slurm("7 CANCELLED deeplearning.cluster digits <> None\n")
    submission.cancel(slurm, held())
    assert slurm.called("scancel") == []


def test_a_job_that_does_not_leave_the_queue_is_reported(monkeypatch):
    monkeypatch.setattr(submission, "CANCEL_SECONDS", -10)
    slurm = Slurm("7 RUNNING deeplearning.cluster digits <w1> None\n")
    monkeypatch.setattr(slurm, "outputs", {**slurm.outputs})

    def stubborn(command):
        return (0, "", "") if "scancel" in command else slurm(command)

    with pytest.raises(QueueError, match="queue: timed out waiting for job 7 to leave Slurm"):
        submission.cancel(stubborn, held())


def test_every_queue_that_a_playbook_sets_up_has_its_playbook():
    playbooks = [name for each in QUEUES.values() for name in re.findall(r"deeplearning\.cluster\.(\w+)", each.setup)]
    assert playbooks == ["sge", "slurm"]
    assert [name for name in playbooks if not (REPOSITORY / "playbooks" / f"{name}.yml").is_file()] == []
