# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Shows what the module of the same name tells while it waits for nodes."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.spelling import warn_of_misspellings

display = Display()

PAUSE_SECONDS = 0.5


class ActionModule(ActionBase):
    """Runs the module and shows the lines of its progress file as they come. Only a module on the controller can be watched."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        warn_of_misspellings(task_vars or {})
        module, arguments = self._task.action, dict(self._task.args)
        if self._connection.transport != "local" or arguments.get("progress_file"):
            return {**result, **self._execute_module(module, module_args=arguments, task_vars=task_vars)}
        with tempfile.NamedTemporaryFile("r", encoding="utf-8", prefix="deeplearning-") as file:
            arguments["progress_file"] = file.name
            watch = Watch(file.fileno())
            watch.start()
            try:
                return {**result, **self._execute_module(module, module_args=arguments, task_vars=task_vars)}
            finally:
                watch.stop()


class Watch(threading.Thread):
    """Displays the lines that are appended to an open file until it is stopped."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._descriptor, self._rest = descriptor, b""
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(PAUSE_SECONDS):
            self._show()
        self._show()

    def stop(self) -> None:
        """Show what has come since, and end."""
        self._over.set()
        self.join()

    def _show(self) -> None:
        *lines, self._rest = (self._rest + os.read(self._descriptor, 1 << 16)).split(b"\n")
        for line in lines:
            display.display(line.decode(errors="replace"))
