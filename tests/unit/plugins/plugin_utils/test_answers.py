# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of actions on nodes. tests/security contains the tests of what nodes can return."""

from __future__ import annotations

import json
import re
from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import answers


class Action(answers.NodeAction, module="sge_info"):
    """An action without a body of its own."""


def test_garbage_collections_of_an_action_skip_the_objects_of_the_main_process(monkeypatch):
    calls = []
    monkeypatch.setattr(answers.gc, "freeze", lambda: calls.append("freeze"))
    Action(MagicMock(args={}, check_mode=False, async_val=0), *[MagicMock()] * 5).run(task_vars={})
    assert calls == ["freeze"]


def test_no_garbage_is_collected_while_a_module_is_packed(monkeypatch):
    """A task can run a module many times, so garbage is collected between the runs."""

    def execute(*_arguments, **_options):
        assert not answers.gc.isenabled()
        raise MemoryError

    monkeypatch.setattr(answers.ActionBase, "_execute_module", execute)
    action = Action(MagicMock(args={}, check_mode=False, async_val=0), *[MagicMock()] * 5)
    assert "more than 1024 MiB of memory" in action._execute_module("deeplearning.cluster.sge_info", task_vars={})["msg"]
    assert answers.gc.isenabled()


ESCAPE = "\x1b[2J\n"
SUMMARY = {"__ansible_type": "WarningSummary", "event": {"__ansible_type": "Event", "msg": f"a disk {ESCAPE}is full"}}


@pytest.mark.parametrize(
    ("document", "expected", "warnings"),
    [
        ({"changed": True, "msg": ESCAPE}, {"changed": True, "msg": ESCAPE}, []),
        ({"warnings": [f"old{ESCAPE}", SUMMARY], "changed": True}, {"changed": True}, ["old", "a disk is full"]),
        ({"warnings": ["x" * 2000]}, {}, ["x" * 1000]),
        ({"warnings": [f"w{number}" for number in range(30)]}, {}, [*(f"w{number}" for number in range(20)), "10 more warnings"]),
        ({"warnings": [None, 3, {"event": 4}, {"event": {"msg": 5}}]}, {}, []),
        ({"warnings": {"event": "x"}, "deprecations": [ESCAPE], "exception": ESCAPE}, {}, []),
        ({f"_ansible_{ESCAPE}": ESCAPE, "add_host": ESCAPE}, {"internal _ansible_ ": None, "internal add_host": None}, []),
    ],
    ids=["nothing", "warnings", "a long warning", "many warnings", "no warnings", "another type", "internal keys"],
)
def test_values_that_ansible_core_would_show_are_taken_out_of_a_response(document, expected, warnings):
    text, found = answers.own_result(json.dumps(document))
    assert json.loads(text) == expected
    assert found == warnings


@pytest.mark.parametrize(
    ("exception", "reason"),
    [
        ({"event": {"msg": "'hosts'", "__ansible_type": "Event"}, "__ansible_type": "ErrorSummary"}, "'hosts'"),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'hosts'\n", "KeyError: 'hosts'"),
        (f"{ESCAPE}x" * 1000, "x"),
        ({"event": 3}, "no reason given"),
        (None, "no reason given"),
    ],
)
def test_a_module_that_crashes_has_a_message(exception, reason):
    """The modules of this collection name the reason of each failure, and tasks that handle failures look at the message."""
    text, _warnings = answers.own_result(json.dumps({"failed": True, "exception": exception}))
    message = json.loads(text)["msg"]
    assert message.startswith(f"the module ended with an unexpected error: {reason}")
    assert len(message) < 1000
    assert "\x1b" not in message
    assert json.loads(answers.own_result(json.dumps({"failed": True, "msg": "m", "exception": exception}))[0])["msg"] == "m"


@pytest.mark.parametrize(("before", "after"), [("a banner\n  ", ""), ("", "\njunk\x1b[2J"), ("a banner\n", "junk")])
def test_other_output_is_dropped_with_one_short_warning(before, after):
    text, (warning,) = answers.own_result(f'{before}{{"changed": true}}{after * 1000}')
    assert json.loads(text) == {"changed": True}
    assert re.match(r"the output has \d+ characters besides the result: '(a banner|junk)", warning)
    assert len(warning) < 250
    assert "\x1b" not in warning


@pytest.mark.parametrize("text", ["", "no result\nsudo: a password is required", '{"warnings": ["x"]', '{"a": ' * 100_000, "[1]"])
def test_a_response_without_a_result_stays_as_it_is(text):
    assert answers.own_result(text) == (text, [])


@pytest.mark.parametrize(
    "document",
    [
        {"failed": ESCAPE},
        {"changed": [ESCAPE]},
        {"rc": {ESCAPE: 1}},
        {"ansible_facts": ESCAPE},
        {"__ansible_type": "_AnsibleTaggedDict", "value": {f"_ansible_{ESCAPE}": ESCAPE}, "tags": []},
    ],
)
def test_a_response_whose_values_ansible_core_cannot_use_is_refused(document):
    with pytest.raises(TypeError):
        answers.own_result(json.dumps(document))


@pytest.mark.parametrize(
    ("module", "values", "problem"),
    [
        ("node_health", {"time": 1e308, "findings": [], "exclusions": []}, "time is 1e+308, which is not between 0 and 2.53402e+11"),
        ("node_health", {"time": -1.0, "findings": [], "exclusions": []}, "time is -1, which is not between"),
        ("sge_info", {"cpus": -1}, "cpus is -1, which is not between"),
        (
            "training_job_cleanup",
            {"kept": [{"name": "FAILED: x", "reason": "x"}]},
            "kept[0].name is 'FAILED: x', which is not a valid name",
        ),
        ("training_job_cleanup", {"kept": [{"name": "x" * 300, "reason": "x"}]}, "which is not a valid name"),
    ],
)
def test_numbers_and_names_that_no_host_can_have_are_refused(module, values, problem):
    found = answers.documented_part({"failed": True, **values}, f"deeplearning.cluster.{module}", "w1")
    assert problem in found["msg"]


def test_a_ratio_is_between_0_and_1():
    with pytest.raises(answers.AnswerError, match=r"ratio is 1\.5, which is not between 0 and 1"):
        answers._value(1.5, {"type": "float"}, "jobs[0].goodput.ratio")
