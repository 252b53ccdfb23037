# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Polls a job through one of its hosts until the job is over, and shows the job's progress."""

from __future__ import annotations

from functools import partial
from typing import Any

from ansible.errors import AnsibleActionFail, AnsiblePromptInterrupt, AnsiblePromptNoninteractive
from ansible.utils.display import Display

from ..module_utils._job import state_names
from ..module_utils._job.goodput import ENDED
from ..plugin_utils import job_formatting
from ..plugin_utils.answers import NodeAction
from ..plugin_utils.budget import Budget
from ..plugin_utils.inventory_nodes import place_of
from ..plugin_utils.job_metrics import JobMetrics
from ..plugin_utils.job_watch import JobWatch, polls_through
from ..plugin_utils.keyboard import interrupts
from ..plugin_utils.notifications import Notifications
from ..plugin_utils.output import show
from ..plugin_utils.suggested_commands import continuing_command, playbook_command

display = Display()

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "directory": {"type": "path", "required": True},
    "heartbeat_timeout": {"type": "int", "default": 60},
    "show_logs": {"type": "bool", "default": False},
    "metrics_directory": {"type": "path"},
}

STOP, LEAVE = "stop", "leave"

# Number of lines to show from the end of each log if the job has already been running for a while.
LOG_LINES = 100

# Seconds to wait for the user's answer. Without an answer, the task then continues to wait for the job, because later tasks need the job's
# result.
ANSWER_SECONDS = 60


class ActionModule(NodeAction, module="training_job_info"):
    """Polls the job until it is over."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        if self._task.check_mode:
            return {"changed": False}
        _validation, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        if arguments.pop("show_logs"):
            arguments["log_lines"] = LOG_LINES
        directory = arguments.pop("metrics_directory")
        file = JobMetrics(directory, arguments["name"], place_of(variables)) if directory else None
        question = Question(arguments["name"])
        with interrupts(question.ask) as asking:
            hint = (
                "press Ctrl-C to choose whether to stop the job or leave it running"
                if asking
                else "the job continues if Ansible is interrupted"
            )
            notify = partial(Notifications(self, variables).send, job=arguments["name"])
            polled = {**arguments, "goodput": ENDED}
            watch = JobWatch(polls_through(self, variables), polled, hint, file, is_on_host=True, notify=notify)
            try:
                with self.reading(variables):
                    found = watch.follow(lambda: bool(question.answer))
            except AnsibleActionFail as error:
                # The role's failed_when needs a result instead of an exception. Otherwise, the role could not stop the job's remaining
                # processes. In ansible-core 2.21, the exception's result does not contain `failed` and `msg`.
                return {"changed": False, **error.result, "failed": True, "msg": error.message}
        result = {"changed": False, "job": found, "metrics": watch.metrics}
        if not state_names.is_over(found["state"]):
            return {**result, **interrupted(found["name"], question.answer)}
        with self.reading(variables):
            lines = job_formatting.summary(found, watch.metrics)
            if found["state"] != state_names.SUCCEEDED:
                message = job_formatting.failure_message(found, playbook_command, continuing_command(found["name"]))
                result.update(failed=True, msg=message)
        show(Budget().lines(lines))
        return {**result, "summary": lines}


class Question:
    """The prompt that appears after Ctrl-C. `answer` is empty until the user chooses whether to stop the job or leave it running."""

    def __init__(self, name: str) -> None:
        self.answer = ""
        self._text = f"{name}: type s to stop the job or l to leave it running, then press Enter. To continue watching, press only Enter:"

    def ask(self) -> None:
        while not self.answer:
            try:
                typed = display.prompt_until(self._text, seconds=ANSWER_SECONDS).decode("utf-8", "replace").strip().lower()
            except AnsiblePromptInterrupt:
                typed = "l"
            except AnsiblePromptNoninteractive:
                return
            if not typed:
                return
            self.answer = {"s": STOP, "l": LEAVE}.get(typed[0], "")


def interrupted(name: str, answer: str) -> dict[str, Any]:
    """Return the task's result if the wait ended before the job was over."""
    if answer == STOP:
        return {"interrupted": answer, "failed": True, "msg": f"Job {name} will be stopped, as requested with Ctrl-C."}
    again, stop = (f"{playbook_command(each)} -e training_job_name={name}" for each in ("logs", "stop"))
    message = f"Job {name} continues.\nTo watch it: {again} -e follow=true\nTo stop it: {stop}"
    show(message)
    return {"interrupted": answer, "msg": message}
