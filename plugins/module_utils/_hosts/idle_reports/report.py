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

from ..._common import gpus
from ..._common.ssh_trust.files import USER_KEY
from ..._common.worker_metadata.metadata import MASTER_NAME
from ..._files import replace_file
from ..._job import directories, schema
from ..._text import clean_line

CONSOLE = "/dev/console"
# What the last run has found, and why the host is in use. All users can read it.
STATE = "/run/deeplearning-idle.json"
# Seconds between two reports. A host that is in use says so each minute as long as somebody may believe an earlier report that it is idle,
# in case a line is lost or damaged.
REPORT_SECONDS, BELIEVED_SECONDS = 600.0, 1500.0
# The share of a processor, and the bytes per second that they read and write, of all processes of a control group on an idle host. An open
# notebook uses 0.3 %, and a slow download at least 200 kB/s. An evaluation that waits for answers from the network uses 2 to 4 %, so a
# forgotten editor with a language server, which uses 2 %, must count as a use.
SHARE, BYTES = 0.01, 100_000.0
# Seconds after the last input on a terminal for which somebody uses it.
TYPING_SECONDS = 90.0
GPU_SECONDS = 60.0  # for nvidia-smi

# Daemons of the system run in these control groups. Their work is not that of users.
SYSTEM = ("system.slice", "init.scope")
# Files of services that a person has written, and of transient services, such as the set-up steps of the collection. They do work, unless
# their names begin like those of daemons that are installed there.
OWN_UNITS = ("/etc/systemd/system", "/run/systemd/transient")
DAEMONS = (
    "amazon-",
    "deeplearning-health",
    "deeplearning_health",
    "deeplearning_idle",
    "munge",
    "newrelic-",
    "oneagent",
    "sge_",
    "slurm",
    "snap.",
)
# Services of the system that run programs of users, and how the names of their own processes begin. Names have up to 15 characters.
STARTERS = {
    "amazon-ssm-agent.service": ("amazon-ssm", "ssm-"),
    "atd.service": ("atd",),
    "cloud-final.service": ("cloud-init",),
    "cron.service": ("cron",),
    "crond.service": ("crond",),
    "snap.amazon-ssm-agent.amazon-ssm-agent.service": ("amazon-ssm", "ssm-", "snapd"),
    "ssh.service": ("sshd",),
    "sshd.service": ("sshd",),
}
# The IDs of users who log in. Source: UID_MIN and UID_MAX in login.defs(5).
USERS = range(1000, 60001)
# Programs that only show or measure what others do. Left open, they compute all night, and read more of /proc than a slow download.
VIEWERS = ("atop", "btop", "glances", "gpustat", "htop", "nvidia-smi", "nvitop", "nvtop", "tensorboard", "top", "watch")
MONITORS = ("cadvisor", "dcgm-exporter", "node_exporter", "nv-hostengine", "nvidia_gpu_expo")
# The states of processes that wait for storage: disk sleep and, with some file systems, idle, in which else only threads of the kernel are.
WAITS = ("D", "I")
# Programs that run as long as a job of Slurm or SGE holds this host, and the control group of the slurmstepd that runs without a job.
# Source: https://slurm.schedmd.com/cgroup_v2.html
QUEUED = ("slurmstepd", "sge_shepherd")
WITHOUT_JOB = "slurmstepd.scope/system"
# The role of the master of an EMR cluster, and the file that it touches. Source: Amazon EMR Management Guide, "Using an auto-termination
# policy for Amazon EMR cluster cleanup".
EMR_MASTER = "master"
EMR_BUSY = "/emr/metricscollector/isbusy"
EMR_SECONDS = 60.0  # for touching it
KERNEL_THREAD = 0x00200000  # PF_KTHREAD in the kernel's sched.h


class Process(NamedTuple):
    """A process: its ID and start, its name, state and user, the seconds that it and its ended children have computed, and its bytes."""

    identity: str
    name: str
    state: str
    user: int
    seconds: float
    bytes: int

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
    used, reported, said = former.get("used", now), former.get("reported", 0.0), former.get("said", 0.0)
    if reason:
        used = now
        if now - reported < BELIEVED_SECONDS or now - said >= REPORT_SECONDS:
            said = now
            _report("in use")
    elif former.get("reason") or now - reported >= REPORT_SECONDS:
        reported = now
        _report(f"idle since {_iso(time.time() - (now - used))}")
    if reason != former.get("reason"):
        print(reason or "idle", flush=True)  # into the journal
    amounts = {each.identity: (each.seconds, each.bytes) for each in found}
    state = {"time": now, "used": used, "reported": reported, "said": said, "reason": reason, "processes": amounts}
    replace_file(STATE, json.dumps(state).encode(), 0o644)
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
                yield Process(f"{number} {fields[19]}", name, fields[0], user, seconds, _bytes(number))


def _bytes(number: str) -> int:
    with open(f"/proc/{number}/io", encoding="utf-8") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("rchar:", "wchar:")))


def why_used(found: Sequence[Process], former: Mapping[str, Any], now: float, is_emr: bool) -> str:
    """Return why this host is in use, apart from its GPUs, or an empty string. `former` is the state of the last run."""
    if not former:
        return "the reports have just begun"
    running = [*directories.running_jobs(), *directories.running_exports()]
    if running:
        return f"{running[0]} runs"
    queued = [*directories.listing(directories.HELD), *(each.name for each in found if each.name in QUEUED and has_job(each))]
    if queued:
        return f"a job of the queue holds this host ({queued[0]})"
    return why_working(found, former["processes"], max(now - former["time"], 1.0), is_emr) or why_typing()


def has_job(process: Process) -> bool:
    return not process.group().endswith(WITHOUT_JOB)


def why_working(found: Sequence[Process], former: Mapping[str, Sequence[float]], seconds: float, is_emr: bool) -> str:
    """Return which processes work, or an empty string. `former` contains the seconds and bytes of each process `seconds` ago."""
    used: dict[str, list[float]] = {}
    for process in found:
        computed, moved = (now - before for now, before in zip((process.seconds, process.bytes), former.get(process.identity, (0.0, 0))))
        group = process.group() if computed > 0 or moved > 0 or process.state in WAITS else ""
        if group and is_work(group, process, is_emr):
            if process.state in WAITS:
                return f"{process.name} waits for a disk or for shared storage ({group})"
            sums = used.setdefault(group, [0.0, 0.0])
            sums[0] += computed / seconds
            sums[1] += moved / seconds
    for group, (share, rate) in used.items():
        if share >= SHARE or rate >= BYTES:
            return f"{group} uses {share:.1%} of a processor, and reads and writes {rate / 1000:.0f} kB/s"
    return ""


def is_work(group: str, process: Process, is_emr: bool) -> bool:
    """Return whether a process in a control group does work, in contrast to the system's daemons.

    On EMR nodes, only transient services do work: the other ones are daemons of EMR and Hadoop, whose work EMR itself sees.
    """
    if process.name in (*VIEWERS, *MONITORS):
        return False
    first, _slash, rest = group.partition("/")
    unit = rest.split("/")[0]
    if first not in SYSTEM or unit.endswith(".scope") or (process.user in USERS and not is_emr):
        return True
    if unit in STARTERS:
        return not process.name.startswith(STARTERS[unit])
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
        is_open = element.find("processes/process_info") is not None
        if told[:1] and told[0].isdigit():
            # Without persistence mode, nvidia-smi itself initializes the GPU, and measures that
            if int(told[0]) and (is_open or element.findtext("persistence_mode") == "Enabled"):
                return f"GPU {number} computes"
        elif is_open:
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
