# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Xid errors from NVIDIA's driver in the kernel log, and what NVIDIA recommends for each of them.

The severities are based on the column "Immediate Action" in NVIDIA's Xid catalog
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html). `RESTART_APP` corresponds to `restart` while the process that the
message names is running, and to `monitor` after it has ended. `RESET_GPU`, `RESTART_VM` and the workflows of Xid 48 and 74 correspond to
`reboot`, which also resets the GPU. `RESTART_BM` (Xid 79), and a memory row that cannot be remapped (Xid 64), correspond to `replace`,
because a reboot does not change an instance's hardware. `IGNORE`, codes that the catalog does not use, and unknown codes correspond to
`monitor`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from typing import Any, Iterator, NamedTuple, Sequence

from ..._common.node_health.check import MONITOR, REBOOT, REPLACE, RESTART, SEVERITIES, CheckedNode, Problem
from .gpu import has_gpus

# The name of the check.
NAME = "xid"


class Xid(NamedTuple):
    """The meaning of an Xid code, and the worst severity of events with this code."""

    meaning: str
    severity: str


def _application(meaning: str, *codes: int) -> dict[int, Xid]:
    return {code: Xid(meaning, RESTART) for code in codes}


# Errors that an application causes. The GPU itself works.
APPLICATION = {
    **_application("GPU stopped processing", 8),
    **_application("invalid command stream", 11, 25, 32, 80),
    **_application("graphics engine exception, usually caused by an invalid memory access by the application", 13),
    **_application("GPU memory page fault, usually caused by an invalid memory access by the application", 31),
    **_application("copy engine exception", 39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)),
    **_application("video or image engine exception", 60, 68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139),
    **_application("graphics engine class error", 69),
    **_application("contained memory error", 94),
}
HARDWARE = {
    46: Xid("GPU stopped processing", REBOOT),
    48: Xid("double-bit ECC error", REBOOT),
    62: Xid("micro-controller halt", REBOOT),
    64: Xid("a memory row could not be remapped", REPLACE),
    74: Xid("NVLink error", REBOOT),
    79: Xid("the GPU has fallen off the bus", REPLACE),
    95: Xid("uncontained memory error", REBOOT),
    109: Xid("context switch timeout", REBOOT),
    110: Xid("security fault", REBOOT),
    119: Xid("GPU system processor (GSP) timeout", REBOOT),
    120: Xid("GPU system processor (GSP) error", REBOOT),
    136: Xid("NVLink training failed", REBOOT),
    140: Xid("unrecovered ECC error", REBOOT),
    143: Xid("GPU initialization error", REBOOT),
    151: Xid("key rotation error", REBOOT),
    155: Xid("NVLink was shut down by software", REBOOT),
    156: Xid("a GPU resource was retired", REBOOT),
    158: Xid("fatal GPU timeout", REBOOT),
}
INFORMATION = {
    43: Xid("an application was terminated after its own error", MONITOR),
    45: Xid("an application was terminated", MONITOR),
    63: Xid("a memory row was remapped", MONITOR),
    92: Xid("many single-bit ECC errors", MONITOR),
    137: Xid("invalid access over NVLink, usually by the application", MONITOR),
    157: Xid("a GPU resource could not be retired", MONITOR),
}
XIDS = {**APPLICATION, **HARDWARE, **INFORMATION}

# NVLink errors of Blackwell GPUs. The message says whether the error is fatal.
NVLINK5 = range(144, 151)
# The code of the events in which the driver recommends a recovery action for other errors, and the numbers of the actions that reset a GPU
# or reboot the host (nvmlDeviceGpuRecoveryAction_t). The words for an action depend on the driver's version.
RECOVERY_CHANGED = 154
RECOVERY_NUMBER = re.compile(r"to 0x([0-9A-Fa-f]{1,8}) \(")
RESETS = (1, 2, 4, 6, 7)

