"""Tests of the launcher mxnet: scheduler, servers and workers."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.mxnet import LAUNCHER
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.ports import port

from .conftest import make_hosts, program


def plan(hosts, workers=0, servers=0, **changes):
    return LAUNCHER.plan(program(options={"workers": workers, "servers": servers}, **changes), hosts)


def places(processes, role):
    """Return the host numbers of the processes with this role, in the order of the processes."""
    return [int(process.host[-1]) for process in processes if process.environment["DMLC_ROLE"] == role]


@pytest.mark.parametrize(
    ("gpus", "changes", "servers", "workers"),
    [
        # As in MXNet's own launcher: process i on host i % 3, servers first.
        ([0, 0, 0], {}, [1, 2, 3], [1, 2, 3]),
        ([0, 0, 0], {"servers": 2}, [1, 2], [3, 1, 2]),
        ([0, 0, 0], {"servers": 4}, [1, 2, 3, 1], [2, 3, 1]),
        ([0, 0, 0], {"workers": 2}, [1, 2], [3, 1]),
        ([0, 0, 0], {"workers": 4, "servers": 1, "processes_per_host": 2}, [1], [2, 3, 1, 2]),
        ([2, 2, 2], {"servers": 1}, [1], [2, 3, 1, 2, 3, 1]),
        ([8, 8, 8], {"processes_per_host": 1}, [1, 2, 3], [1, 2, 3]),
        # If a host has no free GPU, the other hosts get the remaining workers.
        ([1, 3, 1], {"servers": 1}, [1], [2, 3, 1, 2, 2]),
        ([0], {}, [1], [1]),
    ],
)
def test_servers_take_turns_on_the_hosts_and_workers_go_on_from_there(gpus, changes, servers, workers):
    hosts = [Host(f"deeplearning-worker{n}", f"10.0.0.{n}", n, range(count), "ens5") for n, count in enumerate(gpus, 1)]
    processes = plan(hosts, **changes)
    assert places(processes, "server") == servers
    assert places(processes, "worker") == workers
    assert places(processes, "scheduler") == [1]


def test_the_options_of_the_former_script_reach_it_unchanged():
    options = ["--gpus", "0,1", "--network", "resnet", "--num-layers", "50", "--kv-store", "dist_device_sync"]
    processes = plan([Host("deeplearning-worker1", "10.0.0.1", 1, (0, 1), "ens5")], arguments=options, processes_per_host=1)
    assert {tuple(process.argv[-len(options) :]) for process in processes} == {tuple(options)}
    (worker,) = [process for process in processes if process.name == "worker0"]
    assert worker.environment["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_every_process_knows_its_role_and_the_scheduler():
    hosts = [make_hosts(1, 2)[0], Host("deeplearning-worker2", "10.0.0.2", 2, (4, 6), "eth1")]
    processes = plan(hosts, servers=1, arguments=["--epochs", "two words"])
    shared = {
        "DMLC_PS_ROOT_URI": "10.0.0.1",
        "DMLC_PS_ROOT_PORT": str(port("digits")),
        "DMLC_NUM_WORKER": "4",
        "DMLC_NUM_SERVER": "1",
    }
    of_hosts = {1: {"DMLC_NODE_HOST": "10.0.0.1", "DMLC_INTERFACE": "ens5"}, 2: {"DMLC_NODE_HOST": "10.0.0.2", "DMLC_INTERFACE": "eth1"}}
    expected = [
        ("worker0", "worker", 2, "worker", "4"),
        ("worker1", "worker", 1, "worker", "0"),
        ("worker2", "worker", 2, "worker", "6"),
        ("worker3", "worker", 1, "worker", "1"),
        ("server0", "service", 1, "server", ""),
        ("scheduler", "service", 1, "scheduler", ""),
    ]
    assert len(processes) == len(expected)
    for rank, (process, (name, part, host, role, gpus)) in enumerate(zip(processes, expected, strict=True)):
        assert (process.rank, process.name, process.part, process.host) == (rank, name, part, f"deeplearning-worker{host}")
        assert process.argv == program(arguments=["--epochs", "two words"]).abrupt_argv
        order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if gpus else {}
        assert process.environment == {**shared, **of_hosts[host], "DMLC_ROLE": role, **order, "CUDA_VISIBLE_DEVICES": gpus}


def test_workers_without_gpus_are_shown_none_and_hidden_none():
    assert "CUDA_VISIBLE_DEVICES" not in plan(make_hosts(1, 0))[0].environment


def test_a_command_takes_the_place_of_the_script():
    assert {tuple(process.argv) for process in plan(make_hosts(2, 0), command=["./run.sh"], arguments=["x"])} == {("./run.sh", "x")}


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"workers": 5}, "workers is 5, but the hosts can run only 4. Reduce workers, or increase processes_per_host"),
        ({"workers": -1}, "workers is -1 and servers is -1. Neither can be negative"),
        ({"servers": -1}, "workers is 4 and servers is -1. Neither can be negative"),
    ],
)
def test_impossible_numbers_are_refused(numbers, message):
    with pytest.raises(LaunchError, match=message):
        plan(make_hosts(2, 2), **numbers)
