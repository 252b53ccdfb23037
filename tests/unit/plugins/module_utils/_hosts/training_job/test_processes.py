"""What the processes of a job are started with."""

from __future__ import annotations

import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import processes, specification
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
    params = {"name": "bert", "environment": {"NCCL_NET": "Socket"}, "secrets": {}}
    found = processes.environment(params, records.Paths(str(tmp_path)), Process("worker1", 0, ["x"], {"NCCL_DEBUG": "INFO"}), FABRIC)
    assert {name: found[name] for name in ("FI_PROVIDER", "NCCL_NET", "NCCL_DEBUG")} == {
        "FI_PROVIDER": "efa",
        "NCCL_NET": "Socket",
        "NCCL_DEBUG": "INFO",
    }
