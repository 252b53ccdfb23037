"""Tests of the arguments and environment of a job's processes."""

from __future__ import annotations

import json
import os
import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import between_attempts
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition import attempt_processes, host_processes, job_parameters
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.options import OPTIONS
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import LaunchError, Process

from .parameters import parameters


def test_ranks_follow_the_numbers_of_the_hosts(paths):
    ranks = {number: host_processes.plan(parameters(), paths, number)[0]["rank"] for number in (1, 3, 12)}
    assert ranks == {1: 0, 3: 1, 12: 2}


def test_a_spec_holds_the_users_environment_over_the_launchers(paths):
    (spec,) = host_processes.plan(parameters(), paths, 3)
    assert spec["environment"]["OMP_NUM_THREADS"] == "4"
    assert spec["environment"]["TOKEN"] == "t"
    assert spec["environment"]["DEEPLEARNING_PROGRESS"] == paths.progress
    assert spec["argv"][-2:] == [os.path.join(paths.code, "train.py"), "a b"]
    assert (spec["processes"], spec["host"]) == (3, "deeplearning-worker3")


@pytest.mark.parametrize("restarts", [0, 3])
def test_supervisors_get_all_options_of_the_job(paths, restarts):
    params = parameters(restarts=restarts, min_hosts=2)
    (spec,) = host_processes.plan(params, paths, 3)
    assert spec["parameters"] == params


def test_with_a_source_the_script_keeps_its_path(paths):
    (spec,) = host_processes.plan(parameters(source="/home/me/project", script="src/train.py"), paths, 1)
    assert spec["argv"][-2] == os.path.join(paths.code, "src/train.py")


def test_with_a_sync_directory_the_processes_run_there(paths):
    (spec,) = host_processes.plan(parameters(repository="https://x/y", script="src/train.py", sync_directory="/scratch/code"), paths, 1)
    assert spec["cwd"] == "/scratch/code"
    assert spec["argv"][-2] == "/scratch/code/src/train.py"


def test_a_host_that_is_not_the_jobs_is_refused(paths):
    with pytest.raises(job_parameters.RefusalError, match="number 2, which is not in the list"):
        host_processes.plan(parameters(), paths, 2)


FABRIC = {"FI_PROVIDER": "efa", "NCCL_NET": "AWS Libfabric"}


def test_the_users_environment_wins(tmp_path):
    params = {"name": "bert", "environment": {"NCCL_NET": "Socket"}, "environment_by_task": {}, "secrets": {}}
    found = attempt_processes.environment(
        params, directories.Paths(str(tmp_path)), Process("worker1", 0, ["x"], {"NCCL_DEBUG": "INFO"}), FABRIC
    )
    assert {name: found[name] for name in ("FI_PROVIDER", "NCCL_NET", "NCCL_DEBUG")} == {
        "FI_PROVIDER": "efa",
        "NCCL_NET": "Socket",
        "NCCL_DEBUG": "INFO",
    }


@pytest.mark.parametrize(("own", "value"), [({}, "1"), ({"HYDRA_FULL_ERROR": "0"}, "0")])
def test_hydra_shows_the_traceback_of_a_script(tmp_path, own, value):
    params = {"name": "bert", "environment": own, "environment_by_task": {}, "secrets": {}}
    found = attempt_processes.environment(params, directories.Paths(str(tmp_path)), Process("worker1", 0, ["x"], {}), {})
    assert found["HYDRA_FULL_ERROR"] == value


def recorder(tmp_path, **own):
    params = {"name": "bert", "environment": own, "environment_by_task": {}, "secrets": {}}
    found = attempt_processes.environment(params, directories.Paths(str(tmp_path), 2), Process("worker1", 0, ["x"], {}, "agent0"), {})
    return {name: value for name, value in found.items() if name.startswith("TORCH_")}


def test_torch_records_its_collectives_and_writes_them_to_the_folder_of_stacks(tmp_path):
    files = f"{tmp_path}/logs/attempt2/stacks/flight_recorder_rank"
    assert recorder(tmp_path) == {
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_FR_DUMP_TEMP_FILE": files,
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/dev/shm/flight_recorder_rank",
    }


