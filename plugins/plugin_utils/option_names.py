# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Replaces the names of options in module messages with the names of the variables that users of roles set."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..module_utils._aws.options.registry import OPTIONS
from .suggested_commands import with_run_options
from .variable_names import known_variables

COLLECTION_NAME = "deeplearning.cluster"
# Roles that pass the variables of their users to a provisioning module.
ROLES = (f"{COLLECTION_NAME}.emr_cluster", f"{COLLECTION_NAME}.provision")
# Messages keep the names of these options, because users of roles set them in the inventory file, or cannot set them.
NOT_VARIABLES = ("cluster", "group", "private_key_file", "progress_file")
# Each of these options has the same name as a kind of resource. In messages, the key of the resource follows the kind, as in
# `placement_group main`.
KINDS = ("emr_instance_profile", "instance_profile", "placement_group")
# How a sentence mentions an option whose name is also an ordinary word: the text before the name, and the text after it.
MENTIONS = (
    *((before, ": ") for before in ("^", "set ", "Set ", "or ", "and ", "with ")),
    ("set ", " to "),
    ("Set ", " to "),
    ("but ", " is "),
    ("option ", r"\b"),
    (r"\(", r"\)"),
    (" to ", "[.,]"),
    (" from ", "[.,]"),
)


def is_of_role(task: Any) -> bool:
    """Return whether a task belongs to a role of this collection that passes its variables to a provisioning module."""
    return task._role is not None and task._role.get_name() in ROLES


def with_variables(text: str) -> str:
    """Return a message with variable names in place of option names.

    A name with an underscore is replaced everywhere, unless it is quoted or denotes a kind of resource. A name without an underscore is
    also an ordinary word, so it is replaced only at the beginning of a line, and where the sentence says that it is an option (`MENTIONS`).
    """
    return _pattern().sub(lambda name: _variables()[name.group()], text)


def of_host_role(task: Any, text: str) -> str:
    """Return a message from a module that a role of this collection runs on hosts.

    The message begins with the variable `<role>_<option>`, if the role has it, instead of the option.
    """
    collection, _dot, role = task._role.get_name().rpartition(".") if task._role is not None else ("", "", "")
    option, colon, rest = text.partition(": ")
    is_variable = collection == COLLECTION_NAME and option in task.args and f"{role}_{option}" in known_variables()
    return f"{role}_{option}{colon}{rest}" if is_variable else text


def of_run(task: Any, text: str) -> str:
    """Return a message from a task's module in the form that users of the playbook need: with variable names and complete commands."""
    return with_run_options(with_variables(text) if is_of_role(task) else text)


def result_of_run(task: Any, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a task's module, with its messages rewritten by `of_run`."""
    changed = dict(result)
    for name in ("msg", "exception"):
        if name in changed:
            changed[name] = _rewritten(task, changed[name])
    for name in ("warnings", "findings"):
        if changed.get(name):
            changed[name] = [_rewritten(task, each) for each in changed[name]]
    return changed


def _rewritten(task: Any, message: Any) -> Any:
    """Return the rewritten message or finding.

    The text of a warning or error from ansible-core is in its `event`, and in the `chain` of the event's causes.
    """
    if isinstance(message, str):
        return of_run(task, message)
    if isinstance(message, Mapping) and "message" in message:
        return {**message, "message": of_run(task, message["message"])}
    if dataclasses.is_dataclass(message) and not isinstance(message, type):
        names = [each.name for each in dataclasses.fields(message) if each.name in ("msg", "event", "chain")]
        return dataclasses.replace(message, **{name: _rewritten(task, getattr(message, name)) for name in names})
    return message


@lru_cache(maxsize=None)
def _variables() -> dict[str, str]:
    return {"region": "deeplearning_region", **{option.name: option.variable for option in OPTIONS if option.name not in NOT_VARIABLES}}


@lru_cache(maxsize=None)
def _pattern() -> re.Pattern[str]:
    names = sorted(_variables(), key=len, reverse=True)
    specific = "|".join(name if name not in KINDS else rf"{name}(?! )" for name in names if "_" in name)
    specific = rf"(?<![\w.'\"/=:@-])(?:{specific})(?![\w=/-])"
    every = "|".join(names)
    mentions = [rf"{before if before == '^' else f'(?<={before})'}(?:{every})(?={after})" for before, after in MENTIONS]
    return re.compile("|".join([specific, *mentions]), re.MULTILINE)