# The journal keeps messages that the kernel's own buffer has already overwritten. The format JSON has one line per message, even if the
# message contains line breaks.
JOURNAL = (
    "journalctl",
    "--dmesg",
    "--boot",
    "--no-pager",
    "--quiet",
    "--output=json",
    "--output-fields=MESSAGE,_TRANSPORT,SYSLOG_FACILITY",
)
DIRECTORIES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Fields of the kernel's own messages. Messages that root writes to /dev/kmsg have a different facility.
KERNEL = {"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0"}
# These expressions must match at the start of a message. Names of users' programs and files are in messages about crashed programs, but
# no more than 15 characters of them at the start, and a whole address is longer.
ADDRESS = r"\((?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)\)"
EVENT = re.compile(rf"NVRM: Xid {ADDRESS}: (\d+)(?:, (.*))?")
SWITCH_EVENT = re.compile(rf"nvidia-nvswitch\d*: SXid {ADDRESS}: (\d+), (Non-fatal|Fatal), (.*)")
# Messages without an Xid. A GPU that has fallen off the bus is described by one message with line breaks or by three messages, or by one
# line. They count as the Xids that mean the same.
FALLEN = re.compile(r"NVRM: The NVIDIA GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\b")
FALLEN_LINE = re.compile(r"NVRM: GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.[0-7])?: GPU has fallen off the bus")
INSTALLED, FALLEN_END = "NVRM: (PCI ID: ", "NVRM: fallen off the bus and is not responding to commands"
FALLEN_OFF_BUS = 79
RESET_REQUIRED = re.compile(r"NVRM: \w+: .*\[NV_ERR_RESET_REQUIRED\]")
PROCESS = re.compile(r"pid='?(\d+)'?, name=([^,]{1,64})")


class XidEvent(NamedTuple):
    """An error in the kernel log. `is_running` is true if the process that the message names is still running. Messages without an Xid have
    the code 0 if no Xid means the same, and no device if they name none.
    """

    device: str
    code: int
    text: str
    is_running: bool = False
    is_switch: bool = False


class KernelLog(NamedTuple):
    """The errors of GPUs and NVSwitches since the host was booted, oldest first. `error` is the reason why the log could not be read."""

    events: Sequence[XidEvent]
    error: str = ""


def read(node: CheckedNode) -> KernelLog:
    """Return the errors in the kernel log. A log that cannot be read is an error only on hosts with GPUs."""
    program = shutil.which(JOURNAL[0], path=DIRECTORIES)
    if program is None:
        return KernelLog((), f"{JOURNAL[0]} is not installed" if has_gpus(node) else "")
    done = subprocess.run([program, *JOURNAL[1:]], capture_output=True, check=False)
    events = parse(done.stdout)
    if not done.returncode or not has_gpus(node):
        return KernelLog(events)
    said = done.stderr.decode("utf-8", "replace").strip().rstrip(".")
    return KernelLog(events, said or f"{JOURNAL[0]} ended with exit status {done.returncode}")


def parse(log: bytes) -> list[XidEvent]:
    """Return the errors in the output of `journalctl --output=json`."""
    events, device = [], ""
    for message in kernel_messages(log):
        found, switch = EVENT.match(message), SWITCH_EVENT.match(message)
        if found:
            text = found[3] or ""
            events.append(XidEvent(found[1], int(found[2]), text, _is_running(text)))
        elif switch:
            events.append(XidEvent(switch[1], int(switch[2]), f"{switch[3]}, {switch[4]}", is_switch=True))
        elif RESET_REQUIRED.match(message):
            events.append(XidEvent("", 0, message))
        else:
            device = _fallen(message, device, events)
    return events


def _fallen(message: str, device: str, events: list[XidEvent]) -> str:
    """Add an event if the message says that a GPU has fallen off the bus. Return the GPU that the next message continues to describe.

    `device` is the GPU that the messages before this one have begun to describe, or an empty string. Only the driver's own messages count.
    """
    if not message.startswith("NVRM: "):
        return device
    for line in message.split("\n"):
        begun, whole = FALLEN.match(line), FALLEN_LINE.match(line)
        if begun:
            device = begun[1]
        elif whole or (device and line.startswith(FALLEN_END)):
            events.append(XidEvent(whole[1] if whole else device, FALLEN_OFF_BUS, line))
            device = ""
        elif not line.startswith(INSTALLED):
            device = ""
    return device


