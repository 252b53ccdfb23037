"""Tests of the default number of spares of a job, of the hosts on which a failed job is stopped, and of the job's options."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
import pytest
import yaml

from unit.ansible_templates import evaluated, loaded, task_of

ROLE = Path(__file__).resolve().parents[3] / "roles" / "training_job"
MODULE = "deeplearning.cluster.training_job"
DEFAULTS = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
INTERNAL = loaded(ROLE / "vars" / "main.yml")


@pytest.mark.parametrize(
    ("hosts", "definition", "spares"),
    [
        (5, {}, 0),
        (5, {"deeplearning_worker_count": 4}, 0),
        (5, {"deeplearning_worker_count": 3, "deeplearning_spares": 1}, 1),
        (5, {"deeplearning_worker_count": "2", "deeplearning_spares": "2"}, 2),
        # The job runs on some of the nodes
        (3, {"deeplearning_worker_count": 3, "deeplearning_spares": 1}, 0),
        (5, {"deeplearning_worker_count": 3, "deeplearning_spares": 2}, 1),
        (5, {"deeplearning_worker_count": 3, "deeplearning_spares": 1, "training_job_queue": "slurm"}, 0),
        # Other hosts, which the definition does not describe
        (5, {"deeplearning_worker_count": 0, "deeplearning_spares": 0}, 0),
        (5, {"deeplearning_spares": 1}, 0),
    ],
)
def test_a_job_on_all_nodes_leaves_the_spares_of_the_definition_out(hosts, definition, spares):
    names = [f"worker{number}" for number in range(hosts)]
    variables = {"training_job_queue": "", "ansible_play_hosts_all": names, **definition}
    assert evaluated(DEFAULTS["training_job_spares"], INTERNAL, **variables) == spares


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"deeplearning_worker_count": 3}, 4),
        ({"deeplearning_worker_count": "2", "deeplearning_spares": "1"}, 4),
        ({"deeplearning_worker_count": 3, "training_job_hosts": "trainers"}, 4),
        ({"deeplearning_worker_count": 3, "training_job_hosts": "master"}, 0),
        ({}, 0),
    ],
)
def test_check_mode_knows_the_future_number_of_nodes_if_the_job_uses_all_of_them(variables, expected):
    assert evaluated("{{ __training_job_plan.nodes }}", INTERNAL, **variables) == expected


HOSTVARS = {
    "a": {"deeplearning_hostname": "m", "__training_job_started": {"changed": True}, "__training_job_stopped": {"changed": True}},
    "b": {"deeplearning_hostname": "w2", "__training_job_started": {"unreachable": True, "msg": "no route"}},
    "c": {"deeplearning_hostname": "w3", "__training_job_stopped": {"unreachable": True}},
}


@pytest.mark.parametrize(
    ("hosts", "variables", "expected"),
    [
        ("ab", {"__training_job_result": {"msg": "failed"}}, "no route"),
        ("ac", {"__training_job_submitted": {"msg": "no slurmctld"}, "__training_job_result": {"msg": "failed"}}, "no slurmctld"),
        ("ac", {"__training_job_submitted": {}, "__training_job_result": {"msg": "failed"}}, "failed"),
        ("ac", {"__training_job_result": {}}, ""),
    ],
)
def test_the_first_failure_is_the_reason(hosts, variables, expected):
    variables = {"ansible_play_hosts_all": list(hosts), "hostvars": HOSTVARS, **variables}
    assert evaluated("{{ __training_job_failed }}", INTERNAL, **variables) == expected


@pytest.mark.parametrize(
    ("hosts", "variables", "expected"),
    [
        ("b", {"__training_job_result": {"skipped": True}}, True),
        ("ab", {"__training_job_result": {"skipped": True}}, False),
        ("b", {"__training_job_result": {"msg": "failed"}}, False),
        ("a", {"__training_job_result": {"skipped": True}}, False),
    ],
)
def test_a_job_that_no_host_has_started_was_refused(hosts, variables, expected):
    variables = {"ansible_play_hosts_all": list(hosts), "hostvars": HOSTVARS, **variables}
    assert evaluated("{{ __training_job_was_refused }}", INTERNAL, **variables) is expected


STARTED, LOST = {"changed": True}, {"msg": "lost", "out_of_reach": True}


@pytest.mark.parametrize(
    ("started", "variables", "expected"),
    [
        # Before the role, and by other playbooks
        (None, {}, {"then": "keep", "has_failed": True, "then_always": False, "out_of_reach": False, "not_started": True}),
        (None, {"then": "destroy", "then_always": True}, {"then": "destroy", "then_always": True, "not_started": True}),
        (None, {"then": "destroy", "then_always": True, "__train_is_unused": True}, {"then": "destroy", "then_always": False}),
        ({"msg": "no GPU", "changed": False}, {"__training_job_result": {"skipped": True}}, {"has_failed": True, "not_started": True}),
        (STARTED, {"__training_job_result": {"changed": False}}, {"has_failed": False, "not_started": False, "out_of_reach": False}),
        (STARTED, {"__training_job_result": {"msg": "exit 1"}}, {"has_failed": True, "not_started": False}),
        (STARTED, {"__training_job_result": LOST}, {"has_failed": True, "not_started": False, "out_of_reach": True}),
        (STARTED, {"__training_job_result": {}, "__training_job_former": {"running_groups": ["master"]}}, {"groups": ["master"]}),
    ],
)
def test_the_facts_about_costs_are_known_whether_or_not_the_job_has_started(started, variables, expected):
    own = {} if started is None else {"__training_job_started": started}
    given = {"ansible_play_hosts_all": ["a"], "hostvars": {"a": own, "localhost": {"provision_result": {"price": None}}}, **own}
    found = evaluated("{{ __training_job_costs }}", INTERNAL, given, variables)
    assert found == {**found, "run": {"price": None}, "groups": None, **expected}


def test_hosts_that_did_not_answer_the_end_of_the_job_are_unreachable():
    """A host that has left the inventory has no variables."""
    variables = {"ansible_play_hosts_all": list("abcd"), "hostvars": HOSTVARS}
    assert evaluated("{{ __training_job_losses.unreachable }}", INTERNAL, **variables) == ["w3"]


@pytest.mark.parametrize(
    ("resume", "jobs", "expected"),
    [
        ("", None, ""),
        ("bert-1", None, "bert-1"),
        ("newest", [("bert-3", True), ("bert-2", False), ("bert-1", True), ("bert-0", True)], "bert-1"),
        ("newest", [("bert-3", True), ("bert-2", False)], "newest"),
    ],
)
def test_the_newest_other_job_that_has_ended_is_continued(resume, jobs, expected):
    earlier = {"__training_job_earlier": {"jobs": [{"name": name, "over": over} for name, over in jobs]}} if jobs else {}
    variables = {"training_job_resume": resume, "__training_job_name": "bert-3", **earlier}
    assert evaluated("{{ __training_job_resume }}", INTERNAL, **variables) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"training_job_name": "mine"}, "mine"),
        ({"training_job_script": "code/--My Script_1.py"}, "my-script-1-2"),
        ({"training_job_script": "x" * 50}, f"{'x' * 40}-2"),
        ({"training_job_command": ["/opt/run.sh", "x"]}, "run-2"),
        ({}, "job-2"),
    ],
)
def test_the_default_name_of_a_job_is_that_of_its_program_and_the_time(variables, expected):
    task = task_of(ROLE / "tasks" / "main.yml", "Set the name and the key of the job")
    given = {"training_job_name": "", "training_job_script": "", "training_job_command": [], **variables}
    name = evaluated(task["ansible.builtin.set_fact"]["__training_job_name"], task["vars"], **given)
    assert re.sub(r"-20\d{6}-\d{6}$", "-2", name) == expected


@pytest.mark.parametrize(
    ("variables", "is_asked"),
    [
        ({"deeplearning_instance_id": "i-1"}, True),
        ({"deeplearning_instance_id": "i-1", "__training_job_former": {"instance_ids": ["i-2"]}}, True),
        ({"deeplearning_instance_id": "i-2", "__training_job_former": {"instance_ids": ["i-2"]}}, False),
        # AWS could not be asked
        ({"deeplearning_instance_id": "i-2", "__training_job_former": {"msg": "AccessDenied"}}, True),
        # A host outside AWS
        ({"__training_job_former": {"instance_ids": ["i-2"]}}, True),
        ({"deeplearning_instance_id": "i-1", "__training_job_has_failed": False}, False),
        ({"deeplearning_instance_id": "i-1", "__training_job_result": {"out_of_reach": True}}, False),
    ],
)
def test_hosts_that_have_left_the_cluster_are_not_asked_to_stop_a_failed_job(variables, is_asked):
    default = {"__training_job_has_failed": True, "__training_job_result": {}, "__training_job_former": {}}
    conditions = task_of(ROLE / "tasks" / "stop.yml", "Stop the remaining processes of the job")["when"]
    asked = [jinja2.Environment().compile_expression(condition)(**{**default, **variables}) for condition in conditions]
    assert all(asked) == is_asked


def test_a_job_that_fails_is_stopped_on_all_hosts_and_its_end_is_told_even_if_that_is_not_possible():
    """A task in a rescue section would run only on the host on which the task that waits for the job has failed."""
    tasks = yaml.safe_load((ROLE / "tasks" / "run.yml").read_text())
    (block,) = [task for task in tasks if "block" in task]
    stops = block["block"][-1]
    stop = task_of(ROLE / "tasks" / "stop.yml", "Stop the remaining processes of the job")
    assert stops["ansible.builtin.include_tasks"] == "stop.yml"
    assert [each for each in (stops, stop) if "run_once" in each] == []
    assert "rescue" not in block
    assert [task["name"] for task in block["always"]] == ["Send notifications about the end of the job"]


def test_a_host_gets_the_secrets_and_the_key_only_with_the_start_of_the_job():
    """Before, a host that is excluded or that lies about its identity would get them. The printed processes stay on the controller."""
    (block,) = [task for task in yaml.safe_load((ROLE / "tasks" / "main.yml").read_text()) if "module_defaults" in task]
    assert not {"secrets", "key"} & block["module_defaults"][MODULE].keys()
    files = [yaml.safe_load(path.read_text()) for path in (ROLE / "tasks").glob("*.yml")]
    tasks = [each for file in files for task in file for each in task.get("block", [task])]
    given = [(task["name"], name) for task in tasks for name in ("secrets", "key") if name in (task.get(MODULE) or {})]
    started = [(task["name"], name) for task in tasks if task.get("register") == "__training_job_started" for name in ("secrets", "key")]
    assert sorted(given) == sorted([*started, ("Plan the processes of the job", "secrets")])
    assert len(started) == 2


@pytest.mark.parametrize(
    ("prepared", "goes"),
    [
        ({"changed": True, "job_state": "new"}, True),
        ({"changed": False, "job_state": "new"}, False),  # another run has prepared it
        ({"changed": True, "job_state": "ended"}, False),
        ({"failed": True, "msg": "the job may have run already"}, False),
    ],
)
def test_only_what_this_run_has_created_for_a_refused_job_is_deleted(prepared, goes):
    (block,) = [task for task in loaded(ROLE / "tasks" / "main.yml") if "always" in task]
    given = {"training_job_state": "started", "__training_job_predict": False, "__training_job_prepared": prepared}
    assert evaluated(block["always"][0]["when"], given) == goes
