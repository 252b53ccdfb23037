"""deepspeed: its launcher for one host, on each host."""

from __future__ import annotations

import base64
import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError, port
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.deepspeed import LAUNCHER

from .conftest import make_hosts, program


def plan(hosts, local_rank=True, **changes):
    return LAUNCHER.plan(program(options={"local_rank": local_rank}, **changes), hosts)


def world(process):
    (word,) = [word for word in process.argv if word.startswith("--world_info=")]
    return json.loads(base64.urlsafe_b64decode(word.partition("=")[2]))


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("gpus", "per_host", "devices"), [(0, 0, [0]), (0, 2, [0, 1]), (1, 0, [0]), (8, 0, list(range(8)))])
def test_each_host_starts_its_own_processes(count, gpus, per_host, devices):
    processes = plan(make_hosts(count, gpus), processes_per_host=per_host, arguments=["--deepspeed", "two words"])
    assert [(process.host, process.rank) for process in processes] == [(f"deeplearning-worker{n + 1}", n) for n in range(count)]
    for process in processes:
        assert list(process.ranks) == [process.rank * len(devices) + index for index in range(len(devices))]
        assert process.name == (f"agent{process.rank}" if len(devices) > 1 else "")
        assert list(world(process).items()) == [(f"deeplearning-worker{n + 1}", devices) for n in range(count)]
        assert process.argv[:3] == ["/opt/pytorch/bin/python", "-m", "deepspeed.launcher.launch"]
        assert process.argv[4:] == [
            f"--node_rank={process.rank}",
            "--master_addr=deeplearning-worker1",
            f"--master_port={port('digits')}",
            "/efs/jobs/digits/code/train.py",
            "--deepspeed",
            "two words",
        ]
        threads = {"OMP_NUM_THREADS": "1"} if len(devices) > 1 else {}
        interfaces = {"GLOO_SOCKET_IFNAME": "ens5", "NCCL_SOCKET_IFNAME": "=ens5"}
        accelerator = {"DS_ACCELERATOR": "cuda", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if gpus else {"DS_ACCELERATOR": "cpu"}
        assert process.environment == {**threads, **interfaces, **accelerator}


def test_processes_have_the_gpus_of_the_job_and_no_others():
    hosts = [Host(f"deeplearning-worker{n}", f"10.0.0.{n}", n, gpus, "ens5") for n, gpus in ((1, (2, 3)), (2, (6, 7)))]
    assert world(plan(hosts)[0]) == {"deeplearning-worker1": [2, 3], "deeplearning-worker2": [6, 7]}


@pytest.mark.parametrize(
    ("hosts", "changes", "message"),
    [
        (
            [*make_hosts(1, 8), Host("deeplearning-worker2", "10.0.0.2", 2, range(4), "ens5")],
            {},
            "worker1 has 8, deeplearning-worker2 has 4",
        ),
        (make_hosts(2, 8), {"processes_per_host": 4}, "4 processes would leave GPUs of deeplearning-worker1 idle"),
    ],
)
def test_hosts_that_do_not_fit_are_refused(hosts, changes, message):
    with pytest.raises(LaunchError, match=message):
        plan(hosts, **changes)


def test_scripts_can_go_without_the_argument_and_commands_take_their_place():
    (process,) = plan(make_hosts(1, 0), local_rank=False, command=["./run.sh"], arguments=["x"])
    assert process.argv[-4:] == ["--no_local_rank", "--no_python", "./run.sh", "x"]
