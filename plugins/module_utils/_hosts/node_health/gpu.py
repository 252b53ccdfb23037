# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""GPU checks, based on the output of `nvidia-smi`.

The formats are those of `nvidia-smi -q -x` and `nvidia-smi nvlink --status` with drivers 470 and later
(https://docs.nvidia.com/deploy/nvidia-smi/index.html). Values that no GPU of the host reports are treated as healthy. States that are not
known here are findings with the severity `monitor`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import subprocess
from typing import Iterator, Mapping, NamedTuple, Sequence
from xml.etree import ElementTree

from ..._common import gpus
from ..._common.gpus import PROGRAM
from ..._common.node_health.check import CONFIGURE, MONITOR, REBOOT, REPLACE, RESTART, SEVERITIES, CheckedNode, Problem
from ..._job.naming import JOBS_SLICE
from .gpu_counts import gpu_count, has_nvlinks, read_configured_gpus

# The socket of the persistence daemon, which keeps the GPUs initialized.
PERSISTENCE = "/run/nvidia-persistenced/socket"
# Seconds after which nvidia-smi is reported as slow. With the persistence daemon, it needs about a second.
SLOW = 10.0
# The directory in which NVIDIA's driver lists the NVSwitches.
SWITCHES = "/proc/driver/nvidia-nvswitch/devices"
# What nvidia-smi prints about the links of a GPU that has no NVLinks, or none that are active.
NO_LINKS = "unable to retrieve nvlink information"
# The recovery actions for which the host is rebooted, which also resets the GPU, such as `Drain and Reset` (`nvidia-smi -q`, "GPU Recovery
# Action"). Newer versions of the driver have further actions.
RECOVERY = re.compile(r"reset|reboot", re.IGNORECASE)
# What nvidia-smi prints in place of a value that the GPU or the driver does not have. Drivers 570 and 575 still print fields that they have
# deprecated, such as `reset_required`.
ABSENT = re.compile(r"\[?(|N/A|Not Supported|Requested functionality has been deprecated)\]?", re.IGNORECASE)
# The values of a GPU that the driver cannot read. A GPU that must be reset has them in most fields.
UNREADABLE = re.compile(r"\[?(ERR!|Unknown Error|GPU requires reset|Requires reset|GPU is lost)\]?", re.IGNORECASE)
# The parts of a GPU's entry without which no program can use the GPU. Sensors and clocks can fail on a working GPU.
ESSENTIAL = (
    "fb_memory_usage",
    "bar1_memory_usage",
    "utilization",
    "ecc_mode",
    "ecc_errors",
    "remapped_rows",
    "retired_pages",
    "compute_mode",
)
# The fields that GPUs of the same host report alike.
COMPARED = ("fb_memory_usage/total", "ecc_mode/current_ecc", "remapped_rows/remapped_row_failure")
# The fields that are `Yes` or `No`, and the values that these fields and counters can have.
FLAGS = (
    "remapped_rows/remapped_row_pending",
    "remapped_rows/remapped_row_failure",
    "retired_pages/pending_retirement",
    "ecc_errors/aggregate/sram_threshold_exceeded",
    "gpu_reset_status/reset_required",
)
KNOWN = re.compile(r"Yes|No|[0-9]+")
# The states of the registration of a GPU with the NVLink fabric, and the seconds since boot after which a GPU should be registered.
REGISTERED, REGISTERING, REGISTRATION = "Completed", ("In Progress", "Not Started"), 600.0
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
    """The state of a GPU, as nvidia-smi reports it.

    `unreadable` contains the fields that the driver cannot read, `absent` the fields of `COMPARED` that the GPU does not report, and
    `unknown` the fields that must be counters, `Yes` or `No`, but have another value. `is_divided` tells whether MIG divides the GPU.
    """

    bus: str
    uncorrectable: int = 0
    remap_pending: bool = False
    remap_failed: bool = False
    threshold_exceeded: bool = False
    reset_required: bool = False
    lost: bool = False
    unreadable: Sequence[str] = ()
    absent: Sequence[str] = ()
    unknown: Sequence[str] = ()
    recovery: str = ""
    fabric_state: str = ""
    fabric_status: str = ""
    fabric_health: str = ""
    is_divided: bool = False
    processes: Sequence[GpuProcess] = ()


class Gpus(NamedTuple):
    """The GPUs of a host. `error` and `warnings` are what nvidia-smi printed besides the GPUs. `configured` is the number of GPUs in the
    worker metadata. `uptime` is in seconds since boot, and `seconds` is the duration of nvidia-smi.
    """

    is_installed: bool
    error: str
    gpus: Sequence[Gpu]
    configured: int | None
    warnings: Sequence[str] = ()
    uptime: float = REGISTRATION
    seconds: float = 0.0


class LinkStatus(NamedTuple):
    """What nvidia-smi prints about the NVLinks. `error` is the reason why it could not read their status. `switches` tells whether the host
    has NVSwitches, to which all NVLinks lead.
    """

    text: str
    error: str = ""
    switches: bool = False


class Links(NamedTuple):
    """The NVLinks of a GPU: the number of active links and the total number."""

    gpu: str
    active: int
    total: int


def has_gpus(node: CheckedNode) -> bool:
    """Return whether the host should have GPUs, according to its instance type or its worker metadata."""
    return bool(gpu_count(node.instance_type) or read_configured_gpus(node))


def read_gpus(node: CheckedNode) -> Gpus:
    """Return the GPUs of this host and the processes on them. Raises ValueError if the output of nvidia-smi is incomplete."""
    found, configured = gpus.query(), read_configured_gpus(node)
    described = [describe(element) for element in found.elements]
    return Gpus(found.is_installed, found.error, described, configured, found.warnings, read_uptime(), found.seconds)


def read_uptime() -> float:
    """Return the seconds since boot."""
    with open("/proc/uptime", encoding="ascii") as file:
        return float(file.read().split()[0])


def why_slow() -> str:
    """Return why nvidia-smi can be slow on a host without faults, or an empty string."""
    if os.path.exists(PERSISTENCE):
        return ""
    return "Without the persistence daemon, it initializes all GPUs. Run: systemctl enable --now nvidia-persistenced"


def describe(element: ElementTree.Element) -> Gpu:
    """Return the state of the GPU that an XML element of nvidia-smi describes."""

    def value(path: str) -> str:
        return (element.findtext(path) or "").strip()

    def has(path: str) -> bool:
        return value(path) == "Yes"

    values = dict(_values(element))
    return Gpu(
        bus=element.get("id", "?"),
        uncorrectable=sum(int(value(path)) for path in UNCORRECTABLE if value(path).isdigit()),
        remap_pending=has("remapped_rows/remapped_row_pending") or has("retired_pages/pending_retirement"),
        remap_failed=has("remapped_rows/remapped_row_failure"),
        threshold_exceeded=has("ecc_errors/aggregate/sram_threshold_exceeded"),
        reset_required=has("gpu_reset_status/reset_required") or "requires reset" in "\n".join(values.values()).lower(),
        lost=any(map(gpus.is_lost, values.values())),
        unreadable=[path for path, text in values.items() if UNREADABLE.fullmatch(text)],
        absent=[path for path in COMPARED if ABSENT.fullmatch(value(path))],
        unknown=_unknown(values),
        recovery=value("gpu_recovery_action"),
        fabric_state=value("fabric/state"),
        fabric_status=value("fabric/status"),
        fabric_health=value("fabric/health/summary").lower(),
        is_divided=value("mig_mode/current_mig") == "Enabled",
        processes=[_process(each) for each in element.findall("processes/process_info") if "C" in (each.findtext("type") or "")],
    )


def _unknown(values: Mapping[str, str]) -> list[str]:
    found = ((path, values.get(path, "")) for path in (*FLAGS, *UNCORRECTABLE))
    return [path for path, text in found if not ABSENT.fullmatch(text) and not KNOWN.fullmatch(text)]


def _values(element: ElementTree.Element, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths and values of all fields except the processes, because users choose the names of their processes."""
    for child in element:
        if child.tag not in ("processes", "accounted_processes"):
            yield f"{path}{child.tag}", (child.text or "").strip()
            yield from _values(child, f"{path}{child.tag}/")


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
    """Return a problem if GPUs are missing, or if their number differs from the number in the worker metadata. Also return what nvidia-smi
    warns of, and that it was slow.
    """
    problems = [(MONITOR, f"{PROGRAM}: {warning}") for warning in found.warnings]
    slow = why_slow() if found.seconds >= SLOW else ""
    if slow:
        problems.append((MONITOR, f"{PROGRAM}: needed {found.seconds:.0f} s. {slow}"))
    number = _driver_problem(found, node) or _number_problem(found, node)
    return [number, *problems] if number else problems


def _driver_problem(found: Gpus, node: CheckedNode) -> Problem | None:
    offered, configured = gpu_count(node.instance_type), found.configured
    if configured and not found.is_installed:
        return RESTART, f"{PROGRAM}: is not installed, but the host had {configured} GPUs. Install the NVIDIA driver again."
    if offered and not found.is_installed:
        # The host was configured without GPUs, so its jobs run on the CPU.
        of_type = f"instance type {node.instance_type} has {offered} GPUs"
        return MONITOR, f"{PROGRAM}: is not installed, but {of_type}. Use an image with the NVIDIA driver."
    if found.error:
        severity = REBOOT if configured or offered else MONITOR
        return REPLACE if gpus.is_lost(found.error) else severity, f"{PROGRAM}: {found.error}"
    return None


def _number_problem(found: Gpus, node: CheckedNode) -> Problem | None:
    offered, configured, count = gpu_count(node.instance_type), found.configured or 0, len(found.gpus)
    if offered is not None and count < offered:
        return REPLACE, f"GPUs: {PROGRAM} lists {count}, but instance type {node.instance_type} has {offered}."
    if count < configured:
        return REPLACE, f"GPUs: {PROGRAM} lists {count}, but the host had {configured} GPUs when it was configured."
    if found.configured is not None and count > configured:
        return MONITOR, f"GPUs: {PROGRAM} lists {count}, but jobs use only the {configured} in the worker metadata. {CONFIGURE}"
    return None


def decide_errors(found: Gpus, _node: CheckedNode) -> list[Problem]:
    """Return the worst memory error or other problem that each GPU reports."""
    expected = [path for path in COMPARED if any(path not in gpu.absent for gpu in found.gpus)]
    worst = [
        max(_errors(gpu, expected, found.uptime), key=lambda problem: SEVERITIES.index(problem[0]), default=None) for gpu in found.gpus
    ]
    return [problem for problem in worst if problem]


def _errors(gpu: Gpu, expected: Sequence[str], uptime: float) -> list[Problem]:
    """Return the problems that a GPU reports, among equally severe ones the most specific first.

    Source: NVIDIA GPU Memory Error Management (row remapping, RMA policy).
    """
    name = f"GPU {gpu.bus}"
    conditions = [
        (gpu.lost, REPLACE, "is lost."),
        (gpu.remap_failed, REPLACE, "a memory row could not be remapped."),
        (gpu.threshold_exceeded, REPLACE, "the number of uncorrectable SRAM errors exceeds NVIDIA's threshold."),
        (gpu.uncorrectable > 0, REBOOT, f"has had {gpu.uncorrectable} uncorrectable memory errors since the driver was loaded."),
        (gpu.remap_pending, REBOOT, "memory with errors remains in use until the GPU is reset."),
        (gpu.reset_required, REBOOT, "needs a reset."),
        (
            gpu.recovery != "None" and not ABSENT.fullmatch(gpu.recovery),
            REBOOT if RECOVERY.search(gpu.recovery) else MONITOR,
            f"the driver recommends the action {gpu.recovery!r}.",
        ),
        *_fabric(gpu, uptime),
        (gpu.is_divided, MONITOR, "MIG divides it, so each process uses only a part. To use all of it, run nvidia-smi -mig 0, and reboot."),
        *_unread(gpu, expected),
    ]
    return [(severity, f"{name}: {words}") for applies, severity, words in conditions if applies]


def _unread(gpu: Gpu, expected: Sequence[str]) -> list[tuple[bool, str, str]]:
    """Return the conditions of values that the driver cannot read, or that only other GPUs of the host report."""
    essential = [path for path in gpu.unreadable if path.split("/")[0] in ESSENTIAL]
    lacking = [path for path in expected if path in gpu.absent]
    return [
        (bool(essential), REBOOT, f"the driver cannot read {_some(essential)}."),
        (bool(gpu.unreadable), MONITOR, f"the driver cannot read {_some(gpu.unreadable)}."),
        (bool(lacking), MONITOR, f"does not report {_some(lacking)}, but other GPUs of this host do."),
        (bool(gpu.unknown), MONITOR, f"reports unknown values: {_some(gpu.unknown)}."),
    ]


def _some(paths: Sequence[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} other values" if len(paths) > 3 else "")


def _fabric(gpu: Gpu, uptime: float) -> list[tuple[bool, str, str]]:
    """Return the conditions of the NVLink fabric, without which CUDA programs fail. After a boot, it takes some time to register a GPU."""
    failed = gpu.fabric_state == REGISTERED and gpu.fabric_status != "Success" and not ABSENT.fullmatch(gpu.fabric_status)
    unconnected = f"is not connected to the NVLink fabric: {gpu.fabric_status if failed else gpu.fabric_state}. Check nvidia-fabricmanager."
    is_registering, is_late = gpu.fabric_state in REGISTERING, uptime >= REGISTRATION
    return [
        (failed or (is_registering and is_late), REBOOT, unconnected),
        (
            gpu.fabric_state != REGISTERED and not ABSENT.fullmatch(gpu.fabric_state),
            MONITOR,
            f"the state of the NVLink fabric is {gpu.fabric_state!r}.",
        ),
        (
            gpu.fabric_health != "healthy" and not ABSENT.fullmatch(gpu.fabric_health),
            FABRIC_HEALTH.get(gpu.fabric_health, MONITOR),
            f"the health of the NVLink fabric is {gpu.fabric_health!r}.",
        ),
    ]


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


def has_switches() -> bool:
    with contextlib.suppress(OSError):
        return bool(os.listdir(SWITCHES))
    return False


def read_links(node: CheckedNode) -> LinkStatus:
    """Return what nvidia-smi prints about the NVLinks. A failure of nvidia-smi is an error only on hosts with GPUs."""
    program = shutil.which(PROGRAM, path=gpus.DIRECTORIES)
    if program is None:
        return LinkStatus("")
    done = subprocess.run([program, "nvlink", "--status"], capture_output=True, check=False)
    text, error = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    if not done.returncode or NO_LINKS in (text + error).lower() or parse_links(text):
        return LinkStatus(text, switches=has_switches())
    lines = (error + text).strip().splitlines()
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


def decide_links(status: LinkStatus, node: CheckedNode) -> list[Problem]:
    """Return a problem for each GPU that has fewer active NVLinks than another GPU of the same host, and for links that no GPU uses."""
    if status.error:
        return [(MONITOR, f"{PROGRAM} nvlink: the status of the NVLinks could not be read: {status.error}")]
    links = parse_links(status.text)
    most = max((each.active for each in links), default=0)
    total = max((each.total for each in links), default=0)
    alike = _links_alike(links, most, total, status.switches, has_nvlinks(node.instance_type))
    return alike + [
        (REBOOT, f"GPU {each.gpu}: {each.active} NVLinks are active, but other GPUs of this host have {most}.")
        for each in links
        if each.active < most
    ]


def _links_alike(links: Sequence[Links], most: int, total: int, switches: bool, expected: bool | None) -> list[Problem]:
    """Return the problem of links that are inactive on all GPUs alike.

    `expected` tells whether the instance type has NVLinks. None means that the type is unknown.
    """
    if len(links) < 2 or expected is False or 0 < most == total:
        return []
    if not most and (switches or expected):
        return [
            (REBOOT, "NVLinks: no GPU has active NVLinks, but the GPUs of this host are connected by NVLinks. Check nvidia-fabricmanager.")
        ]
    if total and (switches or not most):
        return [(MONITOR, f"NVLinks: no GPU has more than {most} active NVLinks, but each GPU has {total}.")]
    return []
