"""Tests of the values that are kept of the results of modules."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import failure_causes
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import documented_values


@pytest.mark.parametrize(
    ("module", "values", "problem"),
    [
        ("node_health", {"time": 1e308, "findings": [], "exclusions": []}, "time is 1e+308, not a number of seconds"),
        ("node_health", {"time": -1.0, "findings": [], "exclusions": []}, "time is -1.0, not a number of seconds"),
        ("node_health", {"time": 10**4000, "findings": [], "exclusions": []}, "time is inf, not a number of seconds"),
        ("node_health", {"time": float("nan"), "findings": [], "exclusions": []}, "time is nan, not a number of seconds"),
        ("sge_info", {"cpus": "4"}, "cpus is '4', not an integer from 0 to 9007199254740992"),
        ("sge_info", {"cpus": True}, "cpus is True, not an integer"),
        ("sge_info", {"cpus": -1}, "cpus is -1, not an integer from 0 to 9007199254740992"),
        (
            "training_job_cleanup",
            {"kept": [{"name": "FAILED: x", "reason": "x"}]},
            "kept[0].name is 'FAILED: x', not a valid name",
        ),
        ("training_job_cleanup", {"kept": [{"name": "x" * 300, "reason": "x"}]}, "not a valid name"),
    ],
)
def test_numbers_and_names_that_no_host_can_have_are_refused(module, values, problem):
    found = documented_values.documented_part({"failed": True, **values}, f"deeplearning.cluster.{module}", "w1")
    assert problem in found["msg"]


ATTEMPT = {"attempt": 1, "state": "failed", "started": 1.0, "hosts": 2, "logs": "/l"}


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"missing": ["w1", "w2\nEVIL"]}, r"missing\[1\] is 'w2 EVIL', not a valid name"),
        ({"replacements": ["$(evil)"]}, r"replacements\[0\] is '\$\(evil\)', not a valid name"),
        ({"excluded": [["w1"]]}, r"excluded\[0\] is not a str"),
        ({"cause": {"kind": "evil"}}, "cause.kind is 'evil', not one of operator, "),
        ({"cause": {"kind": "lease_end", "deadline": 1e300}}, "cause.deadline is 1e[+]300, not a number of seconds"),
        ({"cause": {"kind": "hang", "hang": {"median": 1.0}}}, "cause.hang.seconds is missing"),
        ({"cause": {"kind": "disk_full", "storage": [{"path": "/x", "problem": "evil"}]}}, "problem is 'evil', not one of space"),
        ({"failure": {"name": "rank0"}}, "failure.rank is missing"),
        ({"action": "evil"}, "action is 'evil', not one of restart, stop"),
    ],
)
def test_facts_about_an_attempt_that_cannot_be_true_are_refused(facts, problem):
    attempts = documented_values.returned_values("deeplearning.cluster.training_job_info")["jobs"]["contains"]["attempts"]
    with pytest.raises(documented_values.SchemaError, match=problem):
        documented_values._value([{**ATTEMPT, **facts}], attempts, "jobs[0].attempts")


def test_the_name_of_a_cause_is_no_name_of_a_process():
    attempts = documented_values.returned_values("deeplearning.cluster.training_job_info")["jobs"]["contains"]["attempts"]
    given = [{**ATTEMPT, "cause": {"kind": "not_started", "what": "No such file", "name": "/opt/my program"}, "missing": ["w1"]}]
    assert documented_values._value(given, attempts, "jobs[0].attempts") == given
    assert (
        documented_values.documented_part({"changed": False, "excluded": ""}, "deeplearning.cluster.training_job", "w1")["excluded"] == ""
    )


@pytest.mark.parametrize("key", ["processes", "failure", "attempts"])
def test_an_exception_can_have_any_name(key):
    job = documented_values.returned_values("deeplearning.cluster.training_job_info")["jobs"]["contains"]
    contents = (job["attempts"]["contains"]["failure"] if key == "attempts" else job[key])["contains"]
    given = {"kind": "script_error", "name": "Größenfehler"}
    for name in ("cause", "raised"):
        assert documented_values._value(given, contents[name], f"jobs[0].{key}[1].{name}") == given
    with pytest.raises(documented_values.SchemaError, match="not a valid name"):
        documented_values._value("Größenfehler", contents["name"], f"jobs[0].{key}[1].name")
    with pytest.raises(documented_values.SchemaError, match="not a valid name"):
        documented_values._value("Größenfehler", contents["name"], "because.name")


def test_all_kinds_of_causes_are_documented():
    attempts = documented_values.returned_values("deeplearning.cluster.training_job_info")["jobs"]["contains"]["attempts"]
    assert attempts["contains"]["cause"]["contains"]["kind"]["choices"] == [*failure_causes.KINDS]


def test_a_ratio_is_between_0_and_1():
    with pytest.raises(documented_values.SchemaError, match=r"ratio is 1\.5, not a number from 0 to 1$"):
        documented_values._value(1.5, {"type": "float"}, "jobs[0].goodput.ratio")


def test_what_a_job_had_cost_when_it_was_stopped_reaches_the_controller():
    info = documented_values.returned_values("deeplearning.cluster.training_job_info")
    failure = info["jobs"]["contains"]["failure"]["contains"]
    cost = {"limit": 5.0, "spent": 5.02, "earlier": 1.5, "currency": "USD", "seconds": 7800.4}
    given = {"kind": "time_limit", "cost": cost, "unknown": "x"}
    assert documented_values._value(given, failure["cause"], "cause") == {"kind": "time_limit", "cost": cost}
    with pytest.raises(documented_values.SchemaError, match="currency"):
        documented_values._value({**given, "cost": {**cost, "currency": "x" * 999}}, failure["cause"], "cause")
