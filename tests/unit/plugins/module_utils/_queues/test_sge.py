"""Tests of the commands of SGE and of their output."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues import sge
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.base import (
    ALLOCATED,
    CANCELLED,
    ENDED,
    WAITING,
    QueueEntry,
    QueueRequest,
)

REQUEST = QueueRequest("7-digits", ["w1", "w2", "w3"], ["w9"], 2, ["hold"], ["finish"], 0, ["/bin/sh", "/x/hold", "lead"])


@pytest.mark.parametrize(("minutes", "limit"), [(0, []), (7, ["-l", "h_rt=420"])])
def test_a_job_requests_whole_hosts(minutes, limit):
    assert sge.submit(REQUEST._replace(minutes=minutes)) == [
        *("qsub", "-clear", "-terse", "-N", "train-7-digits", "-pe", "training_jobs", "2", "-l", "exclusive=true"),
        *("-q", "*@w1,*@w2,*@w3", "-R", "y", "-r", "n", "-notify", *limit),
        *("-v", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "-wd", "/", "-i", "/dev/null", "-o", "/dev/null", "-e", "/dev/null"),
        *("-b", "y", "-shell", "n", "/bin/sh", "/x/hold", "lead"),
    ]


def shown(identity, state, name, environment="training_jobs 2", owner="root"):
    """Return an entry as `qstat -r` shows it."""
    return (
        f"{identity:>7} 0.50000 {name[:10]:10} {owner:12} {state:5} 11/25/2026 14:04:40 trainers@w1                3        \n"
        f"       Full jobname:     {name}\n       Master Queue:     trainers@w1\n"
        f"       Requested PE:     {environment}\n       Hard Resources:   exclusive=true (0.000000)\n"
    )


HEADER = "job-ID  prior   name       user         state submit/start at     queue   slots ja-task-ID \n" + "-" * 80 + "\n"


def test_entries_are_read_with_their_places_in_the_queue():
    own = HEADER + shown(7, "qw", "train-digits-2") + shown(5, "r", "training-digits-1") + shown(9, "hqw", "train-digits-3")
    waiting = HEADER + "      7 0.5 train-digi root qw 11/25/2026\n      8 0.5 other ubuntu qw\n      9 0.5 train-digi root hqw\n"
    assert sge.read_entries(own, waiting) == {
        "digits-1": QueueEntry("5", ALLOCATED, "", 0),
        "digits-2": QueueEntry("7", WAITING, "its hosts are not free", 0),
        "digits-3": QueueEntry("9", WAITING, "on hold", 2),
    }


@pytest.mark.parametrize(
    "other",
    [
        shown(7, "qw", "digits"),
        shown(7, "qw", "train-Digits"),
        shown(7, "qw", "train-digits", "orte 2"),
        shown(7, "qw", "train-digits", "training_jobs_too 2"),
        shown(7, "qw", "train-digits", owner="ubuntu"),
        "      7 0.5 train-digi root qw 11/25/2026\n",
    ],
)
def test_other_jobs_are_not_read(other):
    assert sge.read_entries(shown(5, "qw", "train-own") + other, "") == {"own": QueueEntry("5", WAITING, "its hosts are not free", 0)}
    assert sge.read_entries(other + shown(5, "qw", "train-own"), "") == {"own": QueueEntry("5", WAITING, "its hosts are not free", 0)}


@pytest.mark.parametrize("ids", [(7, 12), (12, 7)])
def test_the_newest_entry_of_a_name_counts(ids):
    states = {7: "z", 12: "qw"}
    own = "".join(shown(identity, states[identity], "train-digits") for identity in ids)
    assert sge.read_entries(own, "12 0.5\n") == {"digits": QueueEntry("12", WAITING, "its hosts are not free", 0)}


@pytest.mark.parametrize(
    ("state", "prefix", "stage"),
    [
        *((state, "train-", WAITING) for state in ("qw", "hqw", "Eqw")),
        *((state, "training-", ALLOCATED) for state in ("r", "t", "dr", "dt", "s")),
        ("z", "train-", CANCELLED),
        ("z", "training-", ENDED),
    ],
)
def test_stages(state, prefix, stage):
    assert sge.stage(state, prefix) == stage


def test_a_job_that_sge_could_not_start_says_so():
    assert sge.reason("Eqw") == "SGE could not start the job (state E)"


@pytest.mark.parametrize(
    ("state", "shown_state"),
    [("qw", ""), ("r", ""), ("t", ""), ("dr", CANCELLED), ("dt", CANCELLED), ("z", ENDED), (None, ENDED)],
)
def test_an_entry_that_is_gone_has_ended(state, shown_state):
    own = HEADER + shown(5, "r", "training-other") + (shown(7, state, "training-digits") if state else "")
    assert sge.entry_state(own, "7") == shown_state


ROW = "trainers@w1         BIP   0/0/2          6.70     lx-amd64      "


@pytest.mark.parametrize(
    ("output", "is_open"),
    [
        (ROW, True),
        (ROW + "a", True),
        *((ROW + state, False) for state in ("d", "D", "au", "E", "o")),
        ("", False),
        ("error: no queue", False),
    ],
)
def test_jobs_start_on_hosts_of_the_group_that_are_not_disabled(output, is_open):
    assert sge.is_open(f"queuename  qtype resv/used/tot. load_avg arch  states\n------\n{output}\n") == is_open


def test_the_first_host_tells_the_others_the_names_of_all(tmp_path):
    (tmp_path / "hosts").write_text("w2 1 trainers@w2 UNDEFINED\nw10 1 trainers@w10 UNDEFINED\n")
    command = sge.on_host("w10", ["w2", "w10"], ["hold"])
    assert command[:3] == ["qrsh", "-inherit", "-v"]
    assert command[4:] == ["w10", "hold"]
    variables = dict(variable.split("=") for variable in command[3].split(","))
    for environment in ({"PE_HOSTFILE": str(tmp_path / "hosts")}, variables):
        assert subprocess.run(sge.allocation(environment), capture_output=True, text=True, check=True).stdout == "w2\nw10\n"


def test_the_other_commands():
    queue = sge.QUEUE
    assert (queue.title, queue.setup, queue.service) == ("SGE", "Run the playbook deeplearning.cluster.sge", "sge_execd.service")
    assert queue.show_hosts == ["qconf", "-shgrp_resolved", "@deeplearning"]
    assert queue.show_own == ["qstat", "-r", "-s", "prsz", "-u", "root"]
    assert queue.show_waiting == ["qstat", "-s", "p", "-u", "*"]
    assert queue.show_host("w1") == ["qstat", "-f", "-q", "*@w1"]
    assert queue.cancel(["7", "12"]) == ["qdel", "7", "12"]
    assert queue.one_program.abandon("7") == ["qdel", "-f", "7"]
    assert queue.one_program.mark_started("7", "digits") == ["qalter", "-N", "training-digits", "7"]
    assert queue.identity({"JOB_ID": "7"}) == "7"
    assert queue.identity({}) == ""
