# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Shows what a play is about to do and, on a terminal, asks whether to continue."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail, AnsiblePromptInterrupt, AnsiblePromptNoninteractive
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..plugin_utils.keyboard import is_under_runner
from ..plugin_utils.output import show

display = Display()

ARGUMENTS = {
    "msg": {"type": "str", "required": True},
    "question": {"type": "str", "required": True},
    "ask": {"type": "bool", "default": True},
}


class ActionModule(ActionBase):
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        show(given["msg"])
        asked = given["ask"] and not self._task.check_mode
        if asked and is_under_runner():
            raise AnsibleActionFail(
                "Nothing was changed, because AWX, ansible-navigator and ansible-runner cannot pass on an answer to a question. To see "
                "what the playbook would do, run it in check mode. To confirm it, add the extra variable deeplearning_confirm: false."
            )
        answer = ask(given["question"]) if asked else None
        if answer is not None and answer != "yes":
            raise AnsibleActionFail(f"Nothing was changed because the answer was {answer!r}, not 'yes'.")
        return {**result, "changed": False, "asked": answer is not None}


def ask(question: str) -> str | None:
    try:
        return str(display.prompt_until(f"{question} Type yes and press Enter to continue:").decode("utf-8", "replace").strip().lower())
    except AnsiblePromptInterrupt:
        return "ctrl-c"
    except AnsiblePromptNoninteractive:
        return None
