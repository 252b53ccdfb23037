# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sends notifications about an event, or about the end of a job, and waits until they have been sent."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ..plugin_utils.notifications import EVENTS, TEST, Notifications, of_end

ARGUMENTS = {
    "event": {"type": "str", "choices": [*EVENTS]},
    "msg": {"type": "str", "default": ""},
    "job": {"type": "str", "default": ""},
    "note": {"type": "str", "default": ""},
    "result": {"type": "dict", "default": {}},
    "losses": {"type": "dict", "default": {}},
}


class ActionModule(ActionBase):
    """Shows a warning about each URL that receives nothing. Only a test fails because of that."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        if self._task.check_mode:
            return {**result, "skipped": True}
        notifications = Notifications(self, task_vars or {})
        event, msg, job = given["event"], given["msg"], given["job"]
        if event == TEST:
            problems = notifications.test(msg)
            return {**result, "failed": True, "msg": "\n".join(problems)} if problems else {**result, "changed": False}
        for kind, text in [(event, msg)] if event else of_end(job, msg, given["result"], given["losses"]):
            notifications.send(kind, text, job, given["note"] if EVENTS[kind].always else "")
        notifications.show_problems()
        return {**result, "changed": False}
