# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks the service that connects GPUs through NVSwitches. Without it, nvidia-smi lists all GPUs, but CUDA programs end with error 802.

GPUs from the H100 on also report their connection themselves (see gpu.py).
"""

from __future__ import annotations

import shutil
import subprocess
from typing import NamedTuple

from ..._common import gpus
from ..._common.node_health.check import MONITOR, RESTART, CheckedNode, Problem
from . import gpu

SERVICE = "nvidia-fabricmanager"
PROGRAM = "systemctl"


class FabricManager(NamedTuple):
    """The state of the service, or an empty string on a host without NVSwitches. `error` is the reason why the state is unknown.

    `uptime` is in seconds since boot.
    """

    state: str = ""
    error: str = ""
    uptime: float = 0.0


def read(_node: CheckedNode) -> FabricManager:
    program = shutil.which(PROGRAM, path=gpus.DIRECTORIES)
    if program is None or not gpu.has_switches():
        return FabricManager()
    done = subprocess.run([program, "is-active", SERVICE], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    state, error = (stream.decode("utf-8", "replace").strip() for stream in (done.stdout, done.stderr))
    return FabricManager(state, "" if state else error or f"{PROGRAM} ended with exit status {done.returncode}", gpu.read_uptime())


def decide(found: FabricManager, _node: CheckedNode) -> list[Problem]:
    if found.error:
        return [(MONITOR, f"{SERVICE}: the state of the service is unknown: {found.error}.")]
    if found.state in ("", "active"):
        return []
    # systemd starts a service that fails again and again, and its state is `activating` in between.
    if found.state in ("failed", "inactive") or (found.state == "activating" and found.uptime >= gpu.REGISTRATION):
        advice = f"Install the version of the NVIDIA driver, and run: systemctl restart {SERVICE}"
        return [(RESTART, f"{SERVICE}: the service is {found.state}, so CUDA programs end with error 802. {advice}")]
    return [(MONITOR, f"{SERVICE}: the service is {found.state}.")]
