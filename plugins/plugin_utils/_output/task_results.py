# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What the concise output shows of the results of tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible.playbook.block import Block

from ...module_utils._words import form, plural
from .hosts import host_names

USE_V = ", use -v to show them"


def fitting(entries: Sequence[tuple[str, list[str]]], room: int, what: str) -> list[str]:
    """Return the lines of at most `room` entries. If entries are left out, the last line says how many, and names their hosts."""
    shown = list(entries) if len(entries) <= room else entries[: room - 1]
    rest = list(dict.fromkeys(host for _text, hosts in entries[len(shown) :] for host in hosts))
    more = [f"{len(entries) - len(shown)} more {what} ({host_names(rest, ())}){USE_V}"] if rest else []
    return [*(text for text, _hosts in shown), *more]


def line_count(texts: Sequence[str]) -> int:
    return sum(text.count("\n") + 1 for text in texts)


def are(hosts: list[str]) -> str:
    return form(len(hosts), "is", "are")


def count_hosts(hosts: set[str]) -> str:
    """Return the number of hosts as text, such as `3 hosts`."""
    return plural(len(hosts), "host", "hosts")


def enclosing_blocks(task: Any) -> Iterator[tuple[Block, str]]:
    """Yield each block around a task, innermost first, with the section that contains the task: `block`, `rescue` or `always`."""
    child, parent = task, task._parent
    while parent is not None:
        if isinstance(parent, Block):
            for section in ("block", "rescue", "always"):
                if any(each._uuid == child._uuid for each in getattr(parent, section)):
                    yield parent, section
        child, parent = parent, parent._parent


def title_of(result: Any) -> str:
    """Return the name of a task without the role's name, which ansible-core 2.21 writes before it."""
    role = result.task._role
    return str(result.task_name).removeprefix(f"{role.get_name()} : " if role else "")


def items(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the results of a loop's items, or only the task's own result if the task has no loop."""
    results = result.get("results")
    return [each for each in results if isinstance(each, Mapping)] if isinstance(results, list) else [result]


def as_text(value: Any) -> str:
    """Return a value as readable text: strings unchanged, lists of strings as lines, everything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def first_line(text: str) -> str:
    return text.partition("\n")[0]
