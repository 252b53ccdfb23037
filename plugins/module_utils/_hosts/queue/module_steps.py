# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Code that all modules for queues share: parameters, the selection of the step to run, and checks."""

from __future__ import annotations

import glob
import grp
import os
from typing import Any, Callable, Collection, Mapping, Sequence, Tuple

from ansible.module_utils.basic import AnsibleModule

from ..._words import form
from ..services import ServiceError
from .state_directory import StateDirectoryError

# The parameters that all modules for queues have.
PARAMETERS: dict[str, dict[str, Any]] = {
    "component": {"type": "str", "choices": ["controller", "node"], "required": True},
    "state_directory": {"type": "path"},
    "user": {"type": "str"},
    "groups": {"type": "list", "elements": "str", "default": []},
    "parameters": {"type": "dict", "default": {}},
    "timeout": {"type": "int", "default": 120},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}
# The parameters of each node's entry.
NODE: dict[str, dict[str, Any]] = {"name": {"type": "str", "required": True}, "address": {"type": "str", "required": True}}

# Parameters of slurm.conf and sge_conf, in lower case, whose values are programs. If a program is missing, no job starts on a host.
PROGRAMS = frozenset(
    [
        "prolog",
        "epilog",
        "prologslurmctld",
        "epilogslurmctld",
        "srunprolog",
        "srunepilog",
        "taskprolog",
        "taskepilog",
        "healthcheckprogram",
        "mailprog",
        "rebootprogram",
        "resumeprogram",
        "suspendprogram",
        "unkillablestepprogram",
        "load_sensor",
        "mailer",
    ]
)

# For each component and state: the step to run, and the parameters that must be set for this step.
Steps = Mapping[Tuple[str, str], Tuple[Callable[[AnsibleModule], None], Sequence[str]]]


def run(module: AnsibleModule, queue: str, steps: Steps) -> None:
    """Run the step for the component and state that the module's parameters specify. If the step cannot run or fails, fail the module."""
    step, needed = steps[module.params["component"], module.params["state"]]
    lacking = [name for name in needed if module.params[name] is None]
    if lacking:
        module.fail_json(msg="component: {0} requires {1}. Set them.".format(module.params["component"], ", ".join(lacking)))
    try:
        step(module)
    except (KeyError, OSError, ServiceError, StateDirectoryError, ValueError) as error:
        module.fail_json(msg=f"{queue}: {error}")


def check_controller(params: Mapping[str, Any]) -> None:
    """Raise ValueError if there are no nodes, or if a group does not exist on this host."""
    if not params["nodes"]:
        raise ValueError("nodes: the list is empty. Specify the master first, and then the other nodes.")
    for group in params["groups"]:
        try:
            grp.getgrnam(group)
        except KeyError:
            raise ValueError(f"groups: group {group!r} does not exist on this host. Specify groups that all hosts have.") from None


def check_programs(parameters: Mapping[str, str], files: Collection[str] = ()) -> None:
    """Raise ValueError if a parameter names a program that this host lacks. `files` contains the names of the files that the module writes.

    In Grid Engine, the name of a user may precede the path. In Slurm, the path may be a pattern.
    """
    for name, value in parameters.items():
        path = value.rpartition("@")[2].strip().split(" ")[0]
        if name.lower() in PROGRAMS and path.startswith("/") and os.path.basename(path) not in files and not glob.glob(path):
            raise ValueError(
                f"parameters: {name}={value}: the file does not exist on this host. Create it on all hosts, for example with a set-up step."
            )


def warn_of_missing_hardware(module: AnsibleModule, name: str) -> None:
    """Warn that no job can run on a node, because its hardware is unknown."""
    module.warn(f"{name} is not in the queue yet, because it did not report its hardware. Run the role again when the node responds.")


def check_host_name(name: str, host_name: str) -> None:
    """Raise ValueError if this host's name differs from the name of its node."""
    if host_name != name:
        raise ValueError(
            f"nodes: this host's name is {host_name}, not {name}. Run the role worker_metadata, which sets the names of the hosts."
        )


def check_queue_is_empty(jobs: Sequence[str], program: str) -> None:
    """Raise ServiceError if the queue contains jobs. `program` is the command that cancels jobs."""
    if jobs:
        raise ServiceError(
            f"state: the queue contains {form(len(jobs), 'job', 'jobs')} {', '.join(jobs)}. Wait until the "
            f"{form(len(jobs), 'job ends, or cancel it', 'jobs end, or cancel them')} with {program}."
        )
