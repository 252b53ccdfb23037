# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Keeps only the documented values of a module's result that have the correct type and size, without control characters."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible.utils.display import Display

from ..module_utils._job.schema import Field, SchemaError, count_values, flag, integer, number, one_of, seconds, text
from ..module_utils._text import clean, clean_line
from .budget import TEXT, VALUES, Budget, size_of

display = Display()

MODULES = Path(__file__).resolve().parents[1] / "modules"

# Maximum number of characters in a value, and maximum depth of nested values.
TEXT_LIMIT, DEPTH_LIMIT = 1 << 20, 16
# Maximum for integers, and for times in seconds since 1970: the end of the year 9999, after which datetime cannot represent a time.
INTEGER_LIMIT, TIME_LIMIT = 1 << 53, 253_402_300_799.0
TIME_KEYS = ("began", "created", "deadline", "ended", "finished", "heartbeat", "last", "since", "started", "submitted", "time")
# Names of processes and hosts, which tables and the lines of logs begin with. Where the host of a rank is not known, it is the rank.
LISTS_OF_HOSTS = ("missing[]", "excluded[]", "replacements[]")
NAME_KEYS, NAME = ("name", "host", "stopped_for", "still_connected", *LISTS_OF_HOSTS), r"(?:rank )?[A-Za-z0-9._-]{1,253}"
# Values that say why a process failed.
CAUSES = ("cause", "raised")
# The valid values by type, and by type and name. Numbers whose name is not listed are counts, sizes and durations.
FIELDS: Mapping[str | tuple[str, str], Field] = {
    "int": integer(0, INTEGER_LIMIT),
    "float": number(INTEGER_LIMIT),
    "bool": flag(),
    ("float", "ratio"): number(1),
    **{("float", key): seconds(TIME_LIMIT) for key in TIME_KEYS},
    **{("int", key): integer(-INTEGER_LIMIT, INTEGER_LIMIT) for key in ("exit_code", "rc")},
    **{("str", key): text(pattern=NAME, words="a valid name") for key in NAME_KEYS},
}

# The values that any module may return. These values include neither facts nor the arguments that a host claims to have received.
COMMON: Mapping[str, Mapping[str, Any]] = {
    "changed": {"type": "bool"},
    "failed": {"type": "bool"},
    "skipped": {"type": "bool"},
    "msg": {"type": "text"},
    "rc": {"type": "int"},
    "module_stdout": {"type": "text"},
    "module_stderr": {"type": "text"},
    "diff": {
        "type": "list",
        "elements": "dict",
        "contains": {name: {"type": "text", "returned": "sometimes"} for name in ("before", "after", "before_header", "after_header")},
    },
}
# Keys of results that only ansible-core's own actions may have.
INTERNAL = ("add_host", "add_group")

# Keys that Ansible adds to results. These keys are dropped without a warning.
SILENT = ("invocation", "exception", "warnings", "deprecations", "ansible_facts", "stdout", "stdout_lines", "stderr", "stderr_lines")


def documented_part(answer: Mapping[str, Any], module: str, host: str, limit: int = VALUES) -> dict[str, Any]:
    """Return the documented values of a module's result.

    Returns a failed result if a value does not match the documentation, or if the result has more than `limit` values.
    """
    if count_values(answer, limit) > limit:
        return refusal(host, module, f"it has more than {limit} values")
    values = {**COMMON, **returned_values(module)}
    unknown = sorted(clean_line(str(key))[:40] for key in answer if key not in values and not is_silent(key))
    if answer.get("ansible_facts"):
        unknown.insert(0, "ansible_facts")
    if unknown:
        display.warning(
            f"{host}: {module.rpartition('.')[2]} returned undocumented values: {', '.join(unknown[:8])}. "
            "These values are ignored. Check the host, because its Python runs code that is not part of this collection."
        )
    is_failed = answer.get("failed") is True
    try:
        return _shown_part(_members(answer, values, "", is_complete=not is_failed), is_failed)
    except SchemaError as error:
        return refusal(host, module, str(error))


def _shown_part(part: dict[str, Any], is_failed: bool) -> dict[str, Any]:
    """Return a result whose texts are short enough to show. Callbacks show diffs, and all values of a failed result."""
    budget = Budget()
    found: dict[str, Any] = {
        key: indented(budget.lines(value.split("\n"))) if isinstance(value, str) and key in COMMON else value for key, value in part.items()
    }
    if isinstance(found.get("diff"), list):
        found["diff"] = budget.diffs(found["diff"])
    is_long = is_failed and size_of({key: value for key, value in found.items() if key not in COMMON}) > TEXT
    return {key: value for key, value in found.items() if key in COMMON} if is_long else found


