"""Tests of what supervisors get for the processes of an attempt."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition import attempt_processes, job_parameters
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.ports import port

from .parameters import parameters

HOSTS = {"deeplearning-worker1": "10.0.0.1", "deeplearning-worker3": "10.0.0.3", "deeplearning-worker12": "10.0.0.12"}
PATHS = directories.Paths("/j/digits", 2)


def specs(names=None, **changes):
    params = parameters(python="/opt/p/bin/python", environment={}, secrets={}, processes_per_host=2, **changes)
    job_parameters.find_launcher(params)
    return params, attempt_processes.plan_specs(params, PATHS, names)


def test_a_spec_has_all_that_a_supervisor_needs():
    params, (lead, *_services) = specs(launcher="mpi")
    script = [lead.pop("argv")[-3:], lead.pop("environment")]
    assert script[0] == ["/opt/p/bin/python", "/j/digits/code/train.py", "a b"]
    general = {name: value for name, value in script[1].items() if name.startswith(("DEEPLEARNING_", "PYTHON", "HYDRA_"))}
    assert general == {
        "DEEPLEARNING_ATTEMPT": "2",
        "DEEPLEARNING_CHECKPOINT_DIRECTORY": "/j/digits/checkpoints",
        "DEEPLEARNING_HOST": "deeplearning-worker1",
        "DEEPLEARNING_HOSTFILE": "/run/deeplearning/jobs/digits-mpirun/hostfile",
        "DEEPLEARNING_JOB": "digits",
        "DEEPLEARNING_JOB_DIRECTORY": "/j/digits",
        "DEEPLEARNING_PROGRESS": "/j/digits/progress.jsonl",
        "DEEPLEARNING_TENSORBOARD_DIRECTORY": "/j/digits/tensorboard",
        "HYDRA_FULL_ERROR": "1",
        "PYTHONFAULTHANDLER": "1",
        "PYTHONUNBUFFERED": "1",
    }
    run = attempt_processes.make_program(params, PATHS.code, 2).run
    services = {"deeplearning-worker3": "orted1", "deeplearning-worker12": "orted2"}
    assert lead == {
        "job": "digits",
        "directory": "/j/digits",
        "cwd": "/j/digits/code",
        "programs": "/opt/p/bin",
        "processes": 3,
        "standby": 0,
        "lead": "mpirun",
        "daemons": {host: {"address": HOSTS[host], "port": port(run, name)} for host, name in services.items()},
        "key": "k",
        "hostfile": "".join(f"{host} slots=2\n" for host in HOSTS),
        "own_profile": False,
        "peers": [part for host in HOSTS.items() for part in host],
        "attempt": 2,
        "parameters": params,
        "slot": 0,
        "name": "mpirun",
        "rank": 0,
        "ranks": [0, 1, 2, 3, 4, 5],
        "tagged": True,
        "part": "worker",
        "host": "deeplearning-worker1",
        "gpus": [],
        "instance": "i-0123456789abcdef0",
        "capacity_end": 0.0,
        "rejoins": False,
        "elapsed": 0,
    }


def test_each_process_on_a_host_has_a_slot_and_the_spares_wait():
    hosts = [{**host, "gpus": [host["number"], 99]} for host in parameters()["hosts"]]
    shown = ("name", "rank", "ranks", "part", "slot", "gpus", "instance", "capacity_end", "key", "own_profile")
    changes = {"launcher": "command", "script": "", "command": ["true"], "hosts": hosts, "spares": 1}
    more = {"key": None, "sandbox": False, "instance_id": None, "capacity_end": 9.5}
    _params, found = specs(["deeplearning-worker3", "deeplearning-worker12"], **changes, **more)
    assert [tuple(spec[name] for name in shown) for spec in found] == [
        ("rank2", 2, [2], "worker", 0, [3, 99], "", 9.5, "", True),
        ("rank3", 3, [3], "worker", 1, [3, 99], "", 9.5, "", True),
        ("standby0", 4, [], "standby", 0, [12, 99], "", 9.5, "", True),
        ("standby1", 5, [], "standby", 1, [12, 99], "", 9.5, "", True),
    ]
    assert {spec["standby"] for spec in found} == {2}
    assert [spec["argv"] for spec in found] == [["true", "a b"]] * 2 + [["sleep", "infinity"]] * 2
