# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks what hosts return about the nodes of a queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.common.validation import check_type_list

from .documented_values import refusal


def only_requested(answer: dict[str, Any], arguments: Mapping[str, Any], host: str, module: str) -> dict[str, Any]:
    """Return the result of a module that drains nodes, or a failed result if it names nodes other than those in the arguments."""
    requested = check_type_list(arguments.get("nodes") or [])
    others = [] if answer.get("failed") else [node for node in answer["drained"] if node not in requested]
    return refusal(host, module, f"it says that {others[0][:70]!r} was drained, which was not requested") if others else answer
