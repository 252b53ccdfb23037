# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The program that runs health checks as root without the controller: after a failure of a job, after a boot, and while jobs run.

systemd starts the program with one of the ACTIONS (see _hosts/training_job/start/install_health_service.py).
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ..._common.node_health.check import AFTER_FAILURE, BOOT, PERIODIC, RESTART, CheckedNode, HealthFinding
from ..._job import jobs_after_reboot, periodic_findings
from . import answers_to_supervisors, exclusion_by_checks, reboot, registry, run, shared_storage, xid

# The file descriptor of the socket. Source: sd_listen_fds(3).
LISTENER = 3

# The unit that reboots the host. The program that answers a supervisor starts this unit, and does not wait for it.
REBOOT_UNIT = "deeplearning_health_reboot.service"


class Settings(NamedTuple):
    instance_id: str
    metadata_directory: str
    instance_type: str
    efa_devices: int
    # Whether to reboot a host that needs it and has left its job.
    reboot: bool

    def node(self) -> CheckedNode:
        return CheckedNode("root", self.instance_type, self.efa_devices, metadata_directory=self.metadata_directory)


def examine(settings: Settings, context: str) -> list[HealthFinding]:
    """Run the checks of a context, exclude the host if a finding requires it, and return all findings.

    The exclusions of checks that pass end. If an exclusion lasts until the next boot, its finding does so, too.
    """
    checks = registry.checks_for(context, shared_storage.read_places())
    findings = run.run(checks, settings.node())
    memory = exclusion_by_checks.update(settings.instance_id, checks, findings, time.time())
    return [*findings, *exclusion_by_checks.find_remembered(memory, checks, findings)]


def answer(settings: Settings) -> None:
    """Answer supervisors with the findings that require a reboot or a replacement of the host."""

    def find() -> list[dict[str, Any]]:
        findings = [finding for finding in examine(settings, AFTER_FAILURE) if exclusion_by_checks.requires_exclusion(finding)]
        kept = ""
        if settings.reboot and not reboot.find_refusal(findings, time.time()):
            # The supervisors of the job end when they have received the answer, so the job is kept before. Without a job, the host reboots
            # when nothing runs on it. A reboot that already waits begins to wait again.
            kept = jobs_after_reboot.keep()
            if not _call(["systemctl", "restart", "--no-block", REBOOT_UNIT]):
                jobs_after_reboot.discard()
                kept = ""
        return [{**finding._asdict(), "reboots": kept} for finding in findings]

    answers_to_supervisors.serve(socket.socket(fileno=LISTENER), find)
    jobs_after_reboot.delete_ended_unless_starting()


def check_boot(settings: Settings) -> None:
    reboot.write_document(reboot.BOOT_RESULT, {"time": time.time(), "findings": [each._asdict() for each in examine(settings, BOOT)]})


def check_periodically(settings: Settings) -> None:
    """Run the checks for hosts with running jobs, and tell the supervisors about the findings.

    An Xid error that an application has caused concerns only the job of the process that the error names.
    """
    findings = examine(settings, PERIODIC)

    def pid(finding: HealthFinding) -> int | None:
        return xid.process_id(finding.message) if (finding.check, finding.severity) == (xid.NAME, RESTART) else None

    periodic_findings.write([{**each._asdict(), "pid": pid(each)} for each in findings], time.time())
    jobs_after_reboot.delete_ended_unless_starting()


def reboot_host(_settings: Settings) -> None:
    """Reboot the host when nothing runs on it. The checks have required this, and its job relies on it.

    When systemctl has returned, systemd starts no unit any more.
    """
    is_rebooting = False
    try:
        with reboot.idle_host() as hindrance:
            refusal = hindrance or reboot.record(time.time())
            is_rebooting = not refusal and _call(["systemctl", "reboot"])
        if refusal:
            sys.stderr.write(f"the host is not rebooted: {refusal}\n")
    finally:
        if not is_rebooting:
            jobs_after_reboot.discard()


def _call(command: Sequence[str]) -> bool:
    """Run a command, and return whether it succeeded. The unit's log shows its error message."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=reboot.PATIENCE).returncode == 0


ACTIONS: Mapping[str, Callable[[Settings], None]] = {
    "answer": answer,
    "boot": check_boot,
    "periodic": check_periodically,
    "reboot": reboot_host,
}


def main(arguments: Sequence[str]) -> int:
    action, path = arguments
    with open(path, encoding="utf-8") as file:
        settings = Settings(**json.load(file))
    ACTIONS[action](settings)
    return 0
