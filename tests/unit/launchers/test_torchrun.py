"""torchrun: one agent per host."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError, port
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.torchrun import LAUNCHER

from .conftest import make_hosts, program


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("gpus", "workers"), [(0, 1), (1, 1), (8, 8)])
def test_torchrun_starts_one_agent_per_host(count, gpus, workers):
    processes = LAUNCHER.plan(program(arguments=["--epochs", "two words", ""]), make_hosts(count, gpus))
    assert [(process.host, process.rank) for process in processes] == [(f"deeplearning-worker{n + 1}", n) for n in range(count)]
    for process in processes:
        assert process.argv == [
            "/opt/pytorch/bin/python",
            "-m",
            "torch.distributed.run",
            f"--nnodes={count}",
            f"--node-rank={process.rank}",
            f"--nproc-per-node={workers}",
            "--master-addr=deeplearning-worker1",
            f"--master-port={port('digits')}",
            "/efs/jobs/digits/code/train.py",
            "--epochs",
            "two words",
            "",
        ]
        threads = {"OMP_NUM_THREADS": "1"} if workers > 1 else {}
        shown = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))} if gpus else {}
        assert process.environment == {**threads, **shown, "GLOO_SOCKET_IFNAME": "ens5", "NCCL_SOCKET_IFNAME": "=ens5"}


def test_each_host_uses_its_own_interface():
    hosts = [make_hosts(1, 0)[0], Host("deeplearning-worker2", "10.0.0.2", 2, (), "eth1")]
    assert [process.environment["GLOO_SOCKET_IFNAME"] for process in LAUNCHER.plan(program(), hosts)] == ["ens5", "eth1"]


def test_unequal_hosts_are_refused_with_their_counts():
    hosts = [*make_hosts(1, 8), Host("deeplearning-worker2", "10.0.0.2", 2, range(4), "ens5")]
    with pytest.raises(LaunchError, match=r"deeplearning-worker1 has 8, deeplearning-worker2 has 4"):
        LAUNCHER.plan(program(), hosts)


def test_unequal_hosts_run_with_processes_per_host():
    hosts = [*make_hosts(1, 8), Host("deeplearning-worker2", "10.0.0.2", 2, range(4), "ens5")]
    processes = LAUNCHER.plan(program(processes_per_host=4), hosts)
    assert all("--nproc-per-node=4" in process.argv for process in processes)


def test_a_command_takes_the_place_of_the_script():
    (process,) = LAUNCHER.plan(program(command=["./run.sh"], arguments=["x"]), make_hosts(1, 0))
    assert process.argv[-3:] == ["--no-python", "./run.sh", "x"]
