# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Waits for a job through one of its hosts and shows its progress meanwhile."""

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records, text

display = Display()

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "directory": {"type": "path", "required": True},
    "heartbeat_timeout": {"type": "int", "default": 60},
}

# The host answers earlier when there is something new.
LOOK_SECONDS = 10

# Between two looks, so that a script that reports many times a second does not keep the controller busy.
PAUSE_SECONDS = 1.0


class ActionModule(ActionBase):
    """One task: look at the job again and again until it is over."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        result["changed"] = False
        if self._task.check_mode:
            return result
        validation = ArgumentSpecValidator(ARGUMENTS).validate(self._task.args)
        if validation.error_messages:
            raise AnsibleActionFail("; ".join(validation.error_messages))
        self._arguments = validation.validated_parameters
        self._variables = task_vars or {}
        self._metrics: dict[str, Any] = {}
        self._offset = 0
        self._announced = False
        found = self._wait()
        lines = text.summary(found, self._metrics)
        for line in lines:
            display.display(line)
        result.update(job=found, metrics=self._metrics, summary=lines)
        if found["state"] != records.SUCCEEDED:
            result.update(failed=True, msg=text.failure_message(found))
        return result

    def _wait(self) -> dict[str, Any]:
        """Return the job when it is over. Raises AnsibleActionFail when it never began or cannot be seen any more."""
        timeout = self._arguments["heartbeat_timeout"]
        began = seen = time.monotonic()
        while True:
            now = time.monotonic()
            try:
                found = self._look(LOOK_SECONDS)
                seen = now
            except AnsibleConnectionFailure as error:
                if now - seen > timeout:
                    # Perhaps it is the controller that lost its network: that must not end a training that goes on without it.
                    raise AnsibleActionFail(
                        f"the host that shows the job has been out of reach for {timeout} s: {error}. "
                        "Nothing was stopped; run the same again to wait for the job again",
                        result={"out_of_reach": True},
                    ) from error
                display.warning(f"cannot look at job {self._arguments['name']}, trying again: {error}")
                time.sleep(PAUSE_SECONDS)
                continue
            if found["state"] not in (records.PENDING, records.RUNNING):
                return self._settle(found)
            missing = missing_ranks(found)
            if missing and now - began > timeout:
                raise AnsibleActionFail(f"job {found['name']}: {missing} of its processes started but never recorded anything")
            time.sleep(max(0.0, PAUSE_SECONDS - (time.monotonic() - now)))

    def _settle(self, found: dict[str, Any]) -> dict[str, Any]:
        """Look once more at a job that failed: an earlier failure may have been recorded a moment later."""
        if found["state"] == records.SUCCEEDED:
            return found
        time.sleep(PAUSE_SECONDS)
        return self._look(0)

    def _look(self, wait: int) -> dict[str, Any]:
        """Return the job as its host sees it now, and show what it has reported since the last look."""
        answer = self._execute_module(
            "deeplearning.cluster.training_job_info",
            module_args={**self._arguments, "progress_offset": self._offset, "wait": wait},
            task_vars=self._variables,
        )
        if answer.get("failed"):
            raise AnsibleActionFail(answer.get("msg", "training_job_info failed"), result=answer)
        found: dict[str, Any] = answer["jobs"][0]
        progress = found.pop("progress")
        self._offset = found.pop("progress_offset")
        if found["processes"] and not self._announced:
            self._announced = True
            self._announce(found)
        for entry in progress:
            self._metrics.update(entry)
        if progress:
            display.display(f"{found['name']}: {text.progress_line(progress[-1])}")
        return found

    def _announce(self, found: dict[str, Any]) -> None:
        display.display(
            f"{found['name']}: {found['process_count']} processes, logs in {records.Paths(found['directory']).logs}; "
            "interrupting Ansible leaves the job running"
        )


def missing_ranks(found: dict[str, Any]) -> int:
    """Return how many processes of the job have not recorded anything yet."""
    return max(1, found["process_count"]) - len(found["processes"])
