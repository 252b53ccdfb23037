"""Tests of the ports, GPUs and host files that launchers have in common."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError, hostfile, port, slots

from .conftest import make_hosts, program


def test_port_depends_on_the_job_and_is_not_an_ephemeral_one():
    ports = {port(f"job-{number}") for number in range(200)}
    assert len(ports) > 190
    assert all(20500 <= number < 32000 for number in ports)
    assert port("digits") == port("digits")


def test_each_attempt_has_its_own_id():
    job = program()
    assert [job._replace(attempt=attempt).run for attempt in (1, 2, 10)] == [job.job, f"{job.job}.2", f"{job.job}.10"]


@pytest.mark.parametrize(
    ("gpus", "processes", "shares"),
    [((), 0, [()]), ((), 2, [(), ()]), ((0, 1, 2, 3), 0, [(0,), (1,), (2,), (3,)]), ((2, 3, 6, 7), 2, [(2, 3), (6, 7)])],
)
def test_gpus_are_shared_out(gpus, processes, shares):
    assert slots(program(processes_per_host=processes), Host("w", "10.0.0.1", 1, gpus, "ens5")) == shares


@pytest.mark.parametrize("processes", [3, 5])
def test_gpus_that_cannot_be_shared_equally_are_refused(processes):
    with pytest.raises(LaunchError, match=f"{processes} processes cannot share the 4 GPUs of deeplearning-worker1"):
        slots(program(processes_per_host=processes), make_hosts(1, 4)[0])


def test_hostfile():
    hosts = [*make_hosts(1, 8), Host("deeplearning-worker2", "10.0.0.2", 2, (), "ens5")]
    assert hostfile(program(), hosts) == "deeplearning-worker1 slots=8\ndeeplearning-worker2 slots=1\n"


@pytest.mark.parametrize(
    ("end", "status", "error", "leaves"),
    [
        ("", 0, "", True),
        ("sys.exit()", 0, "", True),
        ("sys.exit(3)", 3, "", False),
        ("sys.exit('no data')", 1, "no data", False),
        ("raise ValueError('bad data')", 1, "ValueError: bad data", False),
    ],
)
def test_a_script_that_fails_need_not_pass_where_processes_wait_for_each_other(tmp_path, end, status, error, leaves):
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    script = tmp_path / "train.py"
    script.write_text(
        f"""import atexit, sys
import beside
atexit.register(print, "leaves")
class Waits:
    def __del__(self):
        print("waits")
def main():
    store = Waits()
    print(__name__, __file__, sys.argv, beside.NAME)
    {end or "pass"}
main()
"""
    )
    command = program(python=sys.executable, script=str(script), arguments=["--epochs", "two words"]).abrupt_argv
    result = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == status
    assert result.stdout.splitlines()[0] == f"__main__ {script} {[str(script), '--epochs', 'two words']} beside"
    assert ("waits" in result.stdout, "leaves" in result.stdout) == (leaves, leaves)
    assert error in result.stderr
    assert result.stderr.count(error or "Traceback") == bool(error)
