# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The names by which the users of a task know its options: those of variables if a role of this collection runs the task."""

from __future__ import annotations

from typing import Any

from ..module_utils._aws.option import PREFIX
from .suggested_commands import run_options
from .variable_names import known_variables

COLLECTION_NAME = "deeplearning.cluster"
# Roles that pass the variables of their users to a provisioning module.
ROLES = (f"{COLLECTION_NAME}.emr_cluster", f"{COLLECTION_NAME}.provision")


def prefix_of(task: Any) -> str:
    """Return the beginning of the variables that set the options of a provisioning module, or an empty string if no role sets them."""
    return PREFIX if _role_of(task) in ROLES else ""


def name_of(task: Any, option: str) -> str:
    """Return the name of the variable that sets an option of a task, or the name of the option if there is no such variable."""
    collection, _dot, role = _role_of(task).rpartition(".")
    variable = f"{prefix_of(task) or role + '_'}{option}"
    return variable if collection == COLLECTION_NAME and option in task.args and variable in known_variables() else option


def of_host_role(task: Any, text: str) -> str:
    """Return a message from a module on a host. If it begins with an option, it then begins with the name that its users know."""
    option, colon, rest = text.partition(": ")
    return f"{name_of(task, option)}{colon}{rest}"


def message_arguments(task: Any) -> dict[str, str]:
    """Return the arguments of a provisioning module that adapt its messages to the user of a task."""
    return {"option_prefix": prefix_of(task), "run_options": run_options()}


def _role_of(task: Any) -> Any:
    return "" if task._role is None else task._role.get_name()