def indented(text: str) -> str:
    """Return a text whose second and later lines are indented. Without indentation, they could imitate lines of Ansible's output."""
    return text.replace("\n", "\n    ")


def without(facts: Any, own: Mapping[str, Any]) -> Any:
    """Return the facts in a result except those in `own`."""
    return {key: value for key, value in facts.items() if key not in own} if isinstance(facts, dict) else facts


def is_silent(key: Any) -> bool:
    """Return whether Ansible itself adds this key to results. Such keys are dropped without a warning."""
    return key in SILENT or str(key).startswith("_ansible_")


def refusal(host: str, module: str, reason: str) -> dict[str, Any]:
    """Return a failed result for a task whose module returned an invalid result."""
    name = module.rpartition(".")[2]
    return {
        "failed": True,
        "changed": False,
        "msg": f"{host}: the result of {name} is not valid: {reason}. Check the host, or replace it, before you continue.",
    }


@functools.lru_cache(maxsize=None)
def returned_values(module: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the documented return values of a module of this collection, keyed by name."""
    source = (MODULES / f"{module.rpartition('.')[2]}.py").read_text(encoding="utf-8")
    (text,) = [ast.literal_eval(line.value) for line in ast.parse(source).body if isinstance(line, ast.Assign) and _is_return(line)]
    documented: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return documented


def _is_return(line: ast.Assign) -> bool:
    return isinstance(line.targets[0], ast.Name) and line.targets[0].id == "RETURN"


def _members(value: Mapping[str, Any], documented: Mapping[str, Mapping[str, Any]], place: str, is_complete: bool = True) -> dict[str, Any]:
    result = {}
    for name, description in documented.items():
        where = f"{place}.{name}" if place else name
        if value.get(name) is not None:
            result[name] = _value(value[name], description, where)
        elif is_complete and _is_required(description, place):
            raise SchemaError(f"{where} is missing")
        elif name in value:
            result[name] = None
    return result


def _is_required(description: Mapping[str, Any], place: str) -> bool:
    """Return whether a value is required.

    A top-level value is required if its `returned` is `always` or `success`. A nested value is required if it has no `returned`.
    """
    returned = description.get("returned")
    return returned is None if place else returned in ("always", "success")


def _value(value: Any, description: Mapping[str, Any], place: str) -> Any:
    kind = description["type"]
    if kind == "list":
        if not isinstance(value, list):
            raise SchemaError(f"{place} is not a list")
        element = {"type": description.get("elements", "raw"), "contains": description.get("contains")}
        return [_value(each, element, f"{place}[{index}]") for index, each in enumerate(value)]
    if kind == "dict" and description.get("contains"):
        if not isinstance(value, dict):
            raise SchemaError(f"{place} is not a dict")
        return _members(value, description["contains"], place)
    checked = CHECKS[kind](value)
    if checked is None:
        raise SchemaError(f"{place} is not a {kind}")
    field = _field(kind, place, description.get("choices"))
    if field and not field.accepts(checked):
        raise SchemaError(f"{place} {field.problem(checked)}")
    return checked


def _field(kind: str, place: str, choices: Sequence[str] | None) -> Field | None:
    if choices:
        return one_of(*choices)
    *_, owner, key = ["", *re.sub(r"\[\d+\]", "[]", place).split(".")]
    # What has caused a failure, such as an exception, is no name of a process or host.
    is_free = key == "name" and owner in CAUSES
    return FIELDS.get((kind, "" if is_free else key)) or FIELDS.get(kind)


def _text(value: Any) -> str | None:
    return clean(str.__str__(value)[:TEXT_LIMIT]) if isinstance(value, str) else None


def _line(value: Any) -> str | None:
    """Return text as one line. After a line break, text could imitate a line of Ansible's output."""
    text = _text(value)
    return None if text is None else text.replace("\n", " ")


def _path(value: Any) -> str | None:
    text = _text(value)
    return text if text and text.startswith("/") and text == value == clean_line(text) and len(text) <= 4096 else None


def _dictionary(value: Any) -> dict[str, Any] | None:
    return free(value) if isinstance(value, dict) else None


def free(value: Any, depth: int = DEPTH_LIMIT) -> Any:
    """Return a free-form value as plain data. Raises SchemaError if the value is nested too deeply."""
    if depth == 0:
        raise SchemaError(f"values are nested more than {DEPTH_LIMIT} levels deep")
    if isinstance(value, Mapping):
        return {clean_line(str(key))[:TEXT_LIMIT]: free(each, depth - 1) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [free(each, depth - 1) for each in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value) if abs(value) <= INTEGER_LIMIT else float("inf")
    return _line(str(value))


CHECKS = {
    "str": _line,
    "text": _text,
    "path": _path,
    "int": free,
    "float": free,
    "bool": free,
    "dict": _dictionary,
    "raw": free,
}
