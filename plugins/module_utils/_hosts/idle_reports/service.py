# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Installs the timer that runs `report.py` every minute on this host."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ..._common import managed_files
from .. import programs, services

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    # Ansible copies only modules that are imported to hosts. This process reads the source code of the program, and need not run it.
    from . import report  # noqa: F401

UNIT = "deeplearning_idle"
PROGRAM = "/var/lib/deeplearning-idle/report.zip"
# The program must not keep a host busy that hardly computes anything else, and a driver may not respond.
SERVICE = f"""\
[Unit]
Description=Report whether this host is idle

[Service]
Type=oneshot
ExecStart={sys.executable} {PROGRAM} {{emr}}
TimeoutStartSec=300
"""
TIMER = f"""\
[Unit]
Description=Interval of the reports whether this host is idle

[Timer]
OnActiveSec=1
OnUnitInactiveSec=60
AccuracySec=1
Unit={UNIT}.service

[Install]
WantedBy=timers.target
"""


def converge(module: AnsibleModule, present: bool, emr: str) -> list[dict[str, str]]:
    """Install or remove the timer, and return the diffs. `emr` is the role of a node in its EMR cluster, if any.

    Raises ServiceError. In check mode, nothing is changed.
    """
    program = programs.build("_hosts.idle_reports.report").decode("utf-8", "surrogateescape")
    contents = {PROGRAM: program, _path("service"): SERVICE.format(emr=emr), _path("timer"): TIMER}
    wanted = [managed_files.HostFile(path, content if present else None) for path, content in contents.items()]
    if not present:
        stopped = services.converge_service(module, f"{UNIT}.timer", services.STOPPED)
        return [*stopped, *managed_files.converge(module, wanted)]
    changes = managed_files.converge(module, wanted)
    return [*changes, *services.converge_service(module, f"{UNIT}.timer", services.STARTED, changed=bool(changes))]


def _path(suffix: str) -> str:
    return os.path.join(services.DROP_INS, f"{UNIT}.{suffix}")
