"""Tests of the question before a run makes a cluster more expensive than the definition expects."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.action import cluster

EXCEEDED = {"failed": True, "price_exceeded": True, "msg": "price_warning: cluster demo costs 600.00 USD per day."}


@pytest.fixture
def execute(monkeypatch):
    """Return a function that runs the action, and returns its result, the arguments of each execution of the module, and the questions."""

    def run(answer, *, variables=(), check_mode=False, **arguments):
        given, questions = [], []

        def execute_watched(action, _variables, _show, **_options):
            given.append(dict(action._task.args))
            return EXCEEDED if action._task.args.get("enforce_price_warning") else {"changed": True}

        def ask(question):
            questions.append(question)
            return answer

        monkeypatch.setattr(cluster, "execute_watched", execute_watched)
        monkeypatch.setattr(cluster, "ask", ask)
        task = MagicMock(args={"cluster": "demo", "price_warning": 500.0, **arguments}, check_mode=check_mode, _role=None)
        found = cluster.ActionModule(task, *[MagicMock()] * 5)._execute(dict(variables))
        return found, [each.get("enforce_price_warning", False) for each in given], questions

    return run


@pytest.mark.parametrize(("answer", "goes_on"), [("yes", True), (None, True), ("no", False), ("ctrl-c", False)])
def test_the_run_goes_on_unless_somebody_refuses(execute, answer, goes_on):
    found, enforced, questions = execute(answer)
    assert (found.get("changed", False), enforced) == (goes_on, [True, False] if goes_on else [True])
    assert questions == [f"{EXCEEDED['msg']} Make the changes?"]


@pytest.mark.parametrize(
    ("arguments", "enforced"),
    [
        ({"variables": {"deeplearning_confirm": "false"}}, [False]),
        ({"check_mode": True}, [False]),
        ({"price_warning": None}, [False]),
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
