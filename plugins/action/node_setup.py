# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sends the set-up steps to a host on which some steps have not succeeded, runs the module of the same name, and shows its progress."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._common.node_setup import records
from ..module_utils._files import parse_object
from ..plugin_utils import snapshot
from ..plugin_utils.answers import NodeAction
from ..plugin_utils.output import ProgressLine, show
from ..plugin_utils.setup_steps import described, read_steps, steps_of_node

SHOW_SECONDS = 10.0
# Seconds between two polls, in addition to the module's own wait, which a faulty host may skip.
PAUSE = 1.0
NOTHING = {"changed": False, "finished": True, "ran": []}


class ActionModule(NodeAction):
    """Skips hosts on which all steps have succeeded, and runs the module repeatedly on the other hosts until their steps end."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        steps, errors = read_steps(self._task.args.get("steps"), [os.getcwd(), self._loader.get_basedir()])
        if errors:
            raise AnsibleActionFail("\n".join(errors))
        own, state, attempt = steps_of_node(steps, variables), self._task.args.get("state"), self._task.args.get("attempt")
        if not own or state == "checked" or (not attempt and self._have_succeeded(own)):
            return {**NOTHING}
        arguments = {**self._task.args, "steps": [without_none(step) for step in own], "attempt": attempt or uuid.uuid4().hex}
        if state == "started":
            answer = self._execute_module(self._module, module_args={**arguments, "wait": 0}, task_vars=variables)
            if not answer.get("failed") and not answer["finished"]:
                answer["attempt"] = arguments["attempt"]
        else:
            answer = self._follow(own, arguments, variables)
        if answer.get("failed"):
            answer["msg"] = f"{self._host}: {answer['msg']}"
        return answer

    def _have_succeeded(self, steps: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether all steps have succeeded, according to the records on the host. Records that root does not own are ignored."""
        paths = [records.record_path(step["digest"]) for step in steps]
        host = snapshot.take(self, snapshot.SUPER_USER, paths)
        found = [host.find(path) for path in paths] if host else [None]
        return all(file is not None and file.uid == 0 and records.has_succeeded(parse_object(file.content)) for file in found)

    def _follow(self, steps: Sequence[Mapping[str, Any]], arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Run the module until the steps have ended, and show which step is running."""
        shown_number, shown_at = 0, time.monotonic()
        # If this run first waits for steps that an earlier run has started, those steps can take as long as the steps of this run.
        end = shown_at + 2 * sum(step["timeout"] for step in steps) + self._limit
        while True:
            answer = self._execute_module(self._module, module_args=arguments, task_vars=variables)
            if answer.get("failed") or answer["finished"]:
                return answer
            now, progress = time.monotonic(), answer.get("progress") or {"number": 0, "seconds": 0}
            if now > end:
                return {"failed": True, "changed": False, "msg": "the set-up steps did not end within their timeouts. Check the host."}
            running = next((step for step in steps if step["number"] == progress["number"]), None)
            if running and (progress["number"] != shown_number or now >= shown_at + SHOW_SECONDS):
                shown_number, shown_at = progress["number"], now
                show(ProgressLine(f"{self._host}: set-up {described(running)}, {progress['seconds']} s"))
            time.sleep(PAUSE)


def without_none(step: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in step.items() if value is not None}
