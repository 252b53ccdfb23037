"""Tests of the confirmation prompt before an action that cannot be undone."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleActionFail, AnsiblePromptInterrupt, AnsiblePromptNoninteractive
from ansible_collections.deeplearning.cluster.plugins.action import confirmation


@pytest.fixture
def confirm(monkeypatch):
    """Return a function that runs the action with an answer and returns the result and the displayed messages."""

    def run(answer, check_mode=False, **arguments):
        shown = []
        monkeypatch.setattr(confirmation.display, "display", lambda line, **_: shown.append(line))
        monkeypatch.setattr(confirmation.display, "prompt_until", MagicMock(side_effect=[answer]))
        task = MagicMock(args={"msg": "all goes", "question": "Go on?", **arguments}, check_mode=check_mode, async_val=0)
        return confirmation.ActionModule(task, *[MagicMock()] * 5).run(task_vars={}), shown

    return run


@pytest.mark.parametrize(
    ("answer", "arguments", "asked"),
    [
        (b"yes", {}, True),
        (b" YES ", {}, True),
        (AnsiblePromptNoninteractive(), {}, False),
        (b"no", {"ask": False}, False),
        (b"no", {"check_mode": True}, False),
    ],
)
def test_the_play_goes_on(confirm, answer, arguments, asked):
    result, shown = confirm(answer, **arguments)
    assert (result["asked"], result["changed"], shown) == (asked, False, ["all goes"])


def test_a_question_to_which_nobody_can_answer_is_not_asked(confirm, monkeypatch):
    """ansible-runner starts Ansible in a terminal and never answers. Before, the run waited until its time limit."""
    monkeypatch.setenv("AWX_ISOLATED_DATA_DIR", "/runner/artifacts/1")
    with pytest.raises(AnsibleActionFail, match="add the extra variable deeplearning_confirm: false"):
        confirm(b"yes")
    for arguments in ({"ask": False}, {"check_mode": True}):
        assert confirm(b"yes", **arguments)[0]["asked"] is False


@pytest.mark.parametrize(
    ("answer", "words"), [(b"no", "'no'"), (b"", "''"), (b"y", "'y'"), (b"\xff", "'\ufffd'"), (AnsiblePromptInterrupt(), "'ctrl-c'")]
)
def test_anything_but_yes_ends_it(confirm, answer, words):
    with pytest.raises(AnsibleActionFail, match=f"Nothing was changed because the answer was {words}, not 'yes'"):
        confirm(answer)
