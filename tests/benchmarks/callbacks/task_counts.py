"""Writes how many tasks each host has had to the file in TASK_COUNTS, skipped tasks included, with the names of the tasks."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Counts the tasks that Ansible starts for each host."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "task_counts"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[str, list[str]] = defaultdict(list)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self._tasks[host.name].append(task.get_name())

    def v2_playbook_on_stats(self, _stats: Any) -> None:
        Path(os.environ["TASK_COUNTS"]).write_text(json.dumps(self._tasks))