def test_the_users_settings_of_the_flight_recorder_win_under_both_names(tmp_path):
    found = recorder(tmp_path, TORCH_NCCL_DEBUG_INFO_TEMP_FILE="/tmp/mine_", TORCH_NCCL_TRACE_BUFFER_SIZE="0")
    assert found == {
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "0",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/tmp/mine_",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/dev/shm/flight_recorder_rank",
    }


def test_variables_of_a_task_type_are_for_its_processes_alone_and_win(paths):
    params = parameters(
        launcher="mxnet",
        launcher_options={"servers": 1},
        environment_by_task={"server": {"PS_VERBOSE": 2, "TOKEN": "its own"}, "worker": {"OMP_NUM_THREADS": 8}},
    )
    found = {spec["name"]: spec["environment"] for spec in host_processes.plan(params, paths, 1)}
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
        (
            {"launcher": "torchrun"},
            {"worker": {}},
            "launcher 'torchrun' has no task types. Use the option environment instead",
        ),
        ({"launcher": "mxnet"}, {"worker": "A=1"}, "the value of 'worker' is not a dictionary. Specify variables and their values"),
    ],
)
def test_variables_of_tasks_that_do_not_exist_are_refused(changes, environments, message):
    with pytest.raises(job_parameters.RefusalError, match=f"^environment_by_task: {message}"):
        job_parameters.check(parameters(**changes, environment_by_task=environments))


def test_a_strategy_determines_the_task_types():
    job_parameters.check(
        parameters(launcher="tensorflow", launcher_options={"strategy": "flags"}, environment_by_task={"ps": {"A": 1}, "worker": {}})
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({option.name: -1}, f"{option.name}: -1 is negative. Use 0 or more.") for option in OPTIONS if option.spec["type"] == "int"),
        (
            {"reboot": True, "queue": "slurm"},
            "reboot: true is not possible with queue 'slurm', because the queue may run other jobs on the hosts. Set reboot to false, or"
            " start the job without a queue.",
        ),
        (
            {"spares": 1, "queue": "slurm"},
            "spares: 1 is not possible with queue 'slurm', because a job uses all hosts that the queue allocates. Set spares to 0, or start"
            " the job without a queue.",
        ),
        ({"metrics_directory": "metrics"}, "metrics_directory: 'metrics' is not an absolute path. Use an absolute path."),
        ({"hang_timeout": 29}, "hang_timeout: 29 s is too short. Specify at least 30 s, or 0 to disable the check."),
        ({"stop_exit_codes": [0]}, "stop_exit_codes: 0 is not the exit status of a failed process. Use 1 to 255."),
        ({"restart_exit_codes": [256]}, "restart_exit_codes: 256 is not the exit status of a failed process. Use 1 to 255."),
        (
            {"stop_exit_codes": [3, 4], "restart_exit_codes": [4]},
            "restart_exit_codes: 4 is also in stop_exit_codes. Remove the exit code from one of the two options.",
        ),
    ],
)
def test_options_of_restarts_are_checked(changes, message):
    with pytest.raises(job_parameters.RefusalError, match=f"^{re.escape(message)}$"):
        job_parameters.check(parameters(**changes))


def test_all_hosts_cannot_be_spares(paths):
    with pytest.raises(job_parameters.RefusalError, match=r"^spares: 3 is too many for the 3 hosts of the job\. Use .*, or more hosts\.$"):
        host_processes.plan(parameters(spares=3), paths, 1)
    with pytest.raises(job_parameters.RefusalError, match=r"^min_hosts: 3 is more than the 2 hosts of the job that are not spares\. Use"):
        host_processes.plan(parameters(spares=1, min_hosts=3), paths, 1)
    (spec,) = host_processes.plan(parameters(spares=1), paths, 1)
    assert spec["parameters"]["min_hosts"] == 2


