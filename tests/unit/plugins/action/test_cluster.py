"""Tests of the question before a run makes a cluster more expensive than the definition expects."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.action import cluster
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.node_variables import NodeVariables

from .conftest import TOO_SMALL, WORKERS

EXCEEDED = {"failed": True, "price_exceeded": "cluster demo costs 600.00 USD per day", "msg": "price_warning: this run was stopped."}


@pytest.fixture
def execute(monkeypatch):
    """Return a function that runs the action, and returns its result, the arguments of each execution of the module, and the questions."""

    def run(answer, *, variables=(), check_mode=False, role=None, **arguments):
        given, questions = [], []

        def execute_watched(action, _variables, **_options):
            given.append(dict(action._task.args))
            return EXCEEDED if action._task.args.get("enforce_price_warning") else {"changed": True}

        def ask(question):
            questions.append(question)
            return answer

        monkeypatch.setattr(cluster, "execute_watched", execute_watched)
        monkeypatch.setattr(cluster, "ask", ask)
        task = MagicMock(args={"cluster": "demo", "price_warning": 500.0, **arguments}, check_mode=check_mode, _role=role)
        found = cluster.ActionModule(task, *[MagicMock()] * 5)._execute(dict(variables))
        return found, [each.get("enforce_price_warning", False) for each in given], questions

    return run


REMOVED = {
    "lease": {"end": "2026-12-01T10:59:00Z", "seconds": 60, "former_end": None, "fixed": False},
    "idle": {"seconds": 1800, "then": "terminate"},
    "topic": None,
    "rests": [],
    "endless": True,
    "done": False,
}
ENDS = "the lease that ends at 2026-12-01 10:59 UTC and the end of nodes that have been idle for 30 min 0 s, because"
OPTIONS = "does not set deeplearning_lease and deeplearning_idle_after. The nodes"
TOLD = f"With this definition, provision removes {ENDS} it {OPTIONS} then run, and cost money, until somebody terminates them."
DONE = f"This run has removed {ENDS} the definition {OPTIONS} now run, and cost money, until somebody terminates them."


@pytest.mark.parametrize(("answer", "goes_on"), [("yes", True), (None, True), ("no", False)])
def test_a_run_asks_before_it_removes_what_ends_the_nodes(monkeypatch, answer, goes_on):
    """The question about the price comes first."""
    runs, questions, warned = [], [], []

    def execute_watched(action, *_others, **_options):
        given = action._task.args
        runs.append((given.get("enforce_price_warning", False), given.get("keep_ends", False)))
        if given.get("enforce_price_warning"):
            return dict(EXCEEDED)
        if given.get("keep_ends"):
            return {"failed": True, "msg": "keep_ends: x.", "removed_ends": REMOVED}
        return {"changed": True, "changes": [], "removed_ends": {**REMOVED, "done": True}}

    monkeypatch.setattr(cluster, "execute_watched", execute_watched)
    monkeypatch.setattr(cluster, "ask", lambda question: questions.append(question) or ("yes" if len(questions) == 1 else answer))
    for name in ("refuse_injected_facts", "refuse_failed_inventory", "check_names", "refuse_changed_text", "Notifications"):
        monkeypatch.setattr(cluster, name, MagicMock())
    monkeypatch.setattr(cluster.Display, "warning", lambda _self, text: warned.append(text))
    monkeypatch.setattr(cluster.context, "CLIARGS", {"check": False})
    task = MagicMock(args={"price_warning": 500.0}, check_mode=False, _role=None, action="deeplearning.cluster.cluster", async_val=0)
    found = cluster.ActionModule(task, *[MagicMock()] * 5).run(task_vars={})
    assert runs == [(True, True), (False, True), *([(False, False)] if goes_on else [])]
    assert (questions[1], found.get("changed", False)) == (f"{TOLD} Make the changes?", goes_on)
    assert warned == ([DONE] if goes_on else [])


@pytest.mark.parametrize(
    ("job", "is_check", "made", "message"),
    [
        ({"max_cost": 1}, False, [(True, 0)], TOO_SMALL),
        ({"max_cost": 1}, True, [(True, 0)], TOO_SMALL),
        ({"max_cost": 237, "time_limit": 7200}, True, [(True, 0), (True, 5400)], None),
        ({"max_cost": 237, "time_limit": 7200}, False, [(True, 0), (False, 5400)], None),
        ({"max_cost": 237}, False, [(True, 0), (False, 9000)], None),
        ({}, False, [(False, 9000)], None),
        (None, False, [(False, 9000)], None),
    ],
)
def test_no_node_is_launched_for_a_job_whose_maximum_cost_does_not_pay_for_it(monkeypatch, job, is_check, made, message):
    """The lease need not last longer than the maximum cost allows, also in predictions. Only train.yml says that nodes are for a job."""
    runs = []

    def execute_watched(action, _variables, **_options):
        runs.append((action._task.check_mode, action._task.args["lease_minimum"]))
        return {"changed": True, "price": {"currency": "USD", "charges": [WORKERS], "published": "", "read_at": 0, "problem": ""}}

    monkeypatch.setattr(cluster, "execute_watched", execute_watched)
    raw = {f"training_job_{name}": value for name, value in ({"max_cost": 1} if job is None else job).items()}
    monkeypatch.setattr(cluster, "node_variables", lambda *_: NodeVariables(raw, lambda value: value))
    action = cluster.ActionModule(MagicMock(args={"lease_minimum": 9000}, check_mode=is_check), *[MagicMock()] * 5)
    shown = MagicMock()
    monkeypatch.setattr(cluster, "show", shown)
    found = action._execute_for_job({} if job is None else {"__provision_for_job": True})
    assert (runs, found.get("msg"), found.get("failed", False)) == (made, message, message is not None)
    assert found["changed"] == (message is None), "a refused run has not made the changes that it has predicted"
    assert (action._task.check_mode, shown.called) == (is_check, is_check and message is None)


@pytest.mark.parametrize(("answer", "goes_on"), [("yes", True), (None, True), ("no", False), ("ctrl-c", False)])
def test_the_run_goes_on_unless_somebody_refuses(execute, answer, goes_on):
    found, enforced, questions = execute(answer)
    assert (found.get("changed", False), enforced) == (goes_on, [True, False] if goes_on else [True])
    assert found.get("msg") == (None if goes_on else "price_warning: nothing was changed, as you have answered."), "the user has set it"
    assert questions == ["deeplearning_price_warning: after this run, cluster demo costs 600.00 USD per day. Make the changes?"]


def test_the_messages_of_a_role_name_its_variables(execute, monkeypatch):
    given = []
    role = SimpleNamespace(get_name=lambda: "deeplearning.cluster.provision")
    monkeypatch.setattr(cluster, "message_arguments", lambda task: given.append(task._role) or {"price_warning": 1.0})
    found, _enforced, _questions = execute("no", role=role)
    assert (given, found["msg"]) == ([role], "deeplearning_price_warning: nothing was changed, as you have answered.")


@pytest.mark.parametrize(
    ("arguments", "enforced"),
    [
        ({"variables": {"deeplearning_confirm": "false"}}, [False]),
        ({"check_mode": True}, [False]),
        ({"price_warning": None}, [False]),
        ({"prices": False}, [False]),
        ({"enforce_price_warning": True}, [True]),
    ],
)
def test_nobody_is_asked_without_need(execute, arguments, enforced):
    assert execute("no", **arguments)[1:] == (enforced, [])


@pytest.mark.parametrize(
    ("check", "result", "is_sent"),
    [(True, EXCEEDED, False), (False, EXCEEDED, True), (False, {"degraded": {"workers": 1, "wanted": 2, "reason": ""}}, False)],
)
def test_a_prediction_that_fails_is_told_unless_the_run_only_predicts(monkeypatch, check, result, is_sent):
    sent = MagicMock()
    monkeypatch.setattr(cluster, "Notifications", sent)
    monkeypatch.setattr(cluster.context, "CLIARGS", {"check": check})
    cluster.ActionModule(MagicMock(check_mode=True), *[MagicMock()] * 5)._notify(result, {})
    assert sent.return_value.send.called == is_sent


def test_nobody_is_asked_where_nobody_can_answer(execute, monkeypatch):
    monkeypatch.setattr(cluster, "is_under_runner", lambda: True)
    assert execute("no") == ({"changed": True}, [True, False], [])


@pytest.mark.parametrize(("role", "is_checked"), [("deeplearning.cluster.provision", True), ("other.roles.nodes", False)])
def test_the_types_of_the_definition_are_checked_before_the_module_runs(execute, monkeypatch, role, is_checked):
    for name in ("refuse_injected_facts", "refuse_failed_inventory", "check_names", "refuse_changed_text", "Notifications"):
        monkeypatch.setattr(cluster, name, MagicMock())
    monkeypatch.setattr(cluster, "execute_watched", lambda *_arguments, **_options: {"changed": False})
    task = MagicMock(args={"cluster": "demo"}, action="deeplearning.cluster.cluster", check_mode=False, async_val=0)
    task._role.get_name.return_value = role
    templar = MagicMock(template=lambda value: value)
    action = cluster.ActionModule(task, MagicMock(), MagicMock(), MagicMock(), templar, MagicMock())
    variables = {"deeplearning_worker_count": "three", "deeplearning_zones": ["a"]}
    if is_checked:
        with pytest.raises(AnsibleActionFail, match=r"^deeplearning_worker_count: 'three' has the wrong type\. Specify an integer\.$"):
            action.run(None, variables)
    else:
        assert action.run(None, variables)["changed"] is False
