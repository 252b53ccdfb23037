"""Tests of the launcher torchrun: one agent per host."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Culprit, Host, LaunchError
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.ports import port
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.torchrun import LAUNCHER, culprit

from .conftest import make_hosts, program


def plan(hosts, min_hosts=0, max_restarts=0, **changes):
    return LAUNCHER.plan(program(options={"min_hosts": min_hosts, "max_restarts": max_restarts}, **changes), hosts)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("gpus", "workers"), [(0, 1), (1, 1), (2, 2), (8, 8)])
def test_torchrun_starts_one_agent_per_host(count, gpus, workers):
    processes = plan(make_hosts(count, gpus), arguments=["--epochs", "two words", ""])
    assert [(process.host, process.rank) for process in processes] == [(f"deeplearning-worker{n + 1}", n) for n in range(count)]
    for process in processes:
        assert process.argv == [
            "/opt/pytorch/bin/python",
            "-m",
            "torch.distributed.run",
            f"--nproc-per-node={workers}",
            f"--nnodes={count}",
            f"--node-rank={process.rank}",
            "--master-addr=deeplearning-worker1",
            f"--master-port={port('digits')}",
            *(["--tee=3"] if workers > 1 else []),
            "/efs/jobs/digits/code/train.py",
            "--epochs",
            "two words",
            "",
        ]
        several = {"OMP_NUM_THREADS": "1", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[rank ${rank}] "} if workers > 1 else {}
        shown = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))} if gpus else {}
        assert process.environment == {**several, **shown, "GLOO_SOCKET_IFNAME": "ens5", "NCCL_SOCKET_IFNAME": "=ens5"}
        assert process.part == "worker"
        assert list(process.ranks) == list(range(workers * process.rank, workers * (process.rank + 1)))
        assert (process.name, process.tagged) == ((f"agent{process.rank}", True) if workers > 1 else ("", False))


@pytest.mark.parametrize(
    ("count", "options", "nodes", "restarts", "parts"),
    [
        (3, {"min_hosts": 2}, "2:3", 1, ["worker", "spare", "spare"]),
        (5, {"min_hosts": 1, "max_restarts": 2}, "1:5", 6, ["worker"] + ["spare"] * 4),
        (2, {"min_hosts": 2, "max_restarts": 3}, "2:2", 3, ["worker"] * 2),
        (1, {"max_restarts": 1}, "1:1", 1, ["worker"]),
    ],
)
@pytest.mark.parametrize("gpus", [0, 8])
def test_agents_that_restart_workers_find_each_other_at_the_first_host(count, options, nodes, restarts, parts, gpus):
    processes = plan(make_hosts(count, gpus), **options)
    for number, process in enumerate(processes, 1):
        assert process.argv[3:] == [
            f"--nproc-per-node={gpus or 1}",
            f"--nnodes={nodes}",
            f"--max-restarts={restarts}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint=deeplearning-worker1:{port('digits')}",
            "--rdzv-id=digits",
            f"--rdzv-conf=keep_alive_interval=2,keep_alive_max_attempt=3,last_call_timeout=5,is_host={int(number == 1)}",
            f"--local-addr=10.0.0.{number}",
            "--tee=3",
            "/efs/jobs/digits/code/train.py",
        ]
        assert process.environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
        assert process.environment["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] == "[rank ${rank}] "
    assert [process.part for process in processes] == parts
    assert {tuple(process.ranks) for process in processes} == {tuple(range(count * (gpus or 1)))}, "any agent may have any rank"
    assert {process.tagged for process in processes} == {True}


def test_all_hosts_are_wanted_unless_one_may_be_lost():
    assert plan(make_hosts(3, 0), min_hosts=3) == plan(make_hosts(3, 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_hosts": 4}, "min_hosts is 4, but the job has 3 hosts. Use 1 to 3, or 0"),
        ({"min_hosts": -1}, "min_hosts is -1"),
        ({"max_restarts": -1}, "max_restarts is -1, but it cannot be negative. Use 0 or more"),
    ],
)
def test_impossible_numbers_are_refused(options, message):
    with pytest.raises(LaunchError, match=message):
        plan(make_hosts(3, 0), **options)


def test_each_host_uses_its_own_interface():
    hosts = [make_hosts(1, 0)[0], Host("deeplearning-worker2", "10.0.0.2", 2, (), "eth1")]
    assert [process.environment["GLOO_SOCKET_IFNAME"] for process in plan(hosts)] == ["ens5", "eth1"]


def test_unequal_hosts_are_refused_with_their_counts():
    hosts = [*make_hosts(1, 8), Host("deeplearning-worker2", "10.0.0.2", 2, range(4), "ens5")]
    with pytest.raises(LaunchError, match=r"deeplearning-worker1 has 8, deeplearning-worker2 has 4"):
        plan(hosts)


def test_unequal_hosts_run_with_processes_per_host():
    hosts = [*make_hosts(1, 8), Host("deeplearning-worker2", "10.0.0.2", 2, range(4), "ens5")]
    assert all("--nproc-per-node=4" in process.argv for process in plan(hosts, processes_per_host=4))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"command": ["./run.sh"], "arguments": ["x"]}, ["--no-python", "./run.sh", "x"]),
        ({"command": ["./$run.sh", "$y"], "arguments": ["$$x"]}, ["--no-python", "./$run.sh", "$$y", "$$$$x"]),
        ({"script": "/efs/$train.py", "arguments": ["${local_rank}"]}, ["--tee=3", "/efs/$$train.py", "$${local_rank}"]),
    ],
)
def test_torchrun_turns_what_it_gets_into_what_was_given(changes, words):
    (process,) = plan(make_hosts(1, 8), **changes)
    assert process.argv[-len(words) :] == words


FAILED = "E1121 22:10:40.169000 210 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0 (pid: 213)"
WORKER = ["  rank      : 3 (local_rank: 1)", "  exitcode  : -9 (pid: 213)"]
OTHER = ["  rank      : 2 (local_rank: 0)", "  exitcode  : 1 (pid: 212)"]
CAUSE = "Root Cause (first observed failure):"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["step 1", FAILED, *OTHER, CAUSE, "[0]:", *WORKER, "=" * 9], Culprit("3", -9, 1)),
        ([FAILED, CAUSE, *WORKER], Culprit("3", -9, 0)),
        ([FAILED, CAUSE, *WORKER, *OTHER], Culprit("3", -9, 0)),
        # A script may print any text
        ([CAUSE, *OTHER, FAILED, CAUSE, *WORKER], Culprit("3", -9, 3)),
        (["failed (exitcode: 1)", FAILED, FAILED, CAUSE, *WORKER], Culprit("3", -9, 1)),
        ([FAILED.partition("failed")[0], FAILED, CAUSE, *WORKER], Culprit("3", -9, 1)),
        ([FAILED, CAUSE, WORKER[0], "x", *OTHER], Culprit("2", 1, 0)),
        ([FAILED, CAUSE, WORKER[1], *OTHER], Culprit("2", 1, 0)),
        ([FAILED, CAUSE, CAUSE, *WORKER], Culprit("3", -9, 0)),
        ([FAILED, f" {CAUSE}", *WORKER], None),
        ([FAILED, CAUSE, WORKER[0]], None),
        ([FAILED, CAUSE, "[0]: " + WORKER[0], WORKER[1]], None),
        ([FAILED, *WORKER], None),
        ([CAUSE, *WORKER], None),
        ([FAILED], None),
        ([], None),
    ],
)
def test_the_worker_that_torchrun_names_as_the_root_cause(lines, expected):
    assert culprit(lines) == expected