def test_a_spare_that_cannot_take_the_place_of_another_host_is_refused(paths):
    hosts = [{**host, "gpus": [0, 1] if host["number"] == 12 else [0]} for host in parameters()["hosts"]]
    with pytest.raises(LaunchError, match="the hosts would have different numbers of training processes"):
        host_processes.plan(parameters(spares=1, hosts=hosts), paths, 1)


LAUNCHERS = ["command", "deepspeed", "horovod", "jax", "mpi", "mxnet", "tensorflow", "torchrun"]


def by_host(planned):
    found = {}
    for spec in planned:
        found.setdefault(spec["host"].replace("deeplearning-worker", ""), []).append(spec)
    return found


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_last_hosts_wait_and_can_run_the_processes_of_any_other_host(paths, launcher):
    """A job with a spare host has the same processes as a job that lacks this host.

    If a host is lost, the number of processes stays the same.
    """
    options = {"strategy": "parameter_server", "servers": 1} if launcher == "tensorflow" else {}
    params = parameters(launcher=launcher, launcher_options=options, processes_per_host=2 if launcher == "command" else 0, spares=1)
    job_parameters.check(params)
    first = host_processes.plan(params, paths)
    smaller = {**params, "spares": 0, "hosts": [host for host in params["hosts"] if host["number"] != 12]}
    trains = [spec for spec in first if spec["part"] != "standby"]
    names = ("name", "rank", "host", "argv", "environment", "processes", "daemons", "hostfile")
    assert [[spec[name] for name in names] for spec in trains] == [
        [spec[name] for name in names] for spec in host_processes.plan(smaller, paths)
    ]
    standby = [spec for spec in first if spec["part"] == "standby"]
    assert {spec["standby"] for spec in first} == {len(standby)}
    assert "12" in by_host(standby)
    assert all(spec["ranks"] == [] and spec["argv"] == ["sleep", "infinity"] for spec in standby)
    assert len({len(found) for found in by_host(first).values()}) == 1, "a restart does not add units to a host"
    for lost in ("1", "3"):
        later = between_attempts.plan(first[0], [spec["host"] for spec in first if not spec["host"].endswith(f"worker{lost}")])
        assert {spec["part"] for spec in later}.isdisjoint({"standby"})
        assert [spec["name"] for spec in later] == [spec["name"] for spec in trains]
        assert all(len(found) <= len(by_host(first)[host]) for host, found in by_host(later).items())


def test_a_job_cannot_need_more_hosts_than_it_has(paths):
    with pytest.raises(
        job_parameters.RefusalError, match=r"^min_hosts: 4 is more than the 3 hosts of the job\. Use .*, or 0 for all hosts\.$"
    ):
        host_processes.plan(parameters(min_hosts=4), paths, 1)
    for least in (0, 3):
        (spec,) = host_processes.plan(parameters(min_hosts=least), paths, 1)
        assert spec["parameters"]["min_hosts"] == 3


def test_a_launcher_with_daemons_needs_a_key(paths):
    with pytest.raises(job_parameters.RefusalError) as refused:
        host_processes.plan(parameters(launcher="mpi", key=None), paths, 1)
    assert str(refused.value) == "key: missing. Launcher 'mpi' needs the same random string on all hosts."
    (spec,) = host_processes.plan(parameters(key=None), paths, 1)
    assert spec["key"] == ""


@pytest.mark.parametrize("launcher", ["deepspeed", "horovod", "jax", "mpi", "mxnet", "tensorflow", "torchrun"])
def test_each_attempt_has_its_own_rendezvous(paths, launcher):
    """No port of an earlier attempt appears in the command or the environment of a later attempt."""
    params = parameters(launcher=launcher)
    job_parameters.check(params)
    found = []
    for attempt in (1, 2):
        planned = attempt_processes.plan_specs(params, paths.of_attempt(attempt))
        text = json.dumps([[spec["argv"], spec["environment"], spec["daemons"]] for spec in planned])
        found.append(set(re.findall(r"\b(?:2[0-9]|3[01])[0-9]{3}\b", text)))
    assert found[0]
    assert not found[0] & found[1]
