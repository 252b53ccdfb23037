# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Builds the list of a queue's nodes from the workers of a cluster and the results that the hosts have reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.module_utils.common.validation import check_type_list
from ansible.utils.display import Display

from .documented_values import refusal


def with_hardware(
    workers: Iterable[Mapping[str, Any]],
    results: Mapping[str, Mapping[str, Any]],
    hardware_of: Callable[[Mapping[str, Any]], dict[str, Any] | None],
) -> list[dict[str, Any]]:
    """Return `{name, address}` for each worker, and its hardware, if known. `results` contains the results of the hosts, keyed by name.

    `hardware_of` returns the hardware in a result, or None if it is implausible. The values that a host reports are untrusted.
    """
    nodes = []
    for worker in workers:
        hardware = hardware_of(results[worker["name"]])
        if hardware is None:
            Display().warning(f"{worker['name']}: the hardware that this host reports is implausible, and is ignored. Check the host.")
        nodes.append({"name": worker["name"], "address": worker["address"], **(hardware or {})})
    return nodes


def only_requested(answer: dict[str, Any], arguments: Mapping[str, Any], host: str, module: str) -> dict[str, Any]:
    """Return the result of a module that drains nodes, or a failed result if it names nodes other than those in the arguments."""
    requested = check_type_list(arguments.get("nodes") or [])
    others = [] if answer.get("failed") else [node for node in answer["drained"] if node not in requested]
    return refusal(host, module, f"it says that {others[0][:70]!r} was drained, which was not requested") if others else answer
