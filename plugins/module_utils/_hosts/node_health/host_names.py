# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks whether the names of the cluster's hosts resolve to their addresses."""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

from ..._common.node_health.check import CONFIGURE, RESTART, CheckedNode, Problem
from ..._common.worker_metadata.metadata import alias, parse_metadata


class Names(NamedTuple):
    """Host names, each with its expected address and the address to which it resolves. `error` says why the names are unknown."""

    resolved: list[tuple[str, str, str]]
    error: str


def read_names(node: CheckedNode) -> Names:
    """Resolve the names of the cluster's hosts. A name that does not resolve has an empty address."""
    path = os.path.join(node.metadata_directory, "metadata.json")
    try:
        with open(path, encoding="utf-8") as file:
            workers = parse_metadata(file.read())["workers"]
        expected = [(name, worker["address"]) for worker in workers for name in (worker["name"], alias(worker["number"]))]
    except OSError as error:
        return Names([], f"{path}: {error.strerror}. {CONFIGURE}")
    except (ValueError, KeyError, TypeError) as error:
        return Names([], f"{path}: {error}. {CONFIGURE}")
    return Names([(name, address, _address(name)) for name, address in dict.fromkeys(expected)], "")


def _address(name: str) -> str:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return ""


def decide_names(names: Names, _node: CheckedNode) -> list[Problem]:
    """Return a problem for each name that resolves to a wrong address or to no address."""
    if names.error:
        return [(RESTART, names.error)]
    return [
        (RESTART, f"{name}: resolves to {found or 'no address'}, but the host's address is {expected}. {CONFIGURE}")
        for name, expected, found in names.resolved
        if found != expected
    ]
