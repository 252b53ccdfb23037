# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs a module repeatedly until its background work on a node has finished, and shows the progress of that work."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from .answers import NodeAction
from .output import ProgressLine, show

SHOW_SECONDS = 10.0
# Seconds between two polls, in addition to the module's own wait, which a faulty host may skip.
PAUSE = 1.0
# Maximum number of seconds to wait for the background work. A faulty host can report progress forever.
TOTAL_SECONDS = 86400


def until_finished(
    action: NodeAction, arguments: dict[str, Any], task_vars: dict[str, Any], text: Callable[[Mapping[str, Any]], str]
) -> dict[str, Any]:
    """Return the module's result when its background work has finished, has failed or has taken too long.

    `text` returns the progress as a line that begins with the stage.
    All later calls pass `since` from the module's first result back to the module.
    """
    shown, shown_at, host = "", time.monotonic(), str(task_vars.get("inventory_hostname", ""))
    last, changed_at, end = None, shown_at, shown_at + TOTAL_SECONDS
    name = action._task.action.rpartition(".")[2]
    while True:
        answer: dict[str, Any] = action._execute_module(module_args=arguments, task_vars=task_vars)
        if answer.get("failed") or answer.get("finished", True):
            return answer
        if "since" in answer:
            arguments = {"since": answer["since"], **arguments}
        line, now = text(answer.get("progress") or {}), time.monotonic()
        if line and (line.split()[:1] != shown.split()[:1] or now >= shown_at + SHOW_SECONDS):
            shown, shown_at = line, now
            show(ProgressLine(f"{host}: {line}"))
        if answer.get("progress") != last:
            last, changed_at = answer.get("progress"), now
        elif now >= changed_at + action._limit:
            return {"failed": True, "msg": silence(host, name, action._limit)}
        if now >= end:
            return {"failed": True, "msg": overrun(host, name)}
        time.sleep(PAUSE)


def silence(host: str, module: str, seconds: int) -> str:
    """Return the message about a host whose reported progress no longer changes.

    While a host works, its reported progress always changes, because it contains the elapsed seconds.
    """
    return (
        f"{host}: the {module} module is still running, but its progress has not changed for {seconds} s. Check the host, "
        "or increase deeplearning_answer_timeout."
    )


def overrun(host: str, module: str) -> str:
    """Return the message about a host whose work takes too long."""
    hours = TOTAL_SECONDS // 3600
    return (
        f"{host}: the {module} module has not finished within {hours} h. The module may continue on the host. Run the playbook again to "
        "wait for the module."
    )
