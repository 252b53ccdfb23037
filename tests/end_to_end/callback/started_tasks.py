"""Writes the names of the tasks that a run starts on each host, skipped ones included, to the file STARTED_TASKS."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: started_tasks
type: aggregate
short_description: Write the names of started tasks
description: [Write the names of the tasks that a run starts on each host, skipped ones included.]
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "started_tasks"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        self._names = defaultdict(list)

    def v2_runner_on_start(self, host, task):
        self._names[host.name].append(task.get_name())

    def v2_playbook_on_stats(self, stats):
        Path(os.environ["STARTED_TASKS"]).write_text(json.dumps(self._names))
