# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads a job's logs through one of the job's hosts, and shows the logs. If `follow` is true, shows new log lines until the job is over."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from typing import Any

from ..module_utils._job.job_status import JobStatus
from ..module_utils._job.state_names import is_over
from ..plugin_utils.answers import NodeAction
from ..plugin_utils.job_formatting import job_line
from ..plugin_utils.job_watch import POLL_SECONDS, JobWatch, Poll, polls_through
from ..plugin_utils.keyboard import interrupts
from ..plugin_utils.output import show
from ..plugin_utils.suggested_commands import playbook_command

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "directory": {"type": "path", "required": True},
    "process": {"type": "str"},
    "attempt": {"type": "int"},
    "lines": {"type": "int", "default": 100},
    "follow": {"type": "bool", "default": False},
    "heartbeat_timeout": {"type": "int", "default": 60},
}


class ActionModule(NodeAction, module="training_job_info"):
    """Shows the logs once, or polls the logs until the job is over."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        _validation, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        arguments = {
            **{key: given[key] for key in ("name", "directory", "heartbeat_timeout")},
            "log_lines": given["lines"],
            "log_process": given["process"],
            "attempt": given["attempt"],
        }
        poll = polls_through(self, variables)
        with self.reading(variables):
            is_followed = given["follow"] and not self._task.check_mode
            found = follow(poll, arguments) if is_followed else JobWatch(poll, arguments, "").poll()
            show(job_line(found))
        if is_followed and is_over(found["state"]):
            show(f"To write a report about the job, run: {playbook_command('report')} -e training_job_name={given['name']}")
        return {"changed": False, "job": found}


def follow(poll: Poll, arguments: Mapping[str, Any]) -> JobStatus:
    """Show the logs until the job is over, or until the user presses Ctrl-C. Return the last status of the job.

    If the user presses Ctrl-C again, because the host does not respond, interrupt Ansible.
    """
    pressed = threading.Event()

    def leave() -> None:
        if pressed.is_set():
            os.kill(os.getppid(), signal.SIGINT)
        else:
            pressed.set()
            show(f"{arguments['name']}: the job continues, and this run ends within {POLL_SECONDS} s; press Ctrl-C again to end it at once")

    with interrupts(leave) as listening:
        hint = "press Ctrl-C to end this run; the job continues" if listening else "the job continues if Ansible is interrupted"
        return JobWatch(poll, arguments, hint).follow(pressed.is_set)
