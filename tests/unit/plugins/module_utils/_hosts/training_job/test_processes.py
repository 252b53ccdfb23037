"""Tests of the arguments and environment with which the processes of a job start."""

from __future__ import annotations

import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import processes, specification, specs
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Process

from .conftest import parameters


def test_ranks_follow_the_numbers_of_the_hosts(paths):
    ranks = {number: processes.plan(parameters(), paths, number)[0]["rank"] for number in (1, 3, 12)}
    assert ranks == {1: 0, 3: 1, 12: 2}


def test_a_spec_holds_the_users_environment_over_the_launchers(paths):
    (spec,) = processes.plan(parameters(), paths, 3)
    assert spec["environment"]["OMP_NUM_THREADS"] == "4"
    assert spec["environment"]["TOKEN"] == "t"
    assert spec["environment"]["DEEPLEARNING_PROGRESS"] == paths.progress
    assert spec["argv"][-2:] == [os.path.join(paths.code, "train.py"), "a b"]
    assert (spec["processes"], spec["host"], spec["time_limit"], spec["stop_timeout"]) == (3, "deeplearning-worker3", 9, 5)


def test_with_a_source_the_script_keeps_its_path(paths):
    (spec,) = processes.plan(parameters(source="/home/me/project", script="src/train.py"), paths, 1)
    assert spec["argv"][-2] == os.path.join(paths.code, "src/train.py")


def test_with_a_sync_directory_the_processes_run_there(paths):
    (spec,) = processes.plan(parameters(repository="https://x/y", script="src/train.py", sync_directory="/scratch/code"), paths, 1)
    assert spec["cwd"] == "/scratch/code"
    assert spec["argv"][-2] == "/scratch/code/src/train.py"


def test_a_host_that_is_not_the_jobs_is_refused(paths):
    with pytest.raises(specification.RefusalError, match="number 2, which is not in the list"):
        processes.plan(parameters(), paths, 2)


FABRIC = {"FI_PROVIDER": "efa", "NCCL_NET": "AWS Libfabric"}


def test_the_users_environment_wins(tmp_path):
    params = {"name": "bert", "environment": {"NCCL_NET": "Socket"}, "environment_by_task": {}, "secrets": {}}
    found = specs.environment(params, records.Paths(str(tmp_path)), Process("worker1", 0, ["x"], {"NCCL_DEBUG": "INFO"}), FABRIC)
    assert {name: found[name] for name in ("FI_PROVIDER", "NCCL_NET", "NCCL_DEBUG")} == {
        "FI_PROVIDER": "efa",
        "NCCL_NET": "Socket",
        "NCCL_DEBUG": "INFO",
    }


def test_variables_of_a_task_type_are_for_its_processes_alone_and_win(paths):
    params = parameters(
        launcher="mxnet",
        launcher_options={"servers": 1},
        environment_by_task={"server": {"PS_VERBOSE": 2, "TOKEN": "its own"}, "worker": {"OMP_NUM_THREADS": 8}},
    )
    found = {spec["name"]: spec["environment"] for spec in processes.plan(params, paths, 1)}
    names = ("PS_VERBOSE", "OMP_NUM_THREADS", "TOKEN")
    assert {name: [environment.get(variable) for variable in names] for name, environment in found.items()} == {
        "worker2": [None, "8", "t"],
        "server0": ["2", "4", "its own"],
        "scheduler": [None, "4", "t"],
    }


@pytest.mark.parametrize(
    ("changes", "environments", "message"),
    [
        (
            {"launcher": "mxnet"},
            {"ps": {}},
            "launcher 'mxnet' starts no tasks of type 'ps' with these options. Use scheduler, server, worker",
        ),
        ({"launcher": "tensorflow"}, {"ps": {}}, "launcher 'tensorflow' starts no tasks of type 'ps' with these options. Use worker"),
        ({"launcher": "torchrun"}, {"worker": {}}, "launcher 'torchrun' has no task types. Set the variables in environment instead"),
        ({"launcher": "mxnet"}, {"worker": "A=1"}, "the value of 'worker' is not a dictionary. Specify variables and their values"),
    ],
)
def test_variables_of_tasks_that_do_not_exist_are_refused(changes, environments, message):
    with pytest.raises(specification.RefusalError, match=f"^environment_by_task: {message}"):
        specification.check(parameters(**changes, environment_by_task=environments))


def test_a_strategy_determines_the_task_types():
    specification.check(
        parameters(launcher="tensorflow", launcher_options={"strategy": "flags"}, environment_by_task={"ps": {"A": 1}, "worker": {}})
    )
