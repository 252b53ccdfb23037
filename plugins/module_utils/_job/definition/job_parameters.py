# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The parameters of the `training_job` module, and the checks that do not need a host."""

from __future__ import annotations

import os
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..._launchers.base import Launcher
from ..._launchers.registry import LAUNCHERS
from ..._queues.registry import QUEUES
from .. import naming
from .options import OPTIONS
from .refusal import RefusalError

SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "state": {
            "type": "str",
            "choices": ["checked", "prepared", "printed", "queued", "started", "stopped", "submitted"],
            "default": "started",
        },
        "key": {"type": "str", "no_log": True},
        **{option.name: dict(option.spec) for option in OPTIONS},
        "hosts": {
            "type": "list",
            "elements": "dict",
            "options": {
                "name": {"type": "str", "required": True},
                "address": {"type": "str", "required": True},
                "number": {"type": "int", "required": True},
                "gpus": {"type": "list", "elements": "int", "required": True},
                "interface": {"type": "str", "required": True},
                "efa": {"type": "bool", "default": False},
            },
        },
        "queue_hosts": {"type": "list", "elements": "str"},
        "on_first_host": {"type": "bool", "default": False},
        "printed": {"type": "bool", "default": False},
        "metadata_directory": {"type": "path", "default": "/opt/deeplearning"},
        "generation": {"type": "str"},
        "setup_steps": {"type": "list", "elements": "dict", "default": [], "no_log": True},
        "setup_digests": {"type": "dict", "default": {}},
        "efa": {"type": "bool"},
        "instance_type": {"type": "str", "default": ""},
        "efa_devices": {"type": "int", "default": 0},
        "cluster": {"type": "str", "default": ""},
        "instance_id": {"type": "str"},
        "capacity_end": {"type": "float"},
        "attempt": {"type": "int", "default": 1},
        "cost_limit": {"type": "dict", "default": {}},
        "earlier_node_seconds": {"type": "float", "default": 0},
        "planned_hosts": {"type": "int", "default": 0},
        "dest": {"type": "path"},
        "archive": {"type": "path"},
        "code": {"type": "dict", "default": {}},
    },
    "mutually_exclusive": [("source", "repository")],
    "required_if": [
        ("state", "prepared", ("directory",)),
        ("state", "printed", ("directory", "hosts")),
        ("state", "queued", ("directory", "hosts", "queue")),
        ("state", "started", ("directory", "hosts")),
        ("state", "submitted", ("directory", "hosts", "queue")),
    ],
}

# Options of torchrun, mpirun and deepspeed, each with the variable of the job that has the same effect.
OWN_OPTIONS = {
    **dict.fromkeys(("nproc_per_node", "npernode", "num_gpus", "slots_per_host"), "training_job_processes_per_host"),
    **dict.fromkeys(("nnodes", "num_nodes", "hostfile"), "training_job_hosts"),
}

# The minimum hang timeout, in seconds. It is longer than the delay with which supervisors report activity.
HANG_TIMEOUT_MIN = 30


def check(params: dict[str, Any]) -> None:
    """Run the checks that do not need a host, and add defaults to the launcher's options. Raises RefusalError or ValueError."""
    naming.check_name(params["name"])
    if params["resume"]:
        naming.check_name(params["resume"], "resume")
    if not (params["script"] or params["command"]):
        raise RefusalError("script: missing. Specify the training script, or a command.")
    if params["metrics_directory"] and not os.path.isabs(params["metrics_directory"]):
        raise RefusalError("metrics_directory: {!r} is not an absolute path. Use an absolute path.".format(params["metrics_directory"]))
    for option in OPTIONS:
        if option.spec["type"] == "int" and params[option.name] < 0:
            raise RefusalError(f"{option.name}: {params[option.name]} is negative. Use 0 or more.")
    check_restarts(params)
    check_queue(params["queue"], params["host_count"], params["spares"], reboot=params["reboot"])
    check_tasks(params["environment_by_task"], params, find_launcher(params))


