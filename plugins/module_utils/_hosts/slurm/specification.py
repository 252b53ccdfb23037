# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The parameters of the `slurm` module."""

from __future__ import annotations

from typing import Any

HARDWARE: dict[str, Any] = {
    "cpus": {"type": "int", "required": True},
    "sockets": {"type": "int", "default": 0},
    "cores": {"type": "int", "default": 0},
    "threads": {"type": "int", "default": 0},
    "memory": {"type": "int", "required": True},
    "gpus": {"type": "int", "default": 0},
}
NODE: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "hardware": {"type": "dict", "options": HARDWARE},
}
SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "component": {"type": "str", "choices": ["controller", "node"], "required": True},
        "cluster": {"type": "str"},
        "nodes": {"type": "list", "elements": "dict", "options": NODE},
        "state_directory": {"type": "path"},
        "user": {"type": "str"},
        "partition": {"type": "str", "default": "trainers"},
        "groups": {"type": "list", "elements": "str", "default": []},
        "cgroups": {"type": "bool", "default": False},
        "parameters": {"type": "dict", "default": {}},
        "settings": {"type": "str"},
        "timeout": {"type": "int", "default": 120},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    },
    "supports_check_mode": True,
}
#: The parameters without defaults that each component needs.
NEEDED = {
    ("controller", "present"): ("cluster", "nodes", "state_directory", "user"),
    ("controller", "absent"): ("state_directory", "user"),
    ("node", "present"): ("nodes", "settings"),
    ("node", "absent"): (),
}


def missing(params: dict[str, Any]) -> list[str]:
    """Return the required parameters of the component that are not set."""
    return [name for name in NEEDED[params["component"], params["state"]] if params[name] is None]
