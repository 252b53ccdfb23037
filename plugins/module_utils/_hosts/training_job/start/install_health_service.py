# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Installs the service that runs health checks as root: when a supervisor requests them, after each boot, and while jobs run.

The service uses no resources between checks: systemd listens on the socket, and starts the program for a request or at an interval.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Collection, Mapping, Sequence

from ...._files import replace_file
from ...._job import directories, exclusions, jobs_after_reboot
from ... import programs, services
from ...node_health import service
from ...transient_units import exclusive, systemctl
from ..run import host_health
from ..units import users

if TYPE_CHECKING:
    # Ansible copies only modules that are imported to hosts. This process reads the source code of the program, and need not run it.
    from . import rejoin  # noqa: F401

# The directory of the unit files, and the files of the program in the directory of the exclusions. Only root can read the program.
UNITS = services.DROP_INS
PROGRAM, REJOIN_PROGRAM, SETTINGS = "health.zip", "rejoin.zip", "settings.json"

# Maximum time in seconds for the service to end when nobody requests checks any more, and seconds between two polls.
PATIENCE, INTERVAL = 60.0, 0.5

# The units. No job's unit has a name with an underscore, because names of jobs contain none.
UNIT, BOOT, PERIODIC = "deeplearning-health", "deeplearning_health_boot", "deeplearning_health_periodic"
REBOOT, REJOIN = service.REBOOT_UNIT, "deeplearning_rejoin"

# A process that waits for storage or a driver may ignore SIGKILL. systemd must not wait for this process before it starts the next checks.
SERVICE = """\
[Unit]
Description={description}
{unit}
[Service]
Type={type}
KillMode=process
ExecStart={command}
"""
# Every user can request the checks. With the limits of systemd, a user who makes many requests could stop the socket.
UNLIMITED = "StartLimitIntervalSec=0\n"
SOCKET = """\
[Unit]
Description=Requests of health checks after a failure of a job

[Socket]
ListenStream={socket}
RemoveOnStop=yes
TriggerLimitIntervalSec=0

[Install]
WantedBy=sockets.target
"""
# A target waits for the units that it wants, unless these units must start after the target. The target of the boot must not wait for
# checks or storage. If only one of the two units started after the target, the order of the units would be a cycle.
AFTER_TARGET = "After=multi-user.target"
# NVIDIA's services must have initialized the GPUs.
AFTER_BOOT = f"{AFTER_TARGET} nvidia-persistenced.service nvidia-fabricmanager.service remote-fs.target\n"
WANTED = """
[Install]
WantedBy=multi-user.target
"""
REMAINS = "RemainAfterExit=yes\n"
# Starts the supervisors of jobs after a reboot, when the health checks have ended exclusions.
AFTER_CHECKS = f"ConditionDirectoryNotEmpty={{kept}}\n{AFTER_TARGET} deeplearning_health_boot.service\n"
# Starts the program only if a unit of a job has a directory on this host, or if a file of a job that has ended must be deleted. Conditions
# of systemd are not used, because a unit whose condition is not met counts as never started, and its timer would start it again at once.
WHILE_JOBS_RUN = "/bin/sh -c 'find {jobs} {started} -mindepth 1 2>/dev/null | grep -q . || exit 0; exec {command}'"
TIMER = """\
[Unit]
Description=Interval of health checks while jobs run

[Timer]
OnActiveSec={interval}
OnUnitInactiveSec={interval}
AccuracySec=1

[Install]
WantedBy=timers.target
"""


def unit_files(interval: int, reboot: bool) -> dict[str, str]:
    """Return the contents of the unit files, by their names. Without an interval, no checks run while jobs run."""
    directory = os.path.dirname(exclusions.PATH)

    def command(action: str) -> str:
        return f"{sys.executable} {os.path.join(directory, PROGRAM)} {action} {os.path.join(directory, SETTINGS)}"

    def unit(description: str, kind: str, command: str, order: str = "") -> str:
        return SERVICE.format(description=description, unit=order, type=kind, command=command)

    found = {
        f"{UNIT}.socket": SOCKET.format(socket=host_health.SOCKET),
        f"{UNIT}.service": unit("Health checks after a failure of a job", "simple", command("answer"), UNLIMITED),
        f"{BOOT}.service": unit("Health checks after a boot", "oneshot", command("boot"), AFTER_BOOT) + REMAINS + WANTED,
    }
    if reboot:
        start = f"{sys.executable} {os.path.join(directory, REJOIN_PROGRAM)}"
        order = AFTER_CHECKS.format(kept=jobs_after_reboot.directory())
        found[REBOOT] = unit("Reboot after a failure of a job", "oneshot", command("reboot"))
        found[f"{REJOIN}.service"] = unit("Start of jobs after a reboot", "simple", start, order) + WANTED
    if interval:
        jobs = os.path.dirname(directories.runtime_directory("job", "process"))
        periodic = WHILE_JOBS_RUN.format(jobs=jobs, started=jobs_after_reboot.STARTED, command=command("periodic"))
        found[f"{PERIODIC}.service"] = unit("Health checks while jobs run", "oneshot", periodic)
        found[f"{PERIODIC}.timer"] = TIMER.format(interval=interval)
    return found


