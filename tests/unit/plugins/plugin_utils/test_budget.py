"""Tests of the limits on what the results of a host cost. tests/security contains tests with hostile nodes."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.schema import count_values
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import answers, budget, documented_values
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.budget import Budget, RunBudget


@pytest.mark.parametrize(
    ("value", "count"),
    [("x", 1), ([], 4), ({"a": 1, "b": "x"}, 6), ([[], {}], 12), ({"a": [1, 2, {"b": [3]}]}, 5 + 6 + 4 + 4)],
)
def test_containers_count_more_than_other_values(value, count):
    assert count_values(value, 1000) == count
    assert count_values([value] * 1000, 100) > 100


def test_messages_that_exceed_the_budget_are_counted():
    assert Budget(2).messages(["a\nb", "c"], "warnings") == ["a b", "c"]
    assert Budget(2).messages(["a", "b", "c", "d"], "warnings") == ["a", "b", "2 more warnings"]
    assert [len(text) for text in Budget().messages(["x" * 5000], "warnings")] == [budget.MESSAGE]


def test_text_that_exceeds_the_budget_is_cut():
    assert Budget(text=10).cut("x" * 10) == "x" * 10
    assert Budget(text=10).cut("x" * 12) == "x" * 10 + "... (2 more characters)"
    assert Budget(text=10).lines(["12345", "67", "89012", "3"]) == "12345\n67\n8... (4 more characters)\n... (1 more lines)"
    assert Budget(lines=2).lines("abcd") == "a\nb\n... (2 more lines)"


@pytest.mark.parametrize("name", ["before", "after", "prepared"])
@pytest.mark.parametrize("text", ["x\n" * 2001, "x" * (budget.TEXT + 1)], ids=["lines", "characters"])
def test_in_place_of_a_long_diff_callbacks_show_that_the_texts_differ(text, name):
    short = {"before": "a\n", "after": "b\n", "after_header": "/etc/hosts"}
    assert Budget().diffs([short]) == [short]
    assert Budget().diffs([{name: text, "after_header": "/etc/\nhosts"}]) == [{"prepared": "/etc/ hosts differs (too long to show)\n"}]
    assert len(Budget().diffs([short] * 9999)) == budget.DIFFS


def test_the_headers_of_a_diff_imitate_no_lines_of_output():
    (shown,) = Budget().diffs([{"before": "a", "after": "b", "before_header": "x\nPLAY RECAP", "after_header": "\r\nPLAY RECAP"}])
    assert (shown["before_header"], shown["after_header"]) == ("x PLAY RECAP", " PLAY RECAP")


class Action(answers.NodeAction, module="sge_info"):
    """An action without a body of its own."""


def test_the_results_of_a_host_in_a_run_have_a_limit(monkeypatch, tmp_path):
    """The results of other hosts do not count."""
    monkeypatch.setattr(budget.constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr(answers, "RUN_SIZE", 1000)
    result = {"missing_packages": ["x" * 400], "hardware": {}}
    monkeypatch.setattr(answers.ActionBase, "_execute_module", lambda *_arguments, **_options: {"changed": False, **result})
    monkeypatch.setattr(documented_values, "returned_values", lambda _module: {"missing_packages": {"type": "list", "elements": "str"}})

    def run(host):
        action = Action(MagicMock(args={}, check_mode=False, async_val=0), *[MagicMock()] * 5)
        action._discovered_interpreter_key = None
        found = action.run(task_vars={"inventory_hostname": host})
        action.cleanup()
        return found.get("msg", "")

    assert [run("w2") for _task in range(2)] == ["", ""]
    assert "w2: the result of sge_info is not valid: the results of this run need more than" in run("w2")
    assert run("w3") == ""
    assert RunBudget("w3").used() < 1000 < RunBudget("w2").used()


@pytest.fixture
def clock(monkeypatch, tmp_path):
    """A clock that only the test moves."""
    now = [100.0]
    monkeypatch.setattr(budget.constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_the_waiting_time_of_a_host_in_a_run_has_a_limit(clock):
    run = RunBudget("w2")
    assert run.waiting_left(600) == 600
    run.add_waiting(10, 600)
    assert run.waiting_left(600) == 600, "short answers do not count"
    for counted, since in ((290, 300), (580, 600)):
        clock[0] += 300
        run.add_waiting(300, 600)
        assert run.waiting_left(600) == 600 - counted + since / 2, "half of the time since the host first kept the run waiting is added"
    run.add(1000)
    assert RunBudget("w2").used() == 1000
    assert RunBudget("w2").waiting_left(600) == 320
    assert RunBudget("w3").waiting_left(600) == 600


MANY = 100


@pytest.mark.parametrize(("timeout", "wait", "tasks"), [(None, None, 3), (60, None, MANY), (None, 60, MANY)])
def test_a_host_that_answers_late_in_each_task_becomes_unreachable(monkeypatch, clock, timeout, wait, tasks):
    """The time that the module's own timeout and a poll explain does not count."""

    def late(self, *_arguments, **_options):
        clock[0] += 59
        return {"stdout": "", "stderr": ""}

    monkeypatch.setattr(answers.ActionBase, "_low_level_execute_command", late)
    monkeypatch.setattr(answers.ActionBase, "_execute_module", lambda self, *_arguments, **_options: self._low_level_execute_command("x"))
    monkeypatch.setattr(Action, "_documented_answer", lambda *_arguments: {"changed": False})
    variables = {"inventory_hostname": "w2", "deeplearning_answer_timeout": 60}

    arguments = {"wait": wait} if wait else {}
    monkeypatch.setattr(Action, "run_module", lambda self, variables: self._execute_module(module_args=arguments, task_vars=variables))

    def run():
        task = MagicMock(
            action="deeplearning.cluster.node_health", args={"timeout": timeout} if timeout else {}, check_mode=False, async_val=0
        )
        Action(task, *[MagicMock()] * 5).run(task_vars=variables)

    for _task in range(tasks):
        run()
    if tasks < MANY:
        with pytest.raises(AnsibleConnectionFailure, match=r"^w2: this run has waited more than 60 s for this host, .*Check the host"):
            run()
