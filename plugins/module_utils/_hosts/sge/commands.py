# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the commands that query and change qmaster's configuration, and converges its objects."""

from __future__ import annotations

import os
import tempfile
from typing import Iterable

from ansible.module_utils.basic import AnsibleModule

from ..._common.sge import configuration
from ..._common.sge.configuration import SgeObject
from ..._queues.sge import GROUP
from ..services import ServiceError

# Time limit of a command in seconds.
COMMAND_TIMEOUT = "60"


def try_command(module: AnsibleModule, *command: str) -> tuple[int, str, str]:
    """Return the exit status, the output and the errors of a command."""
    found: tuple[int, str, str] = module.run_command(["timeout", COMMAND_TIMEOUT, *command], cwd="/")
    return found


def ask(module: AnsibleModule, *command: str) -> str:
    """Return the output of a command. Raises ServiceError if the command fails."""
    status, output, error = try_command(module, *command)
    if status:
        shown = " ".join((error or output).split()).rstrip(".")
        raise ServiceError("{} failed: {}. Check sge_qmaster.service on the master.".format(" ".join(command[:2]), shown))
    return output


def is_up(module: AnsibleModule) -> bool:
    """Return whether qmaster answers."""
    return try_command(module, "qconf", "-sh")[0] == 0


def current(module: AnsibleModule, item: SgeObject) -> dict[str, str] | None:
    status, output, _error = try_command(module, "qconf", f"-s{item.option}", *filter(None, [item.name]))
    return configuration.parse(output) if status == 0 else None


def converge(module: AnsibleModule, items: Iterable[SgeObject], up: bool) -> list[dict[str, str]]:
    """Create or change the objects, except in check mode, and return the diffs. If qmaster is not up, all objects count as new."""
    differences = []
    for item in items:
        found = current(module, item) if up else None
        changes = configuration.changed(item, found)
        if not changes:
            continue
        before, after = ({name: pair[side] for name, pair in changes.items()} for side in (0, 1))
        differences.append(_difference(item.shown, configuration.text(before) if found else "", configuration.text(after)))
        if not module.check_mode:
            option = "A" if found is None and item.rest is not None else "M"
            apply(module, f"-{option}{item.option}", configuration.text(configuration.complete(item, found)), item.name or "settings")
    return differences


def apply(module: AnsibleModule, option: str, content: str, name: str) -> None:
    """Write a file and pass it to qconf. A file that configures a host must have the name of the host. Raises ServiceError."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        ask(module, "qconf", option, path)


def converge_resources(module: AnsibleModule, up: bool) -> list[dict[str, str]]:
    """Add the collection's resources, and return the diffs."""
    table = configuration.resources(ask(module, "qconf", "-sc") if up else "")
    if table is None:
        return []
    if not module.check_mode:
        apply(module, "-Mc", table, "resources")
    return [_difference("resources", "", "".join(f"{name} {row}\n" for name, row in configuration.RESOURCES.items()))]


def _difference(header: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": header, "after_header": header, "before": before, "after": after}


def nodes(module: AnsibleModule) -> list[str]:
    """Return the names of the hosts that qmaster lists. The list is empty if there are none."""
    status, output, _error = try_command(module, "qconf", "-sel")
    return output.split() if status == 0 else []


def members(module: AnsibleModule) -> list[str]:
    """Return the names of the hosts on which jobs can start."""
    found = current(module, SgeObject("hgrp", GROUP, {}, None)) or {}
    return [name for name in found.get("hostlist", "").split() if name != configuration.NONE]


def jobs_by_host(module: AnsibleModule) -> dict[str, list[str]]:
    """Return the IDs of the jobs that run on each host. Raises ServiceError or ValueError."""
    return configuration.jobs_by_host(ask(module, "qstat", "-xml", "-g", "t", "-s", "rs", "-u", "*"))
