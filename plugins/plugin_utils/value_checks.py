# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks whether the values of roles' variables have the right type, as far as the controller knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..module_utils._common.dataset.source import DataError
from ..module_utils._job.definition.refusal import RefusalError
from ._output.failures import TYPES
from .command_lines import UNCHANGED, is_one_string, list_error
from .node_variables import UNKNOWN, NodeVariables
from .variable_names import argument_specs
from .yaml_text import text_errors

# The variables of jobs whose elements are passed to a process unchanged.
ARGUMENTS = tuple(f"training_job_{option}" for option in UNCHANGED)
# The dictionary whose values have the types that the launcher defines.
OF_LAUNCHER = "training_job_launcher_options"
# The words that messages use for the elements of lists.
ELEMENTS = {"dict": "dictionaries", "int": "integers", "path": "paths", "str": "strings"}
# The exceptions whose texts are error messages.
REFUSALS = (AnsibleError, DataError, RefusalError, ValueError)


def known_values(roles: Iterable[str], nodes: NodeVariables) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the roles' variables, and messages about values of the wrong type.

    Unset and empty variables are left out. A value is UNKNOWN if it has the wrong type, or if the controller
    cannot know it.
    """
    given, wrong = {}, []
    for name, spec in {name: spec for role in roles for name, spec in argument_spec(role).items()}.items():
        value = nodes.get(name)
        if value is UNKNOWN:
            given[name] = value
        elif value is not None:
            errors = value_errors(name, spec, value, unchanged=name in ARGUMENTS)
            errors = errors or ([] if name == OF_LAUNCHER else list(text_errors(name, spec, value)))
            checked = UNKNOWN if errors else ArgumentSpecValidator({name: spec}).validate({name: value}).validated_parameters[name]
            wrong += errors
            if checked or isinstance(checked, (bool, int)):
                given[name] = checked
    return given, wrong


def value_errors(name: str, spec: Mapping[str, Any], value: Any, *, unchanged: bool) -> list[str]:
    """Return an error message if a variable's value has the wrong type or is not one of the choices in its argument spec."""
    if spec.get("elements") == "str" and is_one_string(value, unchanged=unchanged):
        return [list_error(name, value)]
    if not ArgumentSpecValidator({name: dict(spec)}).validate({name: value}).error_messages:
        return []
    return [f"{name}: {type_error(spec, value)}"]


def type_error(spec: Mapping[str, Any], value: Any) -> str:
    shown = "the value" if spec.get("no_log") else f"{value!r:.100}"
    if spec.get("choices"):
        return f"{shown} is not supported. Use one of {', '.join(map(str, spec['choices']))}."
    kind = TYPES.get(spec["type"], spec["type"]) + (f" of {ELEMENTS.get(spec['elements'], 'values')}" if spec.get("elements") else "")
    return f"{shown} has the wrong type. Specify {kind}."


@lru_cache(maxsize=None)
def argument_spec(role: str) -> dict[str, dict[str, Any]]:
    """Return the argument spec of a role, with every variable optional."""
    keys = ("type", "elements", "choices", "options", "no_log")
    options = argument_specs()[role]["main"]["options"]
    return {name: {key: option[key] for key in keys if key in option} for name, option in options.items()}


def refusal(prefix: str, check: Callable[[], Any]) -> list[str]:
    """Return a list with one error message, which is the prefix and the text of the check's exception, or an empty list."""
    try:
        check()
    except REFUSALS as error:
        return [prefix + str(error)]
    return []
