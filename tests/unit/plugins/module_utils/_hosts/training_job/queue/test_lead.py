"""Tests of the program that leads a job if the queue starts nothing on the other hosts. tests/hosts/test_sge.py runs it on hosts."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.queue import hold, lead
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.registry import QUEUES

from ...._job.definition.parameters import parameters

HOSTS = ("deeplearning-worker3", "deeplearning-worker12")


@pytest.fixture
def queue(monkeypatch, tmp_path):
    """A queue in which each host runs its own shell command instead of `attach`. The file `cancelled` lists the cancelled entries."""
    scripts = dict.fromkeys(HOSTS, "exit 0")
    program = QUEUES["sge"].one_program._replace(
        on_host=lambda host, _hosts, command: ["sh", "-c", scripts[host], *command],
        mark_started=lambda identity, job: ["sh", "-c", f"echo {identity} {job} >{tmp_path}/started"],
    )
    simulated = QUEUES["sge"]._replace(cancel=lambda ids: ["sh", "-c", f"echo {ids[0]} >>{tmp_path}/cancelled"], one_program=program)
    monkeypatch.setitem(QUEUES, "sge", simulated)
    monkeypatch.setattr(lead, "INTERVAL", 0.05)
    monkeypatch.setenv("JOB_ID", "7")
    monkeypatch.setenv("DEEPLEARNING_QUEUE_HOSTS", ":".join(HOSTS))
    return scripts


@pytest.fixture
def finished(monkeypatch):
    found = []
    monkeypatch.setattr(hold, "finish", lambda _job, status: found.append(status) or 0)
    return found


@pytest.fixture
def job(tmp_path):
    return hold.QueuedJob(str(tmp_path), "sge", parameters())


@pytest.fixture(autouse=True)
def handlers():
    former = {number: signal.getsignal(number) for number in (*hold.SIGNALS, signal.SIGHUP)}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


def run(job):
    return lead.Lead(job, QUEUES[job.queue].one_program).run()


def test_a_job_runs_on_all_of_its_hosts_and_is_finished(queue, finished, job, tmp_path):
    queue.update({host: f"echo {host} $0 >>{tmp_path}/ran" for host in HOSTS})
    assert run(job) == 0
    assert finished == ["0"]
    assert sorted((tmp_path / "ran").read_text().splitlines()) == sorted(f"{host} systemd-cat" for host in HOSTS)
    assert (tmp_path / "started").read_text() == f"7 {job.name}\n"
    assert not (tmp_path / "cancelled").exists()


def test_a_job_that_one_host_refuses_is_stopped_on_all_and_cancelled(queue, finished, job, tmp_path):
    queue.update({HOSTS[0]: f"read order; echo $order >{tmp_path}/order; exit 1", HOSTS[1]: "exit 3"})
    run(job)
    assert finished == ["3"]
    assert (tmp_path / "order").read_text() == "stop\n"
    assert (tmp_path / "cancelled").read_text() == "7\n"


def test_a_job_that_is_cancelled_before_it_starts_is_not_started(queue, finished, job, tmp_path, monkeypatch):
    queue.update(dict.fromkeys(HOSTS, f"touch {tmp_path}/ran"))
    simulated = QUEUES["sge"].one_program._replace(mark_started=lambda *_: ["sh", "-c", f"kill -USR2 {os.getpid()}"])
    monkeypatch.setitem(QUEUES, "sge", QUEUES["sge"]._replace(one_program=simulated))
    run(job)
    assert finished == ["cancelled"]
    assert not (tmp_path / "ran").exists()


def test_a_job_that_cannot_start_on_one_host_is_stopped_on_the_others(queue, finished, job, tmp_path, monkeypatch):
    queue[HOSTS[0]] = f"read order; echo $order >{tmp_path}/order"
    real = lead.start

    def start(command, stdin):
        if HOSTS[1] in queue and queue[HOSTS[1]] in command:
            raise OSError("no memory")
        return real(command, stdin)

    queue[HOSTS[1]] = "exit 9"
    monkeypatch.setattr(lead, "start", start)
    run(job)
    assert finished == ["1"]
    assert (tmp_path / "order").read_text() == "stop\n"


def test_a_job_that_the_queue_cancels_waits_for_its_hosts(queue, finished, job, tmp_path):
    queue[HOSTS[0]] = f"kill -USR2 {os.getpid()}; kill -USR2 $$; read order; sleep 0.2; touch {tmp_path}/ended; exit 1"
    run(job)
    assert finished == ["cancelled"]
    assert (tmp_path / "ended").exists(), "the command ignores the queue's signal"


@pytest.mark.parametrize("is_running", [False, True])
def test_a_host_that_is_lost_is_not_awaited(queue, finished, job, tmp_path, monkeypatch, is_running):
    monkeypatch.setattr(lead, "PATIENCE", -job.parameters["stop_timeout"] + 0.1)
    monkeypatch.setattr(hold, "states_of", lambda _job, host: ["running"] if is_running and host == HOSTS[0] else ["lost"])
    queue[HOSTS[0]] = f"sleep {1 if is_running else 60}; touch {tmp_path}/ended"
    run(job)
    assert finished == ["0"]
    assert (tmp_path / "ended").exists() == is_running


def test_hosts_that_the_job_was_not_submitted_for_are_refused(queue, finished, job, monkeypatch):
    monkeypatch.setenv("DEEPLEARNING_QUEUE_HOSTS", "stranger")
    run(job)
    assert finished == ["1"]


@pytest.mark.parametrize("action", ["lead", "attach"])
def test_a_queue_that_starts_each_program_itself_is_refused(job, tmp_path, monkeypatch, capsys, action):
    monkeypatch.setattr(hold, "read_job", lambda _place: job._replace(queue="slurm"))
    assert lead.main([action, str(tmp_path)]) == 1
    assert f"so {action} cannot run." in capsys.readouterr().err


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped by the first host", "first host lost"])
def test_the_host_is_held_by_a_unit_that_only_the_first_host_stops(job, tmp_path, monkeypatch, is_stopped):
    """SGE sends the same signal if it cancels the job and if the first host is lost."""
    (tmp_path / "systemd-run").write_text(
        f"#!/bin/sh\nsleep 0.2\nprintf '%s\\n' \"$@\" >{tmp_path}/arguments\nkill -USR2 $PPID\nsleep 0.5\nexit 5\n"
    )
    (tmp_path / "systemctl").write_text(f'#!/bin/sh\n[ -e {tmp_path}/arguments ] && echo "$@" >{tmp_path}/signalled\n')
    for name in ("systemd-run", "systemctl"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("JOB_ID", "7")
    monkeypatch.delenv("DEEPLEARNING_QUEUE_HOSTS", raising=False)
    monkeypatch.setattr(lead, "INTERVAL", 0.05)
    reading, writing = os.pipe()
    os.write(writing, b"stop\n" if is_stopped else b"")
    os.close(writing)
    with open(reading) as connection:
        monkeypatch.setattr("sys.stdin", connection)
        assert lead.attach(job, QUEUES["sge"].one_program) == 5
    unit = f"deeplearning_hold-{job.name}.service"
    signalled = (tmp_path / "signalled").read_text() if (tmp_path / "signalled").exists() else ""
    assert signalled == (f"kill --kill-who=main --signal=SIGTERM {unit}\n" if is_stopped else "")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert f"--unit={unit}" in arguments
    assert [word for word in arguments if word.startswith("--setenv")] == [
        f"--setenv=DEEPLEARNING_QUEUE_CLIENT={os.getpid()}",
        "--setenv=JOB_ID=7",
    ]
    assert arguments[-3:] == ["/bin/sh", f"{tmp_path}/hold", "hold"]


@pytest.mark.parametrize(
    ("client_lives", "shown", "status", "cancelled"),
    [
        (False, "", 0, True),
        (False, "      7 0.5 training-d root r 11/25/2026\\n", 0, False),
        (False, "      7 0.5 training-d root dr 11/25/2026\\n", 0, False),
        (False, "", 1, False),
        (True, "", 0, False),
    ],
)
def test_a_host_that_has_lost_the_first_one_asks_the_queue(job, tmp_path, monkeypatch, client_lives, shown, status, cancelled):
    (tmp_path / "qstat").write_text(f"#!/bin/sh\nprintf '{shown}'\nexit {status}\n")
    (tmp_path / "qstat").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    gone = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout.strip()
    monkeypatch.setenv(hold.CLIENT, str(os.getpid()) if client_lives else gone)
    monkeypatch.setenv("JOB_ID", "7")
    holder = hold.Holder(job)
    holder.check_entry()
    assert holder.cancelled.is_set() == cancelled


@pytest.mark.parametrize(
    ("states", "timeout", "cancelled"),
    [(["running"], 0, True), (["running"], 60, False), (["lost"], 0, False), (["failed"], 0, False), (OSError("stale"), 0, False)],
)
def test_a_cancelled_job_whose_first_host_does_not_stop_it_is_stopped_on_the_others(job, tmp_path, monkeypatch, states, timeout, cancelled):
    """SGE also cancels the entry if the first host is lost. The records of that host show the difference."""
    (tmp_path / "qstat").write_text("#!/bin/sh\necho '      7 0.5 training-d root dr 11/25/2026'\n")
    (tmp_path / "qstat").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    gone = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout.strip()
    monkeypatch.setenv(hold.CLIENT, gone)
    monkeypatch.setenv("JOB_ID", "7")
    holder = hold.Holder(job._replace(parameters={**job.parameters, "heartbeat_timeout": timeout}))

    def states_of_first_host():
        if isinstance(states, OSError):
            raise states
        return states

    monkeypatch.setattr(holder, "states_of_first_host", states_of_first_host)
    holder.check_entry()
    assert holder.cancelled.is_set() == cancelled
