"""Tests of the launcher tensorflow: the tasks of each strategy, and how they get each other's addresses."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.ports import port
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.tensorflow import LAUNCHER

from .conftest import make_hosts, program

PORT = port("digits")
CONFIGURED = ("multi_worker", "parameter_server")


def plan(strategy, hosts, options=None, **changes):
    defaults = {name: option["default"] for name, option in LAUNCHER.options.items()}
    return LAUNCHER.plan(program(options={**defaults, "strategy": strategy, **(options or {})}, **changes), hosts)


def names(count, *ports):
    return [f"deeplearning-worker{n}:{number}" for n in range(1, count + 1) for number in ports]


def shown(gpus):
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": gpus} if gpus else {}


def config(process):
    document = json.loads(process.environment["TF_CONFIG"])
    return document["cluster"], document["task"]


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("gpus", [0, 1, 8])
def test_flags_are_those_of_generate_trainer(count, gpus):
    processes = plan("flags", make_hosts(count, gpus), arguments=["--batch_size", "128", "two words"])
    per_host = max(gpus, 1)
    workers = names(count, *range(2230, 2230 + per_host))
    servers = names(count, 2222)
    expected = [
        *(("worker", n, "worker", address, shown(str(n % per_host) if gpus else "")) for n, address in enumerate(workers)),
        *(("ps", n, "service", address, {"CUDA_VISIBLE_DEVICES": ""}) for n, address in enumerate(servers)),
    ]
    for rank, (process, (kind, index, part, address, environment)) in enumerate(zip(processes, expected, strict=True)):
        assert (process.rank, process.name, process.part) == (rank, f"{kind}{index}", part)
        assert process.host == address.split(":")[0]
        assert process.argv == [
            "/opt/pytorch/bin/python",
            "/efs/jobs/digits/code/train.py",
            "--batch_size",
            "128",
            "two words",
            "--ps_hosts=" + ",".join(servers),
            "--worker_hosts=" + ",".join(workers),
            f"--job_name={kind}",
            f"--task_index={index}",
        ]
        assert "TF_CONFIG" not in process.environment
        assert {**process.environment, **environment} == process.environment
        assert gpus or kind == "ps" or "CUDA_VISIBLE_DEVICES" not in process.environment


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("gpus", [0, 1, 8])
def test_a_mirrored_worker_has_all_gpus_of_its_host(count, gpus):
    processes = plan("multi_worker", make_hosts(count, gpus), arguments=["x"])
    for index, process in enumerate(processes):
        assert (process.host, process.rank, process.name, process.part) == (
            f"deeplearning-worker{index + 1}",
            index,
            f"worker{index}",
            "worker",
        )
        assert process.argv == ["/opt/pytorch/bin/python", "/efs/jobs/digits/code/train.py", "x"]
        assert config(process) == ({"worker": names(count, PORT)}, {"type": "worker", "index": index})
        environment = {key: value for key, value in process.environment.items() if key != "TF_CONFIG"}
        assert environment == {"NCCL_SOCKET_IFNAME": "=ens5", **shown(",".join(map(str, range(gpus))))}
    assert len(processes) == count


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("gpus", [0, 1, 8])
def test_parameter_servers_have_a_coordinator_that_the_job_waits_for(count, gpus):
    processes = plan("parameter_server", make_hosts(count, gpus))
    per_host = max(gpus, 1)
    assert [process.name for process in processes] == [
        "chief0",
        *(f"worker{n}" for n in range(count * per_host)),
        *(f"ps{n}" for n in range(count)),
    ]
    assert [process.part for process in processes] == ["worker"] + ["service"] * (len(processes) - 1)
    cluster = config(processes[0])[0]
    for process in processes:
        assert config(process)[0] == cluster
        task = config(process)[1]
        assert process.name == f"{task['type']}{task['index']}"
        assert cluster[task["type"]][task["index"]].split(":")[0] == process.host
        assert process.environment["GRPC_FAIL_FAST"] == "use_caller"
        visible = process.environment.get("CUDA_VISIBLE_DEVICES")
        assert visible == ("" if task["type"] != "worker" else str(task["index"] % per_host) if gpus else None)
    addresses = [address for same in cluster.values() for address in same]
    assert len(addresses) == len(set(addresses)) == len(processes)
    assert {int(address.split(":")[1]) for address in addresses} == set(range(PORT, PORT + per_host + 2))


@pytest.mark.parametrize("strategy", ["flags", "parameter_server"])
def test_so_many_parameter_servers_as_are_wanted_go_round_the_hosts(strategy):
    processes = plan(strategy, make_hosts(3, 0), {"servers": 5})
    servers = [process.host for process in processes if process.name.startswith("ps")]
    assert servers == [f"deeplearning-worker{n}" for n in (1, 2, 3, 1, 2)]


def test_ports_of_flags_are_counted_from_those_given():
    processes = plan("flags", make_hosts(2, 2), {"servers": 3, "first_ps_port": 3000, "first_worker_port": 3010})
    assert processes[0].argv[-4:-2] == [
        "--ps_hosts=deeplearning-worker1:3000,deeplearning-worker2:3000,deeplearning-worker1:3001",
        "--worker_hosts=" + ",".join(names(2, 3010, 3011)),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"servers": -1}, "servers is -1, but it cannot be negative. Specify the number"),
        (
            {"servers": 9},
            "^first_ps_port 2222 and first_worker_port 2230 are too close to each other."
            " Leave enough ports between the two values for the parameter servers and workers of a host.$",
        ),
    ],
)
def test_options_that_cannot_work_are_refused(options, message):
    with pytest.raises(LaunchError, match=message):
        plan("flags", make_hosts(1, 0), options)


def test_flags_take_hosts_as_they_are():
    hosts = [
        *make_hosts(1, 2),
        Host("deeplearning-worker2", "10.0.0.2", 2, (), "ens5"),
        Host("deeplearning-worker3", "10.0.0.3", 3, [5], "ens5"),
    ]
    workers = [process for process in plan("flags", hosts) if process.part == "worker"]
    assert Counter(process.host for process in workers) == {"deeplearning-worker1": 2, "deeplearning-worker2": 1, "deeplearning-worker3": 1}
    assert [process.environment.get("CUDA_VISIBLE_DEVICES") for process in workers] == ["0", "1", None, "5"]


@pytest.mark.parametrize("strategy", CONFIGURED)
def test_workers_with_different_numbers_of_gpus_are_refused(strategy):
    hosts = [*make_hosts(1, 1), Host("deeplearning-worker2", "10.0.0.2", 2, (), "ens5")]
    with pytest.raises(LaunchError, match=r"on deeplearning-worker1: 1, on deeplearning-worker2: 0"):
        plan(strategy, hosts)


@pytest.mark.parametrize(("strategy", "processes", "workers"), [("multi_worker", 2, 4), ("multi_worker", 0, 2), ("parameter_server", 0, 8)])
def test_several_workers_share_the_gpus_of_a_host(strategy, processes, workers):
    planned = plan(strategy, make_hosts(2, 4), processes_per_host=processes)
    gpus = [process.environment["CUDA_VISIBLE_DEVICES"] for process in planned if process.name.startswith("worker")]
    each = 8 // workers
    assert gpus == [",".join(map(str, range(first, first + each))) for first in range(0, 4, each)] * 2


def test_parameter_servers_take_hosts_with_different_numbers_of_gpus():
    hosts = [*make_hosts(1, 4), Host("deeplearning-worker2", "10.0.0.2", 2, range(2), "ens5")]
    assert len(config(plan("parameter_server", hosts)[0])[0]["worker"]) == 6


def test_each_worker_uses_the_interface_of_its_host():
    hosts = [*make_hosts(1, 0), Host("deeplearning-worker2", "10.0.0.2", 2, (), "eth1")]
    assert [process.environment["NCCL_SOCKET_IFNAME"] for process in plan("multi_worker", hosts)] == ["=ens5", "=eth1"]


def test_a_command_takes_the_place_of_the_script():
    process = plan("flags", make_hosts(1, 0), command=["./run.sh"], arguments=["x"])[0]
    assert process.argv[:2] == ["./run.sh", "x"]
    assert process.argv[-1] == "--task_index=0"
