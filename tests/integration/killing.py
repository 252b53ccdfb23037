"""Runs modules in separate processes, which a test can kill at an API call."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import killing

from .conftest import MODULES


def start(options, module="cluster"):
    """Start the module in a separate process, which can be killed."""
    arguments = json.dumps({"ANSIBLE_MODULE_ARGS": {**options, "_ansible_remote_tmp": "/tmp"}})
    code = (
        "import sys; from unittest.mock import patch; from ansible.module_utils import basic; "
        f"basic._ANSIBLE_ARGS = sys.argv[1].encode(); basic._ANSIBLE_PROFILE = 'legacy'; import {MODULES}.{module} as module; module.main()"
    )
    return subprocess.Popen([sys.executable, "-c", code, arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ)


def kill_at(cloud, options, stage, module="cluster", **call):
    """Kill a run of a module at a write call, before or after AWS has executed the call. Return whether the run reached the call."""
    return killing.kill_at(cloud, lambda: start(options, module), stage, **call)