def desired_files(params: Mapping[str, Any]) -> dict[str, tuple[bytes, int]]:
    """Return the contents and modes of the service's files, by their paths, with the parameters of the module `training_job`."""
    names = ("metadata_directory", "instance_type", "efa_devices", "reboot")
    settings = service.Settings(instance_id=params["instance_id"] or "", **{name: params[name] for name in names})
    directory, units = os.path.dirname(exclusions.PATH), unit_files(params["health_interval"], params["reboot"])
    files = {os.path.join(UNITS, name): (content.encode(), 0o644) for name, content in units.items()}
    files[os.path.join(directory, PROGRAM)] = programs.build("_hosts.node_health.service"), 0o600
    files[os.path.join(directory, SETTINGS)] = json.dumps(settings._asdict()).encode(), 0o600
    if params["reboot"]:
        files[os.path.join(directory, REJOIN_PROGRAM)] = programs.build("_hosts.training_job.start.rejoin"), 0o600
    return files


def find_obsolete_files(files: Collection[str]) -> list[str]:
    """Return the paths of the files that an installation with different parameters has left, and that are not among these files."""
    known = [os.path.join(UNITS, name) for name in unit_files(interval=1, reboot=True)]
    known.append(os.path.join(os.path.dirname(exclusions.PATH), REJOIN_PROGRAM))
    return [path for path in known if path not in files and os.path.exists(path)]


def install(run: users.RunCommand, params: Mapping[str, Any]) -> None:
    """Install the service with the parameters of the module `training_job`, unless this service is already installed.

    Raises UnitError, or OSError if the disk is full or read-only.
    """
    files = desired_files(params)
    socket = os.path.join(UNITS, f"{UNIT}.socket")
    with exclusive():
        changed = {path for path, (content, _mode) in files.items() if _read(path) != content}
        is_active = is_listening()
        obsolete = find_obsolete_files(files)
        if is_active and not changed and not obsolete:
            return
        run(["systemctl", "disable", "--now", "--quiet", f"{PERIODIC}.timer"])
        if not is_active or socket in changed:
            _stop(run)
        _remove(run, obsolete)
        os.makedirs(os.path.dirname(exclusions.PATH), mode=0o755, exist_ok=True)
        for path, (content, mode) in files.items():
            replace_file(path, content, mode)
        _start(run, params)


def is_listening() -> bool:
    """Return whether the socket is active. systemd deletes the socket's path when it closes the socket (`RemoveOnStop`)."""
    return os.path.exists(host_health.SOCKET)


def _remove(run: users.RunCommand, paths: Sequence[str]) -> None:
    """Disable and stop the units among these files, and delete the files."""
    units = [os.path.basename(path) for path in paths if os.path.dirname(path) == UNITS]
    if units:
        run(["systemctl", "disable", "--now", "--quiet", *units])
    for path in paths:
        os.unlink(path)
    if f"{REJOIN}.service" in units:
        jobs_after_reboot.discard()  # the service that would delete these files after a boot does not exist any more


def _stop(run: users.RunCommand) -> None:
    """Stop the socket and the service, which must not be active when the socket starts. A check that a supervisor waits for ends before."""
    services.wait_until(lambda: run(["systemctl", "is-active", "--quiet", f"{UNIT}.service"])[0] != 0, PATIENCE, INTERVAL)
    run(["systemctl", "stop", f"{UNIT}.socket", f"{UNIT}.service"])
    run(["systemctl", "reset-failed", f"{UNIT}.socket", f"{UNIT}.service"])


def _start(run: users.RunCommand, params: Mapping[str, Any]) -> None:
    """Start the units that wait for requests, and enable those that run at boot. Raises UnitError."""
    started = [f"{UNIT}.socket", *([f"{PERIODIC}.timer"] if params["health_interval"] else [])]
    at_boot = [f"{BOOT}.service", *([f"{REJOIN}.service"] if params["reboot"] else [])]
    for command in (["daemon-reload"], ["enable", "--quiet", *at_boot], ["enable", "--now", "--quiet", *started]):
        systemctl(run, *command)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""
