# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Shows what a module on the controller tells while it waits for AWS."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()

PAUSE_SECONDS = 0.5


def execute_watched(action: ActionBase, task_vars: dict[str, Any] | None) -> dict[str, Any]:
    """Run the module of the action's name and show the lines of its progress file as they come. Elsewhere than here it is just run."""
    module, arguments = action._task.action, dict(action._task.args)
    if action._connection.transport != "local" or arguments.get("progress_file"):
        return dict(action._execute_module(module, module_args=arguments, task_vars=task_vars))
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", prefix="deeplearning-") as file:
        arguments["progress_file"] = file.name
        watch = Watch(file.fileno())
        watch.start()
        try:
            return dict(action._execute_module(module, module_args=arguments, task_vars=task_vars))
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
