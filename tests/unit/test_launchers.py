"""Launchers: which processes a job consists of."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError, Program
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.registry import LAUNCHERS
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.torchrun import port
from ansible_collections.deeplearning.cluster.plugins.modules import training_job


def make_hosts(count, gpus):
    return [Host(f"deeplearning-worker{n}", f"10.0.0.{n}", n, gpus, "ens5") for n in range(1, count + 1)]


def program(**changes):
    return Program(**{"job": "digits", "python": "/opt/pytorch/bin/python", "script": "/efs/jobs/digits/code/train.py", **changes})


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("gpus", "workers"), [(0, 1), (1, 1), (8, 8)])
def test_torchrun_starts_one_agent_per_host(count, gpus, workers):
    processes = LAUNCHERS["torchrun"](program(arguments=["--epochs", "two words", ""]), make_hosts(count, gpus))
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
        assert process.environment == {**threads, "GLOO_SOCKET_IFNAME": "ens5", "NCCL_SOCKET_IFNAME": "=ens5"}


def test_each_host_uses_its_own_interface():
    hosts = [make_hosts(1, 0)[0], Host("deeplearning-worker2", "10.0.0.2", 2, 0, "eth1")]
    assert [process.environment["GLOO_SOCKET_IFNAME"] for process in LAUNCHERS["torchrun"](program(), hosts)] == ["ens5", "eth1"]


def test_unequal_hosts_are_refused_with_their_counts():
    hosts = [*make_hosts(1, 8), Host("deeplearning-worker2", "10.0.0.2", 2, 4, "ens5")]
    with pytest.raises(LaunchError, match=r"deeplearning-worker1 has 8, deeplearning-worker2 has 4"):
        LAUNCHERS["torchrun"](program(), hosts)


def test_unequal_hosts_run_with_processes_per_host():
    hosts = [*make_hosts(1, 8), Host("deeplearning-worker2", "10.0.0.2", 2, 4, "ens5")]
    processes = LAUNCHERS["torchrun"](program(processes_per_host=4), hosts)
    assert all("--nproc-per-node=4" in process.argv for process in processes)


def test_port_depends_on_the_job_and_is_not_an_ephemeral_one():
    ports = {port(f"job-{number}") for number in range(200)}
    assert len(ports) > 190
    assert all(20000 <= number < 32000 for number in ports)
    assert port("digits") == port("digits")


def test_the_module_offers_every_launcher():
    assert yaml_choices() == sorted(LAUNCHERS)


def yaml_choices():
    import yaml

    return sorted(yaml.safe_load(training_job.DOCUMENTATION)["options"]["launcher"]["choices"])
