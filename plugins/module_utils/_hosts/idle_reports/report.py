# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reports on the serial console whether this host is idle. systemd runs this program as root every minute.

AWS shows the console to those who may read it, so the host needs no permissions. Only root can write to it. The function that reads the
reports is `_aws/idle/function.py`.

EMR itself looks whether its clusters are idle, but does not see processes outside of YARN. The nodes of EMR clusters touch a file on the
master while they are in use.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import subprocess
import time
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from ..._job import directories, schema
from ..._text import clean_line
from .. import gpus
from ..ssh_trust.files import USER_KEY
from ..worker_metadata.metadata import MASTER_NAME

CONSOLE = "/dev/console"
# What the last run has found, and why the host is in use. All users can read it.
STATE = "/run/deeplearning-idle.json"
# Seconds between two reports of an idle host. The console keeps 64 KB, so a host that is in use says so only once.
REPORT_SECONDS = 600.0
# The share of a processor that all processes of a control group may use on an idle host. An open notebook uses 0.3 %.
SHARE = 0.01
# Seconds after the last input on a terminal for which somebody uses it.
TYPING_SECONDS = 90.0
GPU_SECONDS = 60.0  # for nvidia-smi

# Daemons of the system run in these control groups. Their work is not that of users.
SYSTEM = ("system.slice", "init.scope")
# Files of services that a person has written, and of transient services, such as the set-up steps of the collection. They do work, unless
# their names begin like those of daemons that are installed there.
OWN_UNITS = ("/etc/systemd/system", "/run/systemd/transient")
DAEMONS = ("deeplearning-health", "deeplearning_health", "deeplearning_idle", "snap.")
# Services of the system that run programs of users, and the name of those of their processes that only wait for logins.
STARTERS = ("atd.service", "cron.service", "crond.service", "ssh.service", "sshd.service")
LOGIN = "sshd"
# The IDs of users who log in. Source: UID_MIN and UID_MAX in login.defs(5).
USERS = range(1000, 60001)
# Programs that run as long as a job of Slurm or SGE holds this host.
QUEUED = ("slurmstepd", "sge_shepherd")
# The role of the master of an EMR cluster, and the file that it touches. Source: Amazon EMR Management Guide, "Using an auto-termination
# policy for Amazon EMR cluster cleanup".
EMR_MASTER = "master"
EMR_BUSY = "/emr/metricscollector/isbusy"
EMR_SECONDS = 60.0  # for touching it
KERNEL_THREAD = 0x00200000  # PF_KTHREAD in the kernel's sched.h


class Process(NamedTuple):
    """A process: its ID and start, its name and state, the seconds that it and its ended children have computed, and its user."""

    identity: str
    name: str
    state: str
    seconds: float
    user: int

    def group(self) -> str:
        """Return the control group, such as `system.slice/ssh.service`, or an empty string if the process has ended."""
        # In a container, the groups of this host may be below one of the host of the container
        root = _group("1")[: -len("init.scope")]
        return _group(self.identity.partition(" ")[0])[len(root) :]


def main(arguments: Sequence[str]) -> int:
    """Report whether this host is idle, if this has changed or the last report is old. `arguments` contains the role of an EMR node."""
    emr = "".join(arguments)
    now, former, found = time.clock_gettime(time.CLOCK_BOOTTIME), _read_state(), list(processes())
    reason = why_used(found, former, now, bool(emr)) or why_gpus_used()
    used = now if reason else former.get("used", now)
    reported = former.get("reported", 0.0)
    if bool(reason) != bool(former.get("reason", "unknown")) or (not reason and now - reported >= REPORT_SECONDS):
        reported = now
        _report("in use" if reason else f"idle since {_iso(time.time() - (now - used))}")
    if reason != former.get("reason"):
        print(reason or "idle", flush=True)  # into the journal
    state = {"time": now, "used": used, "reported": reported, "reason": reason, "seconds": {each.identity: each.seconds for each in found}}
    schema.replace_file(STATE, json.dumps(state).encode(), 0o644)
    return _tell_emr(emr) if emr and reason else 0


def processes() -> Iterator[Process]:
    """Yield all processes except threads of the kernel."""
    tick = os.sysconf("SC_CLK_TCK")
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as file:
            start, _bracket, rest = file.read().rpartition(")")
            fields = rest.split()  # from the third field, the state
            if not int(fields[6]) & KERNEL_THREAD:
                seconds = sum(map(int, fields[11:15])) / tick
                name, user = clean_line(start.partition("(")[2]), os.stat(f"/proc/{number}").st_uid
                yield Process(f"{number} {fields[19]}", name, fields[0], seconds, user)


