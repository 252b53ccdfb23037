# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The files that every host of a Grid Engine cluster has, and the units of its daemons."""

from __future__ import annotations

import inspect
import os

from ..._common.managed_files import HostFile
from ..._common.sge import configuration
from ..services import MUNGE
from . import shepherd

CONTROLLER, NODE = "sge_qmaster.service", "sge_execd.service"
USER = "sgeadmin"
COMMON = f"{configuration.ROOT_DIRECTORY}/{configuration.CELL}/common"
BOOTSTRAP, MASTER, ENVIRONMENT = f"{COMMON}/bootstrap", f"{COMMON}/act_qmaster", "/etc/default/gridengine"
PROGRAMS = {CONTROLLER: "sge_qmaster", NODE: "sge_execd"}

# The package's init scripts start nothing, because `environment` does not enable them. Jobs continue if execd stops or restarts.
UNIT = """\
{header}[Unit]
Description={program}, a daemon of Grid Engine{comment}
Requires={munge}
After={munge} network-online.target remote-fs.target
Wants=network-online.target
{requires}StartLimitIntervalSec=0

[Service]
Environment=SGE_ROOT={root} SGE_CELL={cell} SGE_QMASTER_PORT={master} SGE_EXECD_PORT={exec} SGE_ND=1
ExecStart=/usr/lib/gridengine/{program}
StandardOutput=null
Restart=on-failure
RestartSec=5
LimitMEMLOCK=infinity
TasksMax=infinity
{kill}
[Install]
WantedBy=multi-user.target
"""


def unit_path(unit: str) -> str:
    return os.path.join("/etc/systemd/system", unit)


def unit(name: str, state_directory: str = "", comment: str = "") -> HostFile:
    """Return the unit of a daemon. The daemon restarts if `comment` changes."""
    values = {"root": configuration.ROOT_DIRECTORY, "cell": configuration.CELL}
    values.update(master=str(configuration.MASTER_PORT), exec=str(configuration.EXEC_PORT))
    requires = f"RequiresMountsFor={state_directory}\n" if state_directory else ""
    kill = "KillMode=process\n" if name == NODE else ""
    content = UNIT.format(
        header=configuration.HEADER, program=PROGRAMS[name], munge=MUNGE, requires=requires, kill=kill, comment=comment, **values
    )
    return HostFile(unit_path(name), content)


def files(state_directory: str, master: str) -> list[HostFile]:
    """Return the files that the daemons and commands of a host read.

    The last file contains the name of the host on which qmaster runs. qmaster itself overwrites this file.
    """
    return [
        HostFile(ENVIRONMENT, configuration.environment()),
        HostFile(BOOTSTRAP, configuration.bootstrap(state_directory)),
        HostFile(MASTER, f"{master}\n", owner=USER),
    ]


def shepherd_file(gpus: int) -> HostFile:
    """Return the program that starts jobs on a host with this number of GPUs."""
    return HostFile(configuration.SHEPHERD, f"#!/usr/bin/python3 -I\n{inspect.getsource(shepherd)}\n\nmain({gpus})\n", 0o755)


def absent(name: str) -> list[HostFile]:
    """Return the files to delete when a daemon is removed."""
    return [HostFile(unit_path(name), None), *([HostFile(configuration.SHEPHERD, None)] if name == NODE else [])]
