# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds values that YAML does not read as the text that the user wrote, such as `yes`, which it reads as true, or 3.10, as 3.1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import islice
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.yaml import yaml_load

from .option_names import name_of

try:
    # Ansible tags each value with its place in a file, but has no public interface for these tags.
    from ansible._internal._datatag._tags import Origin
except ImportError:
    Origin = None

# A number or a date, without quotes.
WORD = re.compile(r"[\w.+:-]+( [\w.+:]+)*")
BOOLEAN = "Put the value in quotes, or leave it empty."
LITERALS = {True: "true", False: "false", None: "null"}


def refuse_changed_text(task: Any, specs: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise AnsibleActionFail if YAML reads a text in one of these options of a task as something else."""
    given = {name: spec for name, spec in specs.items() if name in task.args}
    errors = [error for name, spec in given.items() for error in text_errors(name_of(task, name), spec, task.args[name])]
    if errors:
        raise AnsibleActionFail("\n".join(errors))


def text_errors(name: str, spec: Mapping[str, Any], value: Any) -> Iterator[str]:
    """Return an error message for each text in an option's value that YAML reads as something else.

    `spec` is the option's argument spec. The values in a dictionary without a spec are texts.
    """
    is_secret = spec.get("no_log", False)
    if isinstance(value, Mapping) and spec.get("type") == "dict":
        if spec.get("options") is None:
            yield from _errors_in(f"{name}: ", value, is_secret=is_secret)
        else:
            yield from _errors_of_options(name, spec["options"], value)
    elif isinstance(value, Sequence) and not isinstance(value, str) and spec.get("type") == "list":
        part = {**spec, "type": spec.get("elements")}
        if part["type"] != "dict" or part.get("options"):
            for number, each in enumerate(value, 1):
                yield from text_errors(f"{name}: element {number}", part, each)
    elif spec.get("type") in ("str", "path") and not spec.get("choices"):
        yield from _errors_of_text(f"{name}: ", value, is_secret=is_secret)


def _errors_of_options(name: str, specs: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any]) -> Iterator[str]:
    for key, spec in specs.items():
        if values.get(key) is not None:
            yield from text_errors(f"{name}: {key}", spec, values[key])


def _errors_in(place: str, values: Mapping[Any, Any], *, is_secret: bool) -> Iterator[str]:
    for key, value in values.items():
        if not isinstance(key, str):
            yield from _errors_of_text(f"{place}the name {key}: ", key, is_secret=False)
        elif isinstance(value, Mapping):
            yield from _errors_in(f"{place}{key}: ", value, is_secret=is_secret)
        else:
            yield from _errors_of_text(f"{place}{key}: ", value, is_secret=is_secret)


def _errors_of_text(place: str, value: Any, *, is_secret: bool) -> Iterator[str]:
    written = as_written(value)
    if isinstance(value, (list, tuple, Mapping)):
        yield f"{place}the value is a list or a dictionary, not text. Use text, for example JSON in quotes."
    elif value is None or isinstance(value, bool):
        yield f"{place}YAML reads the value as {'something else' if is_secret else LITERALS[value]}, not as text. {BOOLEAN}"
    elif written not in (None, str(value)):
        shown = "the value as something else" if is_secret else f"{written} as {value}"
        yield f"{place}YAML reads {shown}. Put the value in quotes" + ("." if is_secret else f": '{written}'.")


def as_written(value: Any) -> str | None:
    """Return a number or a date as the user has written it in a file, or None if that is unknown or if the value is neither."""
    if Origin is None or isinstance(value, bool) or not isinstance(value, (int, float, date)):
        return None
    origin = Origin.get_tag(value)
    if not (origin and origin.path and origin.line_num and origin.col_num):
        return None
    try:
        with open(origin.path, encoding="utf-8") as file:
            line = next(islice(file, origin.line_num - 1, None))
    except (OSError, UnicodeDecodeError, StopIteration):
        return None
    word = WORD.match(line[origin.col_num - 1 :])
    # The file may be encrypted, or the value may be the result of a template.
    return word.group() if word and yaml_load(word.group()) == value else None
