from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.queue import queries
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.base import QueueError
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.registry import QUEUES

SLURM = QUEUES["slurm"]


class Slurm:
    """A stub of the command squeue of Slurm. `own` and `waiting` are its outputs."""

    def __init__(self, own="", waiting="", error=""):
        self.own, self.waiting, self.error, self.commands = own, waiting, error, []

    def __call__(self, command):
        self.commands.append(command)
        assert command[:3] == ["timeout", "30", "squeue"]
        return int(bool(self.error)), self.own if "--user=root" in command else self.waiting, self.error


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    for name in SLURM.programs:
        (tmp_path / name).touch(0o755)
    monkeypatch.setattr(queries, "SEARCH", str(tmp_path))
    monkeypatch.setattr(directories, "HELD", str(tmp_path / "held"))
    return tmp_path


def test_a_command_that_is_not_installed():
    assert queries.run(["no-such-command"]) == (127, "", "no-such-command: No such file or directory")
    assert queries.run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == (3, "out\n", "err\n")


def test_a_command_without_a_message_is_named_with_its_status():
    with pytest.raises(QueueError, match="queue: squeue of Slurm failed: the command ended with exit status 124"):
        queries.ask(lambda command: (124, "", ""), SLURM, ["squeue"])


def status(name="digits", state="queued", **entry):
    note = {"queue": "slurm", "id": "7", "submitted": 5.0, **entry}
    return {"name": name, "state": state, "queue": note, "attempts": [{"state": state}]}


@pytest.mark.parametrize(
    ("own", "state"),
    [
        ("7 RUNNING deeplearning.cluster digits <w1> None", "pending"),
        ("7 COMPLETED deeplearning.cluster digits <w1> None", "pending"),
        ("7 CANCELLED deeplearning.cluster digits <> None", "stopped"),
        ("", "stopped"),
        ("8 PENDING deeplearning.cluster other <> None", "stopped"),
    ],
)
def test_a_job_without_records_that_does_not_wait(own, state):
    job = status()
    queries.complete(Slurm(own + "\n"), [job])
    assert (job["state"], job["attempts"][0]["state"]) == (state, state)


def test_a_waiting_job_has_a_reason_and_a_place():
    job, other = status(), {"name": "other", "state": "running"}
    queries.complete(Slurm("9 PENDING deeplearning.cluster digits <> Resources\n", "7\n8\n9\n"), [job, other])
    assert job["state"] == "queued"
    assert job["queue"] == {"queue": "slurm", "id": "9", "submitted": 5.0, "held": False, "reason": "Resources", "before": 2}
    assert other == {"name": "other", "state": "running"}


def test_a_queue_that_does_not_respond_is_reported():
    job = status()
    queries.complete(Slurm(error="squeue: error: no answer.\n"), [job])
    assert (job["state"], job["queue"]["problem"]) == ("queued", "queue: squeue of Slurm failed: squeue: error: no answer.")


def test_without_waiting_jobs_the_queue_is_not_asked():
    slurm = Slurm()
    queries.complete(slurm, [status(state="running"), {"name": "other", "state": "pending"}])
    assert slurm.commands == []


@pytest.mark.parametrize("name", ["slurm", "forged"])
def test_a_job_of_a_queue_that_does_not_exist_is_stopped(installed, name):
    for program in SLURM.programs:
        (installed / program).unlink()
    job = status(queue=name)
    queries.complete(Slurm(error="squeue: error: no answer.\n"), [job])
    assert job["state"] == "stopped"
