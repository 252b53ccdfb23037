# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Implements one run of the `node_setup` module on a host: starts the steps in a systemd unit, or waits until the unit ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from typing import Any, Mapping, Sequence

from ansible.module_utils.basic import AnsibleModule

from ..._common.node_setup import records
from ..._files import read_object, replace_file
from ..._secret_forms import forms
from ..._text import clean_line
from .. import programs
from ..services import wait_until
from ..transient_units import TransientUnit, UnitError, exclusive, unit_state
from . import runner

UNIT = "deeplearning-node-setup.service"
# This directory is in /run, which is an in-memory file system, because the description of the steps contains secrets.
RUNTIME = "/run/deeplearning-node-setup"
PROGRESS, LOCK = os.path.join(RUNTIME, "progress.json"), os.path.join(RUNTIME, "lock")
POLL = 0.5
STOP_SECONDS = 10

SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "steps": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "name": {"type": "str"},
                "packages": {"type": "list", "elements": "str"},
                "script": {"type": "str"},
                "sha256": {"type": "str"},
                "arguments": {"type": "list", "elements": "str", "default": []},
                "command": {"type": "raw"},
                "repository": {"type": "str"},
                "version": {"type": "str", "default": ""},
                "path": {"type": "path"},
                "environment": {"type": "dict", "default": {}},
                "secrets": {"type": "dict", "default": {}, "no_log": True},
                "timeout": {"type": "int", "default": 1800},
                "user": {"type": "str", "default": "root"},
                "only": {"type": "str", "choices": ["all", "master", "workers"], "default": "all"},
                "number": {"type": "int"},
                "kind": {"type": "str"},
                "digest": {"type": "str"},
                "content": {"type": "str"},
            },
        },
        "state": {"type": "str", "choices": ["checked", "started", "present"], "default": "present"},
        "region": {"type": "str"},
        "attempt": {"type": "str"},
        "wait": {"type": "int", "default": 5},
    }
}


class SetupError(Exception):
    """The steps cannot be run, or one of them has failed. The message states the remedy."""


def ensure(module: AnsibleModule) -> dict[str, Any]:
    """Start the set-up steps that have not succeeded, or wait for the steps that are running. Raises SetupError if a step has failed."""
    try:
        return _ensure(module)
    except UnitError as error:
        # Only the message about another run that holds the lock is a sentence, with its own advice
        raise SetupError(str(error) if str(error).endswith(".") else f"{error}. Check systemd on this host.") from None


def _ensure(module: AnsibleModule) -> dict[str, Any]:
    steps, attempt = module.params["steps"], module.params["attempt"]
    if module.params["state"] == "checked":
        return {"changed": False, "finished": True, "ran": []}
    if not attempt:
        raise SetupError("Run the module through its action plugin, which sets the option attempt.")
    if module.check_mode:
        return predict(steps)
    make_directory(RUNTIME, 0o700)
    with exclusive(LOCK):
        known = read_object(PROGRESS)
        if known.get("attempt") != attempt and not is_running(module):
            waiting = unfinished(steps)
            if not waiting:
                return {"changed": False, "finished": True, "ran": []}
            start(module, waiting)
            known = read_object(PROGRESS)
    ended = wait_until(lambda: not is_running(module), module.params["wait"], POLL)
    if not ended or known.get("attempt") != attempt:
        return {"changed": False, "finished": False, "progress": progress()}
    for step in unfinished(steps):
        raise SetupError(describe_failure(step, read_object(records.record_path(step["digest"]))))
    return {"changed": True, "finished": True, "ran": [step["name"] for step in steps if step["digest"] in known["digests"]]}


def predict(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = [step["name"] for step in unfinished(steps)]
    header = "set-up steps to run"
    diff = {"before_header": header, "after_header": header, "before": "", "after": "".join(f"{name}\n" for name in names)}
    return {"changed": bool(names), "finished": True, "ran": names, "diff": [diff] if names else []}


def unfinished(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [step for step in steps if not records.has_succeeded(read_object(records.record_path(step["digest"])))]


def make_directory(path: str, mode: int) -> None:
    os.makedirs(path, exist_ok=True)
    os.chmod(path, mode)


def is_running(module: AnsibleModule) -> bool:
    """Return whether the unit is active. Raises UnitError."""
    return unit_state(module.run_command, UNIT) == "active"


def start(module: AnsibleModule, steps: Sequence[Mapping[str, Any]]) -> None:
    """Start the unit that runs the steps. Raises UnitError."""
    shutil.rmtree(records.WORK, ignore_errors=True)
    for path, mode in ((records.STATE, 0o711), (records.RECORDS, 0o700), (records.WORK, 0o711), (records.LOGS, 0o700)):
        make_directory(path, mode)
    for step in steps:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(records.record_path(step["digest"]))
    attempt, region = module.params["attempt"], module.params["region"] or ""
    steps = [{**step, "hidden": forms(step["secrets"].values())} for step in steps]
    spec = runner.SetupSpec(steps, attempt, region, records.RECORDS, records.LOGS, records.WORK, PROGRESS)
    program, description = os.path.join(RUNTIME, "runner.zip"), os.path.join(RUNTIME, "steps.json")
    replace_file(program, programs.build("_hosts.node_setup.runner"))
    runner.write_progress(spec, steps[0])
    runner.write_json(description, spec._asdict())
    command = [sys.executable, "-I", program, description]
    unit = TransientUnit(UNIT, "Set-up steps of deeplearning.cluster", command, [f"TimeoutStopSec={STOP_SECONDS}"])
    try:
        unit.start(module.run_command)
    except UnitError:
        os.unlink(description)
        raise


def progress() -> dict[str, int]:
    """Return the number of the step that is running and the number of seconds since it began."""
    found = read_object(PROGRESS)
    return {"number": int(found.get("number", 0)), "seconds": int(time.time() - found.get("started", time.time()))}


def describe_failure(step: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    subject = f"Step {step['number']} ({step['name']})"
    if record.get("state") != "failed":
        return (
            f"{subject} was interrupted before it ended, perhaps because the host restarted. Run the playbook again to continue with this "
            f"step. For details, run journalctl -u {UNIT} on this host."
        )
    told = f"{subject} failed: {record['reason']}. Correct the step or the host, and run the playbook again to continue with this step."
    tail = [f"  {clean_line(line)}" for line in record.get("tail", [])]
    where = f"The log is {record['log']} on this host"
    return "\n".join([f"{told} {where} and ends with:", *tail]) if tail else f"{told} {where} and is empty."
