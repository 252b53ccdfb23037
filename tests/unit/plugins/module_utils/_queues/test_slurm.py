"""Tests of Slurm's commands and of their output."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues import slurm
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.base import (
    ALLOCATED,
    CANCELLED,
    ENDED,
    WAITING,
    QueueEntry,
    QueueRequest,
)

REQUEST = QueueRequest("digits-1", ["w1", "w2", "w3"], ["w9"], 3, ["/bin/sh", "/x/hold", "hold"], ["/bin/sh", "/x/hold", "finish"], 0)
STEP = (
    "trap 'end=cancelled' TERM; "
    "srun --nodes={0} --ntasks={0} --ntasks-per-node=1 --no-kill --kill-on-bad-exit=1 --mpi=none --cpu-bind=none --input=none"
    " --output=none /bin/sh /x/hold hold; status=$?; /bin/sh /x/hold finish ${{end:-$status}}"
)
COMMON = ["sbatch", "--parsable", "--job-name=digits-1", "--comment=deeplearning.cluster"]
OPTIONS = ["--ntasks-per-node=1", "--exclusive", "--no-kill", "--no-requeue"]
REST = ["--export=PATH=/usr/sbin:/usr/bin:/sbin:/bin", "--chdir=/", "--input=/dev/null", "--output=/dev/null"]


@pytest.mark.parametrize(
    ("changes", "count", "hosts", "limit"),
    [
        ({}, 3, ["--nodelist=w1,w2,w3"], []),
        ({"minutes": 7}, 3, ["--nodelist=w1,w2,w3"], ["--time=7"]),
        ({"host_count": 2}, 2, ["--exclude=w9"], []),
        ({"host_count": 2, "excluded": ["w8", "w9"]}, 2, ["--exclude=w8,w9"], []),
        ({"host_count": 2, "excluded": []}, 2, [], []),
    ],
)
def test_a_job_requests_whole_hosts(changes, count, hosts, limit):
    command = slurm.submit(REQUEST._replace(**changes))
    assert command == [*COMMON, f"--nodes={count}", *hosts, *OPTIONS, *limit, *REST, f"--wrap={STEP.format(count)}"]


@pytest.mark.parametrize(
    ("program", "output"),
    [("exit 0", "finish 0\n"), ("exit 9", "finish 9\n"), ("kill -TERM $PPID; exit 143", "finish cancelled\n")],
)
def test_the_script_finishes_the_job_with_its_status(tmp_path, program, output):
    srun = tmp_path / "srun"
    srun.write_text(f"#!/bin/sh\n{program}\n")
    srun.chmod(0o755)
    script = slurm.script(REQUEST._replace(hold=["hold"], finish=["echo", "finish"]))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["/bin/sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == output


def test_entries_are_read_with_their_places_in_the_queue():
    own = (
        "7 PENDING deeplearning.cluster digits-2 <> Resources\n"
        "5 RUNNING deeplearning.cluster digits-1 <w1,w[2-3]> None\n"
        "9 PENDING deeplearning.cluster digits-3 <> ReqNodeNotAvail, UnavailableNodes:w3 \n"
    )
    assert slurm.read_entries(own, "7\n8_[1-3]\n9\n") == {
        "digits-1": QueueEntry("5", ALLOCATED, "None", 0),
        "digits-2": QueueEntry("7", WAITING, "Resources", 0),
        "digits-3": QueueEntry("9", WAITING, "ReqNodeNotAvail, UnavailableNodes:w3", 2),
    }


@pytest.mark.parametrize(
    "line",
    [
        "",
        "7 PENDING (null) digits <> Resources",
        "7 PENDING deeplearning_cluster digits <> Resources",
        "7 PENDING deeplearning.cluster Digits <> Resources",
        "7_1 PENDING deeplearning.cluster digits <> Resources",
        "7 pending deeplearning.cluster digits <> Resources",
        "7 PENDING deeplearning.cluster digits Resources",
        " 7 PENDING deeplearning.cluster digits <> Resources",
    ],
)
def test_other_jobs_are_not_read(line):
    assert slurm.read_entries(f"{line}\n5 PENDING deeplearning.cluster own <> \n", "5") == {"own": QueueEntry("5", WAITING, "", 0)}


@pytest.mark.parametrize("ids", [(7, 12), (12, 7)])
def test_the_newest_entry_of_a_name_counts(ids):
    states = {7: "CANCELLED", 12: "PENDING"}
    own = "".join(f"{identity} {states[identity]} deeplearning.cluster digits <> Priority\n" for identity in ids)
    own += "5 RUNNING deeplearning.cluster other <w1> None\n"
    assert slurm.read_entries(own, "3\n12") == {
        "digits": QueueEntry("12", WAITING, "Priority", 1),
        "other": QueueEntry("5", ALLOCATED, "None", 0),
    }


def test_a_job_that_has_begun_to_wait_since_has_no_place_yet():
    assert slurm.read_entries("7 PENDING deeplearning.cluster digits <> None\n", "3\n")["digits"].before == 0


def test_a_long_reason_is_cut():
    own = f"7 PENDING deeplearning.cluster digits <> {'x' * 1000}\n"
    assert slurm.read_entries(own, "7")["digits"].reason == "x" * 200


@pytest.mark.parametrize(
    ("state", "hosts", "stage"),
    [
        ("PENDING", "", WAITING),
        ("RUNNING", "w1", ALLOCATED),
        ("COMPLETING", "w1", ALLOCATED),
        ("CONFIGURING", "w1", ALLOCATED),
        ("SUSPENDED", "w1", ALLOCATED),
        ("CANCELLED", "", CANCELLED),
        *((state, "w1", ENDED) for state in slurm.FINAL),
    ],
)
def test_stages(state, hosts, stage):
    assert slurm.stage(state, hosts) == stage


def test_a_job_that_had_hosts_but_has_ended_is_not_active():
    own = "7 TIMEOUT deeplearning.cluster digits <w1> TimeLimit\n"
    assert slurm.read_entries(own, "3 7") == {"digits": QueueEntry("7", ENDED, "TimeLimit", 0)}


def test_the_final_states_of_squeue():
    found = "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT"
    assert sorted(slurm.FINAL) == found.split()


@pytest.mark.parametrize(
    ("output", "is_open"),
    [
        *(
            (state, True)
            for state in ("idle\n", "mixed\n", "allocated\n", "idle*\n", "completing\n", "reserved\n", "maint\n", "reboot^\n", "mixed-\n")
        ),
        *(
            (state, False)
            for state in ("drained\n", "draining\n", "drained*\n", "down\n", "down*\n", "inval\n", "fail\n", "future\n", "unk*\n")
        ),
    ],
)
def test_jobs_start_on_hosts_that_are_neither_drained_nor_down(output, is_open):
    assert slurm.is_open(output) == is_open


def test_the_other_commands():
    queue = slurm.QUEUE
    assert (queue.title, queue.setup, queue.service) == ("Slurm", "Run the playbook deeplearning.cluster.slurm", "slurmd.service")
    assert queue.programs == ("sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun")
    assert queue.show_hosts == ["sinfo", "--noheader", "--Node", "--format=%N"]
    assert queue.show_host("w1") == ["sinfo", "--noheader", "--format=%T", "--nodes=w1"]
    assert queue.show_own == ["squeue", "--noheader", "--user=root", "--states=all", "--format=%i %T %k %j <%N> %r"]
    assert queue.show_waiting == ["squeue", "--noheader", "--states=PENDING", "--sort=-p,i", "--format=%i"]
    assert queue.cancel(["7", "12"]) == ["scancel", "7", "12"]
    assert queue.allocation({"SLURM_JOB_NODELIST": "w[1-3]"}) == ["scontrol", "show", "hostnames", "w[1-3]"]
    assert queue.allocation({}) == ["scontrol", "show", "hostnames", ""]
    assert queue.identity({"SLURM_JOB_ID": "7"}) == "7"
    assert queue.identity({}) == ""
    assert (queue.submit, queue.read_entries, queue.is_open) == (slurm.submit, slurm.read_entries, slurm.is_open)
