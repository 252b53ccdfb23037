"""Tests of the launcher deepspeed: one process for each GPU, with the environment that DeepSpeed requires."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.deepspeed import LAUNCHER
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.ports import port

from .conftest import make_hosts, program


def plan(hosts, local_rank=True, **changes):
    return LAUNCHER.plan(program(options={"local_rank": local_rank}, **changes), hosts)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("gpus", "per_host", "processes"), [(0, 0, 1), (0, 2, 2), (1, 0, 1), (8, 0, 8)])
def test_one_process_per_gpu(count, gpus, per_host, processes):
    planned = plan(make_hosts(count, gpus), processes_per_host=per_host, arguments=["--deepspeed", "two words"])
    assert len(planned) == count * processes
    shown = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))} if gpus else {}
    for rank, process in enumerate(planned):
        index, local_rank = divmod(rank, processes)
        assert (process.host, process.rank) == (f"deeplearning-worker{index + 1}", rank)
        assert process.argv == [
            *("/opt/pytorch/bin/python", "/efs/jobs/digits/code/train.py", f"--local_rank={local_rank}"),
            *("--deepspeed", "two words"),
        ]
        assert process.environment == {
            "RANK": str(rank),
            "LOCAL_RANK": str(local_rank),
            "WORLD_SIZE": str(count * processes),
            "LOCAL_SIZE": str(processes),
            "CROSS_RANK": str(index),
            "CROSS_SIZE": str(count),
            "MASTER_ADDR": "deeplearning-worker1",
            "MASTER_PORT": str(port("digits")),
            **({"OMP_NUM_THREADS": "1"} if processes > 1 else {}),
            "GLOO_SOCKET_IFNAME": "ens5",
            "NCCL_SOCKET_IFNAME": "=ens5",
            "DS_ACCELERATOR": "cuda" if gpus else "cpu",
            **shown,
        }


def test_processes_have_the_gpus_of_the_job_and_no_others():
    hosts = [Host(f"deeplearning-worker{n}", f"10.0.0.{n}", n, gpus, "ens5") for n, gpus in ((1, (2, 3)), (2, (6, 7)))]
    assert [process.environment["CUDA_VISIBLE_DEVICES"] for process in plan(hosts)] == ["2,3", "2,3", "6,7", "6,7"]


@pytest.mark.parametrize(
    ("hosts", "changes", "message"),
    [
        (
            [*make_hosts(1, 8), Host("deeplearning-worker2", "10.0.0.2", 2, range(4), "ens5")],
            {},
            "worker1 has 8, deeplearning-worker2 has 4",
        ),
        (
            make_hosts(2, 8),
            {"processes_per_host": 4},
            "^4 processes would leave GPUs of deeplearning-worker1 idle, because a deepspeed process uses one GPU. "
            r"Select 4 GPUs with gpus, or set processes_per_host to 0 to use all GPUs.$",
        ),
    ],
)
def test_hosts_that_do_not_fit_are_refused(hosts, changes, message):
    with pytest.raises(LaunchError, match=message):
        plan(hosts, **changes)


def test_scripts_can_go_without_the_argument_and_commands_take_their_place():
    (process,) = plan(make_hosts(1, 0), local_rank=False, command=["./run.sh"], arguments=["x"])
    assert process.argv == ["./run.sh", "x"]
    (process,) = plan(make_hosts(1, 0), command=["./run.sh"], arguments=["x"])
    assert process.argv == ["./run.sh", "--local_rank=0", "x"]
