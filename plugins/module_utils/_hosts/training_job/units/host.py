# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Describes and checks this host: its number, its address, its GPUs and its Python interpreter."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import Any, Mapping, Sequence

from ...._common.worker_metadata.metadata import parse_metadata
from ...._job.definition.refusal import RefusalError
from ...._launchers.base import Host

# The variables with which users select network interfaces.
INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")

# linux/sockios.h
SIOCGIFADDR = 0x8915


def check_python(params: dict[str, Any]) -> None:
    """Raise RefusalError if the current user cannot run the job's Python."""
    if not params["command"] and not os.access(params["python"], os.X_OK):
        raise RefusalError(
            "python: {!r} does not exist, or user {!r} cannot run it."
            " Specify a Python interpreter that has the framework installed.".format(params["python"], params["user"])
        )


def read_metadata(directory: str, generation: str) -> dict[str, Any]:
    """Return this host's worker metadata.

    Raises RefusalError if the metadata is missing or has a generation ID other than the inventory's.
    """
    hint = "Configure the cluster's hosts again (role worker_metadata)."
    path = os.path.join(directory, "metadata.json")
    try:
        with open(path, encoding="utf-8") as file:
            metadata = parse_metadata(file.read())
    except (OSError, ValueError) as error:
        raise RefusalError(f"{path}: {error}. {hint}") from error
    if generation and metadata["generation"] != generation:
        raise RefusalError(
            "the metadata on this host has the generation ID {}, but the inventory has {}, because the cluster has changed since. "
            "{}".format(metadata["generation"], generation, hint)
        )
    return metadata


def describe_host(metadata: dict[str, Any], gpus: list[int] | None, efa: bool) -> Host:
    """Return the `Host` that describes this host to launchers.

    Raises RefusalError if no network interface has the host's address, or if a requested GPU does not exist.
    """
    present = list(range(metadata["gpu_count"]))
    missing = sorted(set(gpus or []) - set(present))
    if missing:
        has = f"has only the GPUs {present}. Choose from these" if present else "has no GPUs. Choose an instance type with GPUs"
        raise RefusalError(f"gpus: {missing} do not exist on this host, which {has}, or remove this option.")
    worker = next(worker for worker in metadata["workers"] if worker["number"] == metadata["number"])
    for _unused, name in socket.if_nameindex():
        if interface_address(name) == worker["address"]:
            return Host(worker["name"], worker["address"], worker["number"], present if gpus is None else sorted(set(gpus)), name, efa)
    raise RefusalError(
        "no network interface of this host has the address {} from metadata.json. Configure the cluster's hosts again "
        "(role worker_metadata).".format(worker["address"])
    )


def check_interfaces(environment: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise RefusalError if a variable selects network interfaces that do not exist on this host, whose interfaces have these `names`.

    In NCCL's variable, each word is the beginning of a name, or a whole name after `=`. After `^`, the words exclude interfaces. Words can
    contain a port. Gloo's variable contains whole names.
    """
    for variable in INTERFACES:
        value = str(environment.get(variable) or "")
        words = [word.partition(":")[0] for word in value.lstrip("=").split(",")]
        is_exact = value.startswith("=") or variable != INTERFACES[0]
        found = any(name == word if is_exact else name.startswith(word) for name in names for word in words)
        if value and not value.startswith("^") and not found:
            raise RefusalError(
                f"environment: {variable} selects {value!r}, but the network interfaces of this host are {', '.join(names)}. Remove the"
                " variable, so that the launcher selects the interface of the cluster's network."
            )


def interface_address(interface: str) -> str:
    """Return the interface's IPv4 address, or an empty string if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])
