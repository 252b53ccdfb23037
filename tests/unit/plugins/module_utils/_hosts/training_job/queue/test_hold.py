"""Tests of the program that holds a host for a job. tests/hosts/test_slurm.py runs the program on hosts."""

from __future__ import annotations

import io
import os
import pwd
import subprocess
import sys
import zipfile

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import programs
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.queue import hold
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.start import unpack
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import document_schemas, records
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.refusal import RefusalError

from ...._job.definition.parameters import parameters

NAMES = ("deeplearning-worker3", "deeplearning-worker12")


@pytest.fixture
def job(paths, tmp_path):
    unpack.make_directories(paths)
    directory = os.path.dirname(paths.directory)
    return hold.QueuedJob(str(tmp_path), "slurm", parameters(user=pwd.getpwuid(os.getuid()).pw_name, directory=directory))


@pytest.fixture
def scontrol(tmp_path, monkeypatch):
    """Return a function that sets the output of `scontrol show hostnames`."""

    def show(*names, status=0):
        program = tmp_path / "scontrol"
        program.write_text("#!/bin/sh\n" + "".join(f"echo {name}\n" for name in names) + f"exit {status}\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return show


def test_the_job_runs_on_the_allocated_hosts_in_the_order_of_the_queue(job, scontrol):
    scontrol(*NAMES)
    assert [host["name"] for host in hold.allocated_hosts(job)] == list(NAMES)


@pytest.mark.parametrize(("names", "status"), [((*NAMES, "stranger"), 0), ((), 0), (NAMES, 1)])
def test_other_hosts_are_refused(job, scontrol, names, status):
    scontrol(*names, status=status)
    with pytest.raises(RefusalError, match=r"hosts that the job was not submitted for: .*\. Submit the job again with another name"):
        hold.allocated_hosts(job)


def test_a_host_that_was_replaced_is_refused():
    hosts = [{"name": "w1", "address": "10.0.0.1"}, {"name": "w2", "address": "10.0.0.2"}]
    workers = [{"name": "w1", "address": "10.0.0.1"}, {"name": "w2", "address": "10.0.0.9"}]
    hold.check_addresses(hosts[:1], workers)
    with pytest.raises(RefusalError, match=r"w2 no longer has the address 10\.0\.0\.2 that it had when the job was submitted"):
        hold.check_addresses(hosts, workers)


def test_the_first_failure_of_a_start_is_recorded(job):
    hold.report(job, "w1: no space")
    hold.report(job, "w2: another")
    found = records.read_queued(job.paths)
    assert (found["queue"], found["failure"]) == ("slurm", "w1: no space")


def test_a_failure_keeps_the_entry_and_is_cut(job):
    records.write_json(job.paths.queue, {"queue": "slurm", "id": "7", "submitted": 5.0})
    hold.report(job, "x" * 5000)
    assert records.read_queued(job.paths) == {
        "queue": "slurm",
        "id": "7",
        "submitted": 5.0,
        "failure": "x" * document_schemas.SENTENCE_LIMIT,
    }


@pytest.mark.parametrize(
    ("status", "has_started", "is_reported"), [("127", False, True), ("127", True, False), ("0", False, False), ("cancelled", False, False)]
)
def test_a_queue_that_could_not_start_the_job_is_recorded(job, tmp_path, status, has_started, is_reported):
    place = tmp_path / "held"
    place.mkdir()
    if has_started:
        records.write_json(job.paths.record("rank0"), record("rank0", "w1", "stopped"))
    assert hold.finish(job._replace(directory=str(place)), status) == 0
    failure = (records.read_queued(job.paths) or {}).get("failure", "")
    assert ("exit status 127" in failure) == is_reported
    assert not place.exists()


def record(name, host, state, heartbeat=5.0):
    found = {"name": name, "rank": 0, "ranks": [0], "host": host, "part": "worker", "state": state, "processes": 1}
    return {**found, "started": 1.0, "heartbeat": heartbeat, "finished": 5.0}


@pytest.mark.parametrize(
    ("first", "later", "states"),
    [
        ([("rank0", NAMES[0], "succeeded"), ("rank1", NAMES[1], "running")], [], ["succeeded"]),
        ([("rank0", NAMES[0], "failed")], [("rank0", NAMES[0], "succeeded")], ["succeeded"]),
        ([("rank0", NAMES[0], "running")], [("rank0", NAMES[1], "succeeded")], ["lost"]),
        ([("rank0", NAMES[1], "running")], [], []),
    ],
)
def test_the_first_host_is_lost_if_its_last_record_is_old(job, scontrol, first, later, states):
    scontrol(*NAMES)
    attempts = [first, later] if later else [first]
    for attempt, found in enumerate(attempts, 1):
        paths = job.paths.of_attempt(attempt)
        os.makedirs(paths.status, exist_ok=True)
        for name, host, state in found:
            records.write_json(paths.record(name), record(name, host, state))
            os.utime(paths.record(name), (5, 5))
        if attempt < len(attempts):
            records.write_json(paths.following, {"action": "restart", "rule": "same_hosts", "decided": 6.0})
    assert hold.Holder(job).states_of_first_host() == states


def test_the_program_runs_without_ansible(tmp_path):
    """If the directory is empty, the program reports that there is no job. The archive contains all modules that the program imports."""
    program = tmp_path / "hold.zip"
    program.write_bytes(programs.build("_hosts.training_job.queue.hold"))
    command = [sys.executable, "-I", "-S", str(program), "hold", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (1, f"{tmp_path} contains no job\n")


def test_the_program_contains_the_supervisor(tmp_path):
    """The program starts supervisors, so it must be able to write the supervisors' archive from its own archive."""
    program = tmp_path / "hold.zip"
    program.write_bytes(programs.build("_hosts.training_job.queue.hold"))
    build = f"from {programs.__name__} import build; sys.stdout.buffer.write(build({systemd.SUPERVISOR!r}))"
    code = f"import sys; sys.path.insert(0, {str(program)!r}); {build}"
    written = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, check=True).stdout

    def contents(archive):
        with zipfile.ZipFile(io.BytesIO(archive)) as found:
            return {each: found.read(each) for each in found.namelist()}

    assert contents(written) == contents(programs.build(systemd.SUPERVISOR))
