"""Tests of the launcher jax: one process per GPU, with the environment that jax.distributed.initialize() reads."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import RUN_SCRIPT
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.jax import LAUNCHER
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.ports import port

from .conftest import make_hosts, program


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(
    ("gpus", "per_host", "shares"),
    [(0, 0, [[]]), (0, 2, [[], []]), (1, 0, [["0"]]), (8, 0, [[str(n)] for n in range(8)]), (8, 2, [list("0123"), list("4567")])],
)
def test_processes_share_the_gpus_and_know_the_coordinator(count, gpus, per_host, shares):
    processes = LAUNCHER.plan(program(arguments=["--steps", "9"], processes_per_host=per_host), make_hosts(count, gpus))
    coordinator = f"10.0.0.1:{port('digits')}"
    world = str(count * len(shares))
    places = [(f"deeplearning-worker{n + 1}", index, share) for n in range(count) for index, share in enumerate(shares)]
    assert len(processes) == len(places)
    for rank, (process, (host, index, share)) in enumerate(zip(processes, places, strict=True)):
        assert (process.host, process.rank, process.part) == (host, rank, "worker")
        assert process.argv == [*("/opt/pytorch/bin/python", "-c", RUN_SCRIPT), "/efs/jobs/digits/code/train.py", "--steps", "9"]
        devices = {
            "NCCL_SOCKET_IFNAME": "=ens5",
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(share),
            # Indices into the list of visible devices
            "JAX_LOCAL_DEVICE_IDS": ",".join(str(number) for number in range(len(share))),
        }
        assert process.environment == {
            "JAX_COORDINATOR_ADDRESS": coordinator,
            "JAX_NUM_PROCESSES": world,
            "JAX_PROCESS_ID": str(rank),
            "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{coordinator}",
            "OMPI_COMM_WORLD_SIZE": world,
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(index),
            **(devices if share else {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}),
        }
