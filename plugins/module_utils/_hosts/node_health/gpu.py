# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""GPU checks, based on the output of `nvidia-smi`.

The formats are those of `nvidia-smi -q -x` and `nvidia-smi nvlink --status` with drivers 470 and later
(https://docs.nvidia.com/deploy/nvidia-smi/index.html). Values that a driver does not report are treated as healthy.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import subprocess
from typing import NamedTuple, Sequence
from xml.etree import ElementTree

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.check import (
    MONITOR,
    REBOOT,
    REPLACE,
    RESTART,
    SEVERITIES,
    CheckedNode,
    Problem,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.instance_types import gpu_count
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.system import CONFIGURE, read_configured_gpus
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import JOBS_SLICE

PROGRAM = "nvidia-smi"
# Directories that may be missing from PATH without a login shell.
DIRECTORIES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What nvidia-smi prints about a GPU that no longer responds on the PCI Express bus.
LOST = ("GPU is lost", "Unable to determine the device handle")
# What nvidia-smi prints about the links of a GPU that has no NVLinks, or none that are active.
NO_LINKS = "unable to retrieve nvlink information"
# The recovery actions that nvidia-smi reports, except `None` (`nvidia-smi -q`, "GPU Recovery Action").
RECOVERY = {"Reset": REBOOT, "Reboot": REBOOT, "Drain and Reset": REBOOT, "Drain P2P": MONITOR}
# The health of the NVLink fabric. Source: `NVML_GPU_FABRIC_HEALTH_SUMMARY_*` in the reference of NVML. An H100 with driver 580 reported
# `N/A`, so the spelling of the other values in the output of nvidia-smi is assumed.
FABRIC_HEALTH = {"unhealthy": REBOOT, "limited capacity": MONITOR}
# Counters of uncorrectable errors since the driver was loaded. The names depend on the generation of the GPU.
UNCORRECTABLE = (
    "ecc_errors/volatile/dram_uncorrectable",
    "ecc_errors/volatile/sram_uncorrectable",
    "ecc_errors/volatile/sram_uncorrectable_parity",
    "ecc_errors/volatile/sram_uncorrectable_secded",
    "ecc_errors/volatile/double_bit/total",
)


class GpuProcess(NamedTuple):
    """A process that computes on a GPU. `unit` is the control group of the process."""

    pid: int
    name: str
    user: str
    memory: str
    unit: str


class Gpu(NamedTuple):
    """The state of a GPU, as nvidia-smi reports it."""

    bus: str
    uncorrectable: int = 0
    remap_pending: bool = False
    remap_failed: bool = False
    threshold_exceeded: bool = False
    reset_required: bool = False
    recovery: str = ""
    fabric_error: str = ""
    fabric_health: str = ""
    processes: Sequence[GpuProcess] = ()


class Gpus(NamedTuple):
    """The GPUs of a host. `error` is what nvidia-smi printed if it failed. `configured` is the number of GPUs in the worker metadata."""

    is_installed: bool
    error: str
    gpus: Sequence[Gpu]
    configured: int | None


class LinkStatus(NamedTuple):
    """What nvidia-smi prints about the NVLinks. `error` is the reason why it could not read their status."""

    text: str
    error: str = ""


class Links(NamedTuple):
    """The NVLinks of a GPU: the number of active links and the total number."""

    gpu: str
    active: int
    total: int


def has_gpus(node: CheckedNode) -> bool:
    """Return whether the host should have GPUs, according to its instance type or its worker metadata."""
    return bool(gpu_count(node.instance_type) or read_configured_gpus(node))


def read_gpus(node: CheckedNode) -> Gpus:
    """Return the GPUs of this host and the processes on them."""
    configured = read_configured_gpus(node)
    program = shutil.which(PROGRAM, path=DIRECTORIES)
    if program is None:
        return Gpus(False, "", (), configured)
    done = subprocess.run([program, "-q", "-x"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = done.stdout.decode("utf-8", "replace")
    said = without_processes(text)
    if done.returncode or any(words in said for words in LOST):
        lines = [line.strip() for line in said.splitlines() if line.strip() and not line.lstrip().startswith("<?")]
        described = next((line for line in lines if any(words in line for words in LOST)), lines[0] if lines else "")
        return Gpus(True, re.sub(r"<[^>]*>", "", described) or f"exit status {done.returncode}", (), configured)
    return Gpus(True, "", parse(text), configured)


def without_processes(text: str) -> str:
    """Return the output of `nvidia-smi -q -x` without the processes, because users choose the names of their processes.

    If the output is not valid XML, everything from the first to the last process is left out.
    """
    try:
        log = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        before, _tag, rest = text.partition("<processes>")
        _processes, end, after = rest.rpartition("</processes>")
        return before + (after if end else "")
    for element in log.findall("gpu"):
        for processes in element.findall("processes"):
            element.remove(processes)
    return ElementTree.tostring(log, encoding="unicode")


def parse(text: str) -> list[Gpu]:
    """Return the GPUs in the output of `nvidia-smi -q -x`. Raises ElementTree.ParseError."""
    return [_gpu(element) for element in ElementTree.fromstring(text).findall("gpu")]


def _gpu(element: ElementTree.Element) -> Gpu:
    def value(path: str) -> str:
        return (element.findtext(path) or "").strip()

    def has(path: str) -> bool:
        return value(path) == "Yes"

    fabric = value("fabric/status")
    return Gpu(
        bus=element.get("id", "?"),
        uncorrectable=sum(int(value(path)) for path in UNCORRECTABLE if value(path).isdigit()),
        remap_pending=has("remapped_rows/remapped_row_pending") or has("retired_pages/pending_retirement"),
        remap_failed=has("remapped_rows/remapped_row_failure"),
        threshold_exceeded=has("ecc_errors/aggregate/sram_threshold_exceeded"),
        reset_required=has("gpu_reset_status/reset_required"),
        recovery=value("gpu_recovery_action"),
        fabric_error=fabric if value("fabric/state") == "Completed" and fabric != "Success" else "",
        fabric_health=value("fabric/health/summary").lower(),
        processes=[_process(each) for each in element.findall("processes/process_info") if "C" in (each.findtext("type") or "")],
    )


def _process(element: ElementTree.Element) -> GpuProcess:
    pid = element.findtext("pid") or ""
    number = int(pid) if pid.isdigit() else 0
    return GpuProcess(
        number, element.findtext("process_name") or "?", _owner(number), element.findtext("used_memory") or "?", _unit(number)
    )


def _owner(pid: int) -> str:
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return "?"
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)


def _unit(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def decide_count(found: Gpus, node: CheckedNode) -> list[Problem]:
    """Return a problem if GPUs are missing, or if their number differs from the number in the worker metadata."""
    offered, configured, count = gpu_count(node.instance_type), found.configured or 0, len(found.gpus)
    of_type = f"instance type {node.instance_type} has {offered}"
    if not found.is_installed:
        if configured:
            return [(RESTART, f"{PROGRAM}: is not installed, but the host had {configured} GPUs. Install the NVIDIA driver again.")]
        # The host was configured without GPUs, so its jobs run on the CPU.
        return [(MONITOR, f"{PROGRAM}: is not installed, but {of_type} GPUs. Use an image with the NVIDIA driver.")] if offered else []
    if found.error:
        if any(words in found.error for words in LOST):
            return [(REPLACE, f"{PROGRAM}: {found.error}")]
        return [(REBOOT if configured or offered else MONITOR, f"{PROGRAM}: {found.error}")]
    if offered is not None and count < offered:
        return [(REPLACE, f"GPUs: {PROGRAM} lists {count}, but {of_type}.")]
    if count < configured:
        return [(REPLACE, f"GPUs: {PROGRAM} lists {count}, but the host had {configured} GPUs when it was configured.")]
    if found.configured is not None and count > configured:
        return [(MONITOR, f"GPUs: {PROGRAM} lists {count}, but jobs use only the {configured} in the worker metadata. {CONFIGURE}")]
    return []


def decide_errors(found: Gpus, _node: CheckedNode) -> list[Problem]:
    """Return the worst memory error or other problem that each GPU reports."""
    worst = [max(_errors(gpu), key=lambda problem: SEVERITIES.index(problem[0]), default=None) for gpu in found.gpus]
    return [problem for problem in worst if problem]


def _errors(gpu: Gpu) -> list[Problem]:
    """Return the problems that a GPU reports. Source: NVIDIA GPU Memory Error Management (row remapping, RMA policy)."""
    name = f"GPU {gpu.bus}"
    conditions = [
        (gpu.remap_failed, REPLACE, "a memory row could not be remapped."),
        (gpu.threshold_exceeded, REPLACE, "the number of uncorrectable SRAM errors exceeds NVIDIA's threshold."),
        (gpu.uncorrectable > 0, REBOOT, f"has had {gpu.uncorrectable} uncorrectable memory errors since the driver was loaded."),
        (gpu.remap_pending, REBOOT, "memory with errors remains in use until the GPU is reset."),
        (gpu.reset_required, REBOOT, "needs a reset."),
        (gpu.recovery in RECOVERY, RECOVERY.get(gpu.recovery, MONITOR), f"the driver recommends the action {gpu.recovery!r}."),
        (bool(gpu.fabric_error), REBOOT, f"is not connected to the NVLink fabric: {gpu.fabric_error}. Check nvidia-fabricmanager."),
        (
            gpu.fabric_health in FABRIC_HEALTH,
            FABRIC_HEALTH.get(gpu.fabric_health, MONITOR),
            f"the health of the NVLink fabric is {gpu.fabric_health!r}.",
        ),
    ]
    return [(severity, f"{name}: {words}") for applies, severity, words in conditions if applies]


def decide_processes(found: Gpus, _node: CheckedNode) -> list[Problem]:
    """Return a problem for each process that uses a GPU but belongs to no job.

    The severity is only `MONITOR`, because a user may have started the process on purpose.
    """
    others = {
        process.pid: (process, gpu.bus)
        for gpu in reversed(found.gpus)
        for process in gpu.processes
        if process.unit and JOBS_SLICE not in process.unit.replace("\n", "/").split("/")
    }
    return [
        (
            MONITOR,
            f"process {pid}: {os.path.basename(process.name)} of user {process.user} belongs to no job and uses {process.memory} "
            f"of GPU {bus}. If nobody needs the process, end it.",
        )
        for pid, (process, bus) in sorted(others.items())
    ]


def read_links(node: CheckedNode) -> LinkStatus:
    """Return what nvidia-smi prints about the NVLinks. A failure of nvidia-smi is an error only on hosts with GPUs."""
    program = shutil.which(PROGRAM, path=DIRECTORIES)
    if program is None:
        return LinkStatus("")
    done = subprocess.run([program, "nvlink", "--status"], capture_output=True, check=False)
    text = done.stdout.decode("utf-8", "replace")
    if not done.returncode or NO_LINKS in text.lower():
        return LinkStatus(text)
    lines = (done.stderr.decode("utf-8", "replace") + text).strip().splitlines()
    return LinkStatus("", (lines[0] if lines else f"exit status {done.returncode}") if has_gpus(node) else "")


def parse_links(text: str) -> list[Links]:
    """Return the NVLinks of each GPU in the output of `nvidia-smi nvlink --status`."""
    found: list[Links] = []
    for line in text.splitlines():
        gpu = re.match(r"GPU (\d+):", line)
        link = re.match(r"\s+Link \d+: (.*)", line)
        if gpu:
            found.append(Links(gpu[1], 0, 0))
        elif link and found:
            last = found[-1]
            found[-1] = last._replace(active=last.active + ("GB/s" in link[1]), total=last.total + 1)
    return found


def decide_links(status: LinkStatus, _node: CheckedNode) -> list[Problem]:
    """Return a problem for each GPU that has fewer active NVLinks than another GPU of the same host."""
    if status.error:
        return [(MONITOR, f"{PROGRAM} nvlink: the status of the NVLinks could not be read: {status.error}")]
    links = parse_links(status.text)
    most = max((each.active for each in links), default=0)
    return [
        (REBOOT, f"GPU {each.gpu}: {each.active} NVLinks are active, but other GPUs of this host have {most}.")
        for each in links
        if each.active < most
    ]
