# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the result of a module from the output of its process, which may contain other output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..module_utils._text import clean_line
from .budget import Budget
from .documented_values import INTERNAL

# Keys whose values ansible-core 2.21 shows.
SHOWN = ("warnings", "deprecations", "exception")
# Maximum number of characters to show of the exception of a module, and of the output around a result.
CRASH = 500
OTHER_OUTPUT = 100
# Keys whose values ansible-core 2.21 shows if they have a different type.
TYPES: Mapping[str, type] = {
    **dict.fromkeys(("changed", "failed", "unreachable", "skipped", "finished"), bool),
    "rc": int,
    "ansible_facts": dict,
    "ansible_stats": dict,
    "ansible_job_id": str,
}
# With this key, ansible-core replaces a document with a value of another type.
TYPE_KEY = "__ansible_type"


def own_result(text: str) -> tuple[str, list[str]]:
    """Return the result in a module's output without the values that ansible-core shows by itself, and warnings, each as one line.

    The warnings are those in the result, and one about other output. Control characters can be escaped in JSON, so they are still in the
    output. ansible-core shows output after the result and, before 2.21, the names of internal keys. From 2.21 on, it also shows warnings
    and deprecations. The names of internal keys are changed, so that they count as unknown.

    Raises TypeError if a value that ansible-core uses itself does not have the correct type.
    """
    other, document = first_document(text)
    if document is None:
        return text, []
    _check_types(document)
    shown = [key for key in document if key in (*SHOWN, *INTERNAL) or key.startswith("_ansible_")]
    if not shown and not other:
        return text, []
    values = {key: document.pop(key) for key in shown}
    document.update(crash(document, values.get("exception")))
    document.update({f"internal {clean_line(key)}": None for key in shown if key not in SHOWN})
    return json.dumps(document), [*_about_other_output(other), *Budget().messages(warnings_of(values.get("warnings")), "warnings")]


def _check_types(document: Mapping[str, Any]) -> None:
    for key, kind in TYPES.items():
        if not isinstance(document.get(key), (kind, type(None))):
            raise TypeError(f"{key} is not {kind.__name__}")
    if TYPE_KEY in document:
        raise TypeError(f"{TYPE_KEY} is not allowed")


def crash(document: Mapping[str, Any], exception: Any) -> dict[str, str]:
    """Return the message that the result of a module lacks if the module has ended with an exception.

    The exception is a traceback, or a document of ansible-core with a text.
    """
    if not document.get("failed") or "msg" in document:
        return {}
    event = exception.get("event") if isinstance(exception, dict) else None
    text = event.get("msg") if isinstance(event, dict) else exception
    last = clean_line(text.strip().rpartition("\n")[2])[:CRASH] if isinstance(text, str) else ""
    return {"msg": f"the module ended with an unexpected error: {last or 'no reason given'}. If the host is in order, report this error."}


def _about_other_output(text: str) -> list[str]:
    shown = clean_line(text)[:OTHER_OUTPUT]
    return [f"the output has {len(text)} characters besides the result: {shown!r}. They are ignored. Check the host."] if text else []


def first_document(text: str) -> tuple[str, dict[str, Any] | None]:
    """Return the text around the JSON object that begins in the first line with a brace, and this object.

    Without such an object, the object is None. ansible-core finds the object in the same way, so it cannot read such a text either.
    """
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if line.strip().startswith("{")), len(lines))
    rest = "\n".join(lines[first:]).lstrip()
    try:
        document, end = json.JSONDecoder().raw_decode(rest)
    except (ValueError, RecursionError):
        return text, None
    return "\n".join([*lines[:first], rest[end:]]).strip(), document


def warnings_of(found: Any) -> list[str]:
    """Return the warnings in a result. A warning is a text, or a document of ansible-core with a text."""
    events = [each.get("event") if isinstance(each, dict) else {"msg": each} for each in (found if isinstance(found, list) else [])]
    texts = [event.get("msg") for event in events if isinstance(event, dict)]
    return [each for each in texts if isinstance(each, str)]