def check_restarts(params: dict[str, Any]) -> None:
    """Raise RefusalError unless the options for restarts and hangs are valid and do not contradict each other."""
    if 0 < params["hang_timeout"] < HANG_TIMEOUT_MIN:
        # Supervisors report every few seconds that their processes are active.
        raise RefusalError(
            "hang_timeout: {} s is too short. Specify at least {} s, or 0 to disable the check.".format(
                params["hang_timeout"], HANG_TIMEOUT_MIN
            )
        )
    stop, restart = params["stop_exit_codes"], params["restart_exit_codes"]
    for option, codes in (("stop_exit_codes", stop), ("restart_exit_codes", restart)):
        for code in codes:
            if not 1 <= code <= 255:
                raise RefusalError(f"{option}: {code} is not the exit status of a failed process. Use 1 to 255.")
    both = sorted(set(stop) & set(restart))
    if both:
        raise RefusalError(f"restart_exit_codes: {both[0]} is also in stop_exit_codes. Remove the exit code from one of the two options.")


def check_queue(queue: str | None, count: int, spares: int = 0, *, reboot: bool = False) -> None:
    """Raise RefusalError unless the options for the queue are valid."""
    if queue and queue not in QUEUES:
        raise RefusalError("queue: {!r} is unknown. Use one of {}.".format(queue, ", ".join(sorted(QUEUES))))
    if count < 0:
        raise RefusalError(f"host_count: {count} is negative. Use 0 or more.")
    if count and not queue:
        raise RefusalError(f"host_count: {count} has no effect without a queue. Set queue, or remove this option.")
    if queue and spares:
        raise RefusalError(
            f"spares: {spares} is not possible with queue {queue!r}, because a job uses all hosts that the queue allocates."
            " Set spares to 0, or start the job without a queue."
        )
    if queue and reboot:
        raise RefusalError(
            f"reboot: true is not possible with queue {queue!r}, because the queue may run other jobs on the hosts. Set reboot to false, or"
            " start the job without a queue."
        )


def find_launcher(params: dict[str, Any]) -> Launcher:
    """Return the launcher, and add defaults to its options. Raises RefusalError for an unknown launcher or option."""
    name = params["launcher"]
    if name not in LAUNCHERS:
        raise RefusalError("launcher: {!r} is unknown. Use one of {}.".format(name, ", ".join(sorted(LAUNCHERS))))
    given, known = params["launcher_options"], LAUNCHERS[name].options
    problems = [_unknown(name, option) for option in sorted(given.keys() - known.keys())]
    if problems:
        problems.append(f"The options of {name} are {', '.join(sorted(known))}." if known else f"{name} has no options.")
    validation = ArgumentSpecValidator(dict(known)).validate({option: value for option, value in given.items() if option in known})
    problems += [f"{message.rstrip('.')}." for message in validation.error_messages]
    if problems:
        raise RefusalError("launcher_options: " + " ".join(problems))
    params["launcher_options"] = validation.validated_parameters
    return LAUNCHERS[name]


def _unknown(launcher: str, option: str) -> str:
    own = OWN_OPTIONS.get(option.replace("-", "_"))
    return f"{launcher} has no option {option!r}. " + (f"Set {own} in its place." if own else "Remove it.")


def check_tasks(environments: dict[str, Any], params: dict[str, Any], launcher: Launcher) -> None:
    """Raise RefusalError unless the keys of `environments` are task types that the launcher starts with its options."""
    name, tasks = params["launcher"], sorted(launcher.tasks(params["launcher_options"]))
    for task, variables in environments.items():
        if not tasks:
            raise RefusalError(f"environment_by_task: launcher {name!r} has no task types. Use the option environment instead.")
        if task not in tasks:
            raise RefusalError(
                f"environment_by_task: launcher {name!r} starts no tasks of type {task!r} with these options. Use {', '.join(tasks)}."
            )
        if not isinstance(variables, dict):
            raise RefusalError(f"environment_by_task: the value of {task!r} is not a dictionary. Specify variables and their values.")
