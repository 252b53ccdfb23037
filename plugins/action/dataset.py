# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name, passes it the properties of a source path on the controller, and shows the module's progress."""

from __future__ import annotations

import re
import time
import uuid
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.source import DataError, human
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.stager import upload_facts
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.answers import NodeAction, refusal
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.progress import ProgressLine

display = Display()

SHOW_SECONDS = 10.0
# Seconds between two polls, in addition to the module's own wait, which a faulty host may skip.
PAUSE = 1.0
PLACE = re.compile(r"/[^\x00-\x1f\x7f]{0,4000}")


class ActionModule(NodeAction, module="dataset"):
    """Runs the module repeatedly until the data set is complete."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        arguments = {**self._task.args, "attempt": uuid.uuid4().hex}
        if str(arguments.get("source", "")).startswith("/"):
            try:
                arguments["upload"] = upload_facts(arguments["source"])
            except DataError as error:
                raise AnsibleActionFail(str(error)) from error
        shown, shown_at, host = "", time.monotonic(), (task_vars or {}).get("inventory_hostname", "")
        last, changed_at = None, shown_at
        while True:
            answer = self._execute_module(module_args=arguments, task_vars=task_vars)
            if answer.get("failed") or answer.get("finished", True):
                return {**result, **checked_place(answer, host)}
            line, now = text(answer.get("progress", {})), time.monotonic()
            if line and (line.split()[0] != (shown.split() or [""])[0] or now >= shown_at + SHOW_SECONDS):
                shown, shown_at = line, now
                display.display(ProgressLine(f"{host}: {line}"))
            if answer.get("progress") != last:
                last, changed_at = answer.get("progress"), now
            elif now >= changed_at + self._limit:
                return {**result, "failed": True, "msg": silence(host, self._limit)}
            time.sleep(PAUSE)


def checked_place(answer: dict[str, Any], host: str) -> dict[str, Any]:
    """Return the module result, or a failed result if the `download` value is not a path.

    rsync copies the controller's files to the directory that `download` names.
    """
    download = answer.get("download")
    if download is None or PLACE.fullmatch(download):
        return answer
    return refusal(host, "dataset", f"download is {download[:100]!r}, which is not a path")


def silence(host: str, seconds: int) -> str:
    """Return the message about a host whose reported progress no longer changes.

    While a host works, its reported progress always changes, because it contains the elapsed seconds.
    """
    return (
        f"{host}: the dataset module is still running, but its progress has not changed for {seconds} s. Check the host, "
        "or increase deeplearning_answer_timeout."
    )


def text(progress: dict[str, Any]) -> str:
    """Return the progress as readable text, or an empty string while the progress is unknown."""
    stage, done, total = progress.get("stage", ""), progress.get("done", 0), progress.get("total", 0)
    if not total:
        return f"{stage} {human(done)}" if done else stage
    if stage == "unpacking":
        return f"{stage} archive {done + 1} of {total}"
    return f"{stage} {human(done)} of {human(total)}"