def kernel_messages(log: bytes) -> Iterator[str]:
    """Yield the messages of the kernel itself. A line that is not complete, because journalctl has failed, is skipped.

    Values that are not printable UTF-8 are lists of bytes, and values of more than 4096 bytes are null. Source: journalctl(1).
    """
    for line in log.split(b"\n"):
        try:
            record = json.loads(line.decode("utf-8", "replace"))
        except ValueError:
            continue
        if isinstance(record, dict) and all(record.get(field) == value for field, value in KERNEL.items()):
            yield _text(record.get("MESSAGE"))


def _text(value: Any) -> str:
    if isinstance(value, list):
        with contextlib.suppress(TypeError, ValueError):  # a field that occurs several times is a list of values
            return bytes(value).decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def process_id(text: str) -> int | None:
    process = PROCESS.search(text)
    return int(process[1]) if process else None


def _is_running(text: str) -> bool:
    """Return whether the process that a message names is running. A new process with the same ID is unlikely to have the same name."""
    process = PROCESS.search(text)
    if not process:
        return False
    try:
        with open(f"/proc/{int(process[1])}/comm", encoding="utf-8", errors="replace") as file:
            name = file.read().strip()
    except OSError:
        return False
    return name == os.path.basename(process[2].strip())[:15]  # the kernel shortens names to 15 characters


def severity_of(event: XidEvent) -> str:
    """Return the severity of an event. Unknown codes have the severity `monitor`."""
    if event.is_switch:
        return REBOOT if event.text.startswith("Fatal") else MONITOR
    if not event.code:
        return REBOOT
    if event.code in NVLINK5:
        return REBOOT if re.search(r"\bFatal\b", event.text) else MONITOR
    if event.code == RECOVERY_CHANGED:
        action = RECOVERY_NUMBER.search(event.text)
        return REBOOT if action and int(action[1], 16) in RESETS else MONITOR
    severity = XIDS[event.code].severity if event.code in XIDS else MONITOR
    return MONITOR if severity == RESTART and not event.is_running else severity


def decide(log: KernelLog, _node: CheckedNode) -> list[Problem]:
    """Return one problem for each combination of device and code, worst first, and one problem if the log could not be read.

    If there are several events, the problem states their number and describes the worst one. Xid 154 is the exception: each event replaces
    the recommendation of the events before it.
    """
    chosen: dict[tuple[str, int], XidEvent] = {}
    counts: dict[tuple[str, int], int] = {}
    for event in log.events:
        key = (event.device, event.code)
        counts[key] = counts.get(key, 0) + 1
        if key not in chosen or event.code == RECOVERY_CHANGED or _rank(event) >= _rank(chosen[key]):
            chosen[key] = event
    problems = [(severity_of(event), _message(event, counts[key])) for key, event in chosen.items()]
    if log.error:
        problems.append((MONITOR, f"the kernel log could not be read: {log.error}. Xid errors would not be found."))
    return sorted(problems, key=lambda problem: -SEVERITIES.index(problem[0]))


def _rank(event: XidEvent) -> int:
    return SEVERITIES.index(severity_of(event))


def _message(event: XidEvent, count: int) -> str:
    if not event.code:
        return f"GPUs: the driver requires a reset{'' if count == 1 else f', {count} times since boot'}. {event.text[:200]}"
    subject = f"{'NVSwitch' if event.is_switch else 'GPU'} {event.device}"
    kind = f"{'SXid' if event.is_switch else 'Xid'} {event.code}"
    known = "" if event.is_switch or event.code not in XIDS else f" ({XIDS[event.code].meaning})"
    times = "" if count == 1 else f", {count} times since boot"
    return f"{subject}: {kind}{known}{times}. {event.text[:200]}".rstrip()
