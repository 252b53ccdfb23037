"""Tests of the descriptions of failures."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output.failures import (
    LINES,
    failure_text,
    items_text,
    other_host,
    shortened,
    unreachable_text,
)
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.ssh_login import Login, login_advice


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"msg": "key_name: there is none"}, "key_name: there is none"),
        ({"msg": "Task failed: Action failed: script: there is none"}, "script: there is none"),
        ({"msg": "Task failed: Module failed: no disk"}, "no disk"),
        ({"msg": "Assertion failed", "assertion": "a == b"}, "Assertion failed: a == b"),
        ({"censored": "the output has been hidden", "changed": False}, "The reason is hidden, because the task sets no_log."),
        ({"msg": "non-zero return code", "rc": 2, "cmd": ["ls", "/x"], "stderr": "no such file"}, "Exit status 2 of: ls /x\nno such file"),
        ({"msg": "The command exited with a non-zero return code.", "rc": 1, "cmd": "false"}, "Exit status 1 of: false"),
        ({"msg": "no start of json", "module_stdout": "\n".join("abcdefghij")}, "no start of json\nc\nd\ne\nf\ng\nh\ni\nj"),
        ({"msg": "pip said: no match", "stderr": "no match"}, "pip said: no match"),
        (
            {
                "msg": "Validation of arguments failed:\nargument 'deeplearning_worker_count' is of type str and we were unable to convert"
                " to int: \"'three'\" cannot be converted to an int\nargument 'deeplearning_zones' is of type dict and we were"
                " unable to convert to list: <class 'dict'> cannot be converted to a list\nvalue of"
                " deeplearning_market must be one of: on-demand, spot, got: spott\nmissing required arguments: x"
            },
            "deeplearning_worker_count: 'three' has the wrong type. Specify an integer.\n"
            "deeplearning_zones: the value has the wrong type. Specify a list.\n"
            "deeplearning_market: 'spott' is not supported. Use one of on-demand, spot.\nmissing required arguments: x",
        ),
        ({"msg": "a\x1b[2Jb"}, "ab"),
        ({}, "The task returned no error message."),
    ],
)
def test_the_text_is_the_message_and_what_a_command_printed(result, text):
    assert failure_text(result) == text


def test_items_with_the_same_text_are_named_together():
    assert items_text([("a", "no disk"), ("b", "no route"), ("c", "no disk")]) == "a, c: no disk\nb: no route"
    assert items_text([]) == ""


def test_a_host_is_unreachable_in_one_line():
    said = "kex: Connection closed by remote host\r\nConnection closed by UNKNOWN port 65535"
    assert (
        unreachable_text({"msg": f"Task failed: Failed to connect to the host via ssh: {said}"})
        == "kex: Connection closed by remote host; Connection closed by UNKNOWN port 65535"
    )
    assert unreachable_text({}) == "no reason given"
    refused = "a@192.0.2.1: Permission denied (publickey)."
    advised = unreachable_text({"msg": f"{refused}\n{login_advice(refused, Login('a'))}"})
    assert advised.startswith(f"{refused} The login used user 'a' with")
    assert other_host(advised) == ""
    said = said.replace("kex", "kex_exchange_identification")
    assert unreachable_text({"msg": f"jump: timed out\n{said}.\n{login_advice(said, Login(through='jump'))}"}) == (
        "jump: timed out. SSH reaches this node through jump, and that connection was closed. "
        "Check that both are running and accept SSH connections."
    )
    assert other_host(login_advice(said, Login(through="jump"))) == "jump"


def test_of_a_long_text_the_beginning_and_the_end_are_shown():
    lines = [f"line {number}" for number in range(40)]
    found = shortened("\n".join(lines))
    assert len(found) == LINES
    assert found[0] == lines[0]
    assert found[4] == "... (23 lines omitted, use -v to show them)"
    assert found[5:] == lines[27:]
    assert shortened("\n".join(lines[:LINES])) == lines[:LINES]
