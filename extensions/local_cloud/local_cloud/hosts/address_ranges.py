"""Finds an unused address range for a VPC. Two networks on one machine cannot have the same range."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Iterable

from .podman import as_root


def used_ranges() -> list[str]:
    """Return the ranges of the routes and the podman networks of this machine."""
    routes = json.loads(subprocess.run(["ip", "-4", "-json", "route"], capture_output=True, check=True).stdout)
    used = [route["dst"] for route in routes if route["dst"] != "default"]
    networks = json.loads(subprocess.run(as_root("podman", "network", "ls", "--format=json"), capture_output=True, check=True).stdout)
    return used + [subnet["subnet"] for network in networks for subnet in network.get("subnets") or ()]


def overlaps(candidate: str, used: Iterable[str]) -> bool:
    """Return whether a range overlaps one of the used ranges."""
    wanted = ipaddress.ip_network(candidate)
    return any(wanted.overlaps(network) for each in used if (network := ipaddress.ip_network(each)).version == 4)


def free_range(candidates: Iterable[str], used: Iterable[str]) -> str | None:
    """Return the first address range among the candidates that overlaps no used range, or None."""
    others = list(used)
    return next((candidate for candidate in candidates if not overlaps(candidate, others)), None)
