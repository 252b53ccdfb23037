"""Tests of the launcher `command`, which runs the same command on every host."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.command import LAUNCHER
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.ports import port

from .conftest import make_hosts, program


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("gpus", [0, 1, 8])
@pytest.mark.parametrize(("where", "share"), [("all", 1), ("first", 0)])
def test_one_process_per_host_sees_all_its_gpus(count, gpus, where, share):
    processes = LAUNCHER.plan(program(command=["nvidia-smi"], arguments=["-L"], options={"hosts": where}), make_hosts(count, gpus))
    world = count if share else 1
    shown = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))} if gpus else {}
    assert [process.host for process in processes] == [f"deeplearning-worker{n + 1}" for n in range(world)]
    for rank, process in enumerate(processes):
        assert (process.rank, process.argv) == (rank, ["nvidia-smi", "-L"])
        ranks = {"DEEPLEARNING_RANK": str(rank), "DEEPLEARNING_LOCAL_RANK": "0", "DEEPLEARNING_WORLD_SIZE": str(world)}
        rendezvous = {"MASTER_ADDR": "deeplearning-worker1", "MASTER_PORT": str(port("digits"))}
        assert process.environment == {**ranks, **rendezvous, **shown}


def test_several_processes_share_the_gpus_of_a_host():
    processes = LAUNCHER.plan(program(options={"hosts": "all"}, processes_per_host=2), make_hosts(2, 8))
    assert [process.environment["CUDA_VISIBLE_DEVICES"] for process in processes] == ["0,1,2,3", "4,5,6,7"] * 2
    assert [process.environment["DEEPLEARNING_LOCAL_RANK"] for process in processes] == ["0", "1", "0", "1"]
    assert [process.environment["DEEPLEARNING_RANK"] for process in processes] == ["0", "1", "2", "3"]
