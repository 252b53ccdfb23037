# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the hardware of this host."""

from __future__ import annotations

import glob
import os
import re
import stat
from typing import Any, Callable, Iterable

from ..._common.slurm.configuration import MEMORY_SHARE, Hardware
from ..transient_units import RunCommand

CPUS = "/sys/devices/system/cpu"
CONTROL_GROUPS = "/sys/fs/cgroup/cgroup.controllers"
CGROUP_PLUGINS = ("/usr/lib/*/slurm*/cgroup_v2.so", "/usr/lib*/slurm*/cgroup_v2.so")
# The model of each GPU, as the driver names it.
GPU_MODELS = "/proc/driver/nvidia/gpus/*/information"
TEMPORARY = "/tmp"


def read_hardware(gpus: int, warn: Callable[[str], None]) -> Hardware:
    """Return the hardware of this host, which has `gpus` GPUs. Raises OSError or ValueError if /proc or /sys cannot be read.

    If a GPU has no device file, the hardware contains no GPUs, and `warn` gets the reason.
    """
    usable = os.sched_getaffinity(0)
    sockets, cores, threads = topology(_cpu_ids(cpu) for cpu in usable)
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = parse_memory(file.read())
    missing = [path for path in (f"/dev/nvidia{number}" for number in range(gpus)) if not _is_device(path)]
    if missing:
        # Slurm 22.05 drains a node whose GPUs have no device files, because slurmd then reports 0 GPUs.
        warn(
            f"GPUs without a device file ({', '.join(missing)}): Slurm starts no jobs with GPUs on this host. Check NVIDIA's driver, and"
            " run deeplearning.cluster.slurm again."
        )
        gpus = 0
    return Hardware(len(usable), sockets, cores, threads, memory, gpus, gpu_type(read_models()) if gpus else "", read_disk())


def read_disk() -> int:
    """Return the size of /tmp to specify in slurm.conf, in MiB."""
    found = os.statvfs(TEMPORARY)
    return int(found.f_blocks * found.f_frsize / (1 << 20) * MEMORY_SHARE)


def read_models() -> list[str]:
    """Return the models of the GPUs of this host, in the driver's words, such as `NVIDIA H100 80GB HBM3`."""
    texts = []
    for path in glob.glob(GPU_MODELS):
        with open(path, encoding="utf-8", errors="replace") as file:
            texts.append(file.read())
    return [found[1] for text in texts for found in re.finditer(r"^Model:\s*(.*?)\s*$", text, re.MULTILINE)]


def gpu_type(models: Iterable[str]) -> str:
    """Return the type of GPUs that jobs can request, such as `h100`, or an empty string if it is unknown or the GPUs differ."""
    names = {(re.findall(r"\b[A-Z]{1,3}[0-9]{1,4}[A-Z]?\b", model) or [""])[0].lower() for model in models}
    return names.pop() if len(names) == 1 else ""


def _is_device(path: str) -> bool:
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False


def _cpu_ids(cpu: int) -> tuple[int, int]:
    """Return the IDs of the socket and the core of a CPU. Without a topology, each CPU counts as a socket."""
    found = []
    for name in ("physical_package_id", "core_id"):
        try:
            with open(f"{CPUS}/cpu{cpu}/topology/{name}", encoding="ascii") as file:
                found.append(int(file.read()))
        except OSError:
            return cpu, cpu
    return found[0], found[1]


def topology(ids: Iterable[tuple[int, int]]) -> tuple[int, int, int]:
    """Return the numbers of sockets, cores per socket and threads per core, or zeros if the topology is irregular.

    `ids` contains the IDs of the socket and the core of each CPU.
    """
    cpus = list(ids)
    sockets, cores = len({socket for socket, _core in cpus}), len(set(cpus))
    if not cpus or cores % sockets or len(cpus) % cores:
        return 0, 0, 0
    return sockets, cores // sockets, len(cpus) // cores


def parse_memory(meminfo: str) -> int:
    """Return the amount of memory to specify in slurm.conf, in MiB, based on the contents of /proc/meminfo. Raises ValueError."""
    found = re.search(r"^MemTotal:\s+(\d+) kB$", meminfo, re.MULTILINE)
    if not found:
        raise ValueError("/proc/meminfo contains no MemTotal")
    return int(int(found[1]) / 1024 * MEMORY_SHARE)


def has_cgroups(run: RunCommand) -> bool:
    """Return whether Slurm can use cgroups on this host.

    The host needs cgroup v2 and Slurm's plugin for it (Slurm 22.05 or later). Hosts that are containers are not supported.
    """
    if not any(glob.glob(pattern) for pattern in CGROUP_PLUGINS):
        return False
    try:
        with open(CONTROL_GROUPS, encoding="ascii") as file:
            controllers = file.read().split()
    except OSError:
        return False
    # In a container, cgroups belong to the container's host.
    return {"cpuset", "memory"} <= set(controllers) and run(["systemd-detect-virt", "--container", "--quiet"])[0] != 0


def as_result(hardware: Hardware) -> dict[str, Any]:
    return dict(hardware._asdict())
