"""Tests of reading the result of a module."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import module_output

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
    text, found = module_output.own_result(json.dumps(document))
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
    text, _warnings = module_output.own_result(json.dumps({"failed": True, "exception": exception}))
    message = json.loads(text)["msg"]
    assert message.startswith(f"the module ended with an unexpected error: {reason}")
    assert len(message) < 1000
    assert "\x1b" not in message
    assert json.loads(module_output.own_result(json.dumps({"failed": True, "msg": "m", "exception": exception}))[0])["msg"] == "m"


@pytest.mark.parametrize(("before", "after"), [("a banner\n  ", ""), ("", "\njunk\x1b[2J"), ("a banner\n", "junk")])
def test_other_output_is_dropped_with_one_short_warning(before, after):
    text, (warning,) = module_output.own_result(f'{before}{{"changed": true}}{after * 1000}')
    assert json.loads(text) == {"changed": True}
    assert re.match(r"the output has \d+ characters besides the result: '(a banner|junk)", warning)
    assert len(warning) < 250
    assert "\x1b" not in warning


@pytest.mark.parametrize("text", ["", "no result\nsudo: a password is required", '{"warnings": ["x"]', '{"a": ' * 100_000, "[1]"])
def test_a_response_without_a_result_stays_as_it_is(text):
    assert module_output.own_result(text) == (text, [])


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
        module_output.own_result(json.dumps(document))