def why_used(found: Sequence[Process], former: Mapping[str, Any], now: float, is_emr: bool) -> str:
    """Return why this host is in use, apart from its GPUs, or an empty string. `former` is the state of the last run."""
    if not former:
        return "the reports have just begun"
    running = [*directories.running_jobs(), *directories.running_exports()]
    if running:
        return f"{running[0]} runs"
    for process in found:
        if process.name in QUEUED:
            return f"a job of the queue runs ({process.name})"
    used: dict[str, float] = {}
    for process in found:
        before = former["seconds"].get(process.identity, 0.0)
        waits = process.state == "D"
        if process.seconds > before or waits:
            group = process.group()
            if group and is_work(group, process, is_emr):
                if waits:
                    return f"{process.name} waits for a disk or for shared storage ({group})"
                used[group] = used.get(group, 0.0) + process.seconds - before
    group, seconds = max(used.items(), key=lambda item: item[1], default=("", 0.0))
    share = seconds / max(now - former["time"], 1.0)
    return f"{group} uses {share:.0%} of a processor" if share >= SHARE else why_typing()


def is_work(group: str, process: Process, is_emr: bool) -> bool:
    """Return whether a process in a control group does work, in contrast to the system's daemons.

    On EMR nodes, only transient services do work: the other ones are daemons of EMR and Hadoop, whose work EMR itself sees.
    """
    first, _slash, rest = group.partition("/")
    unit = rest.split("/")[0]
    if first not in SYSTEM or unit.endswith(".scope") or (process.user in USERS and not is_emr):
        return True
    if unit in STARTERS:
        return not process.name.startswith(LOGIN)
    units = OWN_UNITS[1:] if is_emr else OWN_UNITS
    return not unit.startswith(DAEMONS) and any(os.path.isfile(os.path.join(each, unit)) for each in units)


def why_typing() -> str:
    """Return on which terminal somebody has typed, or an empty string. In a container, the console is also a terminal."""
    for name in filter(str.isdigit, directories.listing("/dev/pts")):
        with contextlib.suppress(OSError):
            found = os.stat(f"/dev/pts/{name}")
            if time.time() - found.st_atime < TYPING_SECONDS and found.st_rdev != os.stat(CONSOLE).st_rdev:
                return f"somebody types on /dev/pts/{name}"
    return ""


def why_gpus_used() -> str:
    """Return which GPU computes, or an empty string. A GPU that does not tell is in use as long as a process has opened it."""
    try:
        found = gpus.query(GPU_SECONDS)
    except ValueError as error:
        return f"nvidia-smi: {error}"
    if found.error:
        return f"nvidia-smi: {found.error}"
    for number, element in enumerate(found.elements):
        told = (element.findtext("utilization/gpu_util") or "").split()
        if told[:1] and told[0].isdigit():
            if int(told[0]):
                return f"GPU {number} computes"
        elif element.find("processes/process_info") is not None:
            return f"a process uses GPU {number}"
    return ""


def _group(number: str) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{number}/cgroup", encoding="utf-8") as file:
        # With version 1 of control groups, the hierarchy of systemd has a name
        return str(max(re.findall(r"^(?:0::|\d+:name=systemd:)/(.*)$", file.read(), re.MULTILINE), key=len, default=""))
    return ""


def _report(what: str) -> None:
    """Print a line on the console. Without one, the host counts as in use."""
    with contextlib.suppress(OSError):
        descriptor = os.open(CONSOLE, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            os.write(descriptor, f"\r\ndeeplearning: {what}, reported at {_iso(time.time())}.\r\n".encode())
        finally:
            os.close(descriptor)


def _tell_emr(role: str) -> int:
    """Touch the file on the master, to which other nodes log in. Return the exit status of the command."""
    command = ["touch", EMR_BUSY]
    if role != EMR_MASTER:
        user = pwd.getpwuid(os.stat(USER_KEY).st_uid).pw_name
        command = ["ssh", "-oBatchMode=yes", "-oConnectTimeout=20", "-i", USER_KEY, f"{user}@{MASTER_NAME}", "sudo", "-n", *command]
    return subprocess.run(command, stdin=subprocess.DEVNULL, timeout=EMR_SECONDS, check=False).returncode


def _iso(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def _read_state() -> dict[str, Any]:
    """Return the state of the last run, or an empty dictionary after a boot."""
    try:
        return schema.parse_document(schema.read_content(STATE))
    except (OSError, ValueError):
        return {}
