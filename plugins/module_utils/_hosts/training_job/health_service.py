# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Installs the service that runs health checks as root when a supervisor requests them.

The service uses no resources until then: systemd listens on the socket, and starts the program for a request.
"""

from __future__ import annotations

import hashlib
import os
import sys
from types import ModuleType
from typing import Any, Mapping

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import after_failure
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import host_health, systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.users import RunCommand

UNIT = "deeplearning-health"
DIRECTORY = "/run/deeplearning/health"

# The packages of the modules that run on hosts, without those that the program does not import.
COLLECTION = "ansible_collections.deeplearning.cluster.plugins.module_utils."
OTHERS = ("_aws.", "_hosts.training_job.", "_launchers.", "_queues.")


def program_modules() -> list[ModuleType]:
    """Return the modules of the program, and other modules that this process has imported."""
    others = tuple(COLLECTION + package for package in OTHERS)
    names = sorted(name for name in sys.modules if name.startswith(COLLECTION) and not name.startswith(others))
    return [sys.modules[name] for name in names if not hasattr(sys.modules[name], "__path__")]


def install(run: RunCommand, params: Mapping[str, Any]) -> None:
    """Install the service with the parameters of the module `training_job`, unless this service is already installed. Raises UnitError."""
    arguments = [params["instance_id"] or "", params["metadata_directory"], params["instance_type"], str(params["efa_devices"])]
    content = systemd.program(program_modules(), after_failure)
    digest = hashlib.sha256(b"\0".join([content, *map(str.encode, arguments)])).hexdigest()
    path = os.path.join(DIRECTORY, f"{digest}.zip")
    with systemd.exclusive():
        if os.path.exists(path) and run(["systemctl", "is-active", "--quiet", f"{UNIT}.socket"])[0] == 0:
            return
        run(["systemctl", "stop", f"{UNIT}.socket", f"{UNIT}.service"])
        run(["systemctl", "reset-failed", f"{UNIT}.socket", f"{UNIT}.service"])
        os.makedirs(DIRECTORY, mode=0o755, exist_ok=True)
        for name in os.listdir(DIRECTORY):
            os.unlink(os.path.join(DIRECTORY, name))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        command = ["systemd-run", "--quiet", f"--unit={UNIT}", "--description=Health checks after a failure of a job"]
        command += [f"--socket-property=ListenStream={host_health.SOCKET}", "--socket-property=RemoveOnStop=yes"]
        status, _unused, error = run([*command, sys.executable, path, *arguments])
        if status:
            os.unlink(path)
            raise systemd.UnitError(f"systemd-run could not start {UNIT}.socket: {error.strip()}")
