# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads a job's logs through one of the job's hosts, and shows the logs. If `follow` is true, shows new log lines until the job is over."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.utils.display import Display
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.answers import NodeAction
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.job_watch import JobWatch, polls_through

display = Display()

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

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        result["changed"] = False
        validation = ArgumentSpecValidator(ARGUMENTS).validate(self._task.args)
        if validation.error_messages:
            raise AnsibleActionFail("; ".join(validation.error_messages))
        given = validation.validated_parameters
        follow = given["follow"] and not self._task.check_mode
        arguments = {
            **{key: given[key] for key in ("name", "directory", "heartbeat_timeout")},
            "log_lines": given["lines"],
            "log_process": given["process"],
            "attempt": given["attempt"],
        }
        watch = JobWatch(polls_through(self, task_vars), arguments, "the job continues if Ansible is interrupted" if follow else "")
        with self.reading(task_vars):
            found = watch.follow() if follow else watch.poll()
            display.display(found["lines"][0])
        return {**result, "job": found}
