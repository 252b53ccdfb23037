"""Tests of the list of jobs and of the status of one job."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.action import training_job_status
from ansible_collections.deeplearning.cluster.plugins.action.training_job_status import TABLE_LIMIT, shown
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.job_formatting import process_table

from .conftest import GOODPUT, make_action


def job(name, count):
    process = {"name": "rank0", "host": "w1", "state": "running", "started": 0.0}
    facts = {"hosts": 0, "spares": 0, "began": 0.0, "ended": 0.0, "read": 9.0, "process_count": 0, "code": {}}
    return {"name": name, "state": "pending", "created": 0.0, "launcher": "mpi", "script": "a.py", **facts, "processes": [process] * count}


def line(name):
    return f"{name} pending since 1970-01-01 00:00:00 UTC, mpi a.py"


@pytest.mark.parametrize(("count", "lines"), [(0, 0), (2, 4), (TABLE_LIMIT, TABLE_LIMIT + 2), (TABLE_LIMIT + 1, 0)])
def test_a_list_has_the_processes_of_the_newest_job_unless_they_are_many(count, lines):
    told = shown([job("new", count), job("old", 1)], {"directory": "/efs/jobs"})
    assert told[:2] == [line("new"), line("old")]
    assert len(told) == 2 + lines
    assert not lines or told[2] == "processes of new, the newest job:"


def test_a_list_names_the_cause_of_the_newest_jobs_failure():
    failed = {"name": "rank1", "host": "w2", "state": "failed", "exit_code": 1, "log": "/l", "lines": ["boom"]}
    jobs = [{**job(name, 0), "state": "failed", "failure": failed} for name in ("new", "old")]
    assert shown(jobs, {"directory": "/efs/jobs"})[2:] == [
        "job new failed: rank 1 on w2 ended with exit status 1. For details, run: "
        "ansible-playbook deeplearning.cluster.status -e training_job_name=new"
    ]


def test_the_lost_hosts_of_a_running_job_are_named():
    gone = {"w2": "w2 is gone: i-0123456789abcdef0 is no longer a node of the cluster."}
    jobs = [{**job("new", 0), "state": "running"}, job("old", 0)]
    assert shown(jobs, {"directory": "/efs/jobs"}, gone)[2:] == [f"new: {gone['w2']}"]
    assert shown([{**jobs[0], "state": "succeeded"}], {"directory": "/efs/jobs"}, gone)[1:] == []


def test_one_job_has_its_own_lines_alone():
    assert shown([job("new", 2)], {"directory": "/efs/jobs", "name": "new"}) == [line("new"), *process_table(job("new", 2)["processes"])]


def test_without_jobs_it_says_so():
    assert shown([], {"directory": "/efs/jobs"}) == ["There are no jobs in /efs/jobs."]


@pytest.fixture
def run():
    """Return a function that runs the action with arguments and returns its result and the arguments of the module."""

    def run_it(check_mode=False, **arguments):
        action = make_action(training_job_status, check_mode, directory="/efs/jobs", **arguments)
        found = {**job("digits", 1), "goodput": GOODPUT, "attempt": 1, "state": "running"}
        action._execute_module = MagicMock(return_value={"jobs": [found]})
        result = action.run(task_vars={"deeplearning_cluster": "demo"})
        return result, action._execute_module.call_args.kwargs["module_args"]

    return run_it


def test_the_goodput_of_one_job_is_asked_for(run):
    assert run(name="digits")[1] == {"directory": "/efs/jobs", "name": "digits", "goodput": "always"}
    assert run()[1] == {"directory": "/efs/jobs"}


def test_metrics_are_written_on_the_controller(run, tmp_path):
    path = tmp_path / "deeplearning-demo.digits.prom"
    run(name="digits", metrics_directory=str(tmp_path), check_mode=True)
    assert not path.exists()
    assert run(name="digits", metrics_directory=str(tmp_path))[1] == {"directory": "/efs/jobs", "name": "digits", "goodput": "always"}
    assert 'deeplearning_job_goodput_ratio{cluster="demo",training_job="digits"} 0.75\n' in path.read_text()


def test_metrics_that_cannot_be_written_are_an_error(run, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        AnsibleActionFail, match=r"metrics_directory: '.*file/deeplearning-demo.digits.prom' cannot be written: .* Use another"
    ):
        run(name="digits", metrics_directory=str(tmp_path / "file"))
    with pytest.raises(AnsibleActionFail, match=r"metrics_directory: the option 'name' is also required\. Specify the name of a job\."):
        run(metrics_directory=str(tmp_path))
