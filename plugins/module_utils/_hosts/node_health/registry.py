# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The table of health checks. `python tools/health_checks.py` writes it to docs/health.md."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Sequence

from ..._common.node_health import clock
from ..._common.node_health.check import BETWEEN_NODES, MONITOR, OF_HOST, ON_DEMAND, PERIODIC, REBOOT, REPLACE, RESTART, Check
from . import dcgm, efa, fabric_manager, gpu, host_names, local_disks, memory, shared_storage, ssh_certificates, xid

# In seconds. Without the persistence daemon, nvidia-smi must first initialize all GPUs.
NVIDIA_SMI = 30.0
# In seconds. Jobs survive shorter interruptions of their storage, so only a longer interruption is a reason to restart a job.
STORAGE_HANG = 60.0

CHECKS = (
    Check(
        "clock",
        None,
        clock.decide_clock,
        (MONITOR, RESTART),
        "a clock that differs from the controller's clock by 5 s or more; by 60 s or more",
        (ON_DEMAND,),
    ),
    Check(
        "disks",
        local_disks.read_disks,
        local_disks.decide_disks,
        (RESTART,),
        "less than 1 GiB of free space (on small disks, less than 5 %); less than 1 % free inodes",
    ),
    Check("root", local_disks.read_mount_table, local_disks.decide_root, (REBOOT,), "a read-only root file system", (*OF_HOST, PERIODIC)),
    Check("memory", memory.read_memory, memory.decide_memory, (MONITOR,), "less than 5 % available memory", (ON_DEMAND,)),
    Check(
        "storage",
        shared_storage.write,
        shared_storage.decide,
        (MONITOR, RESTART),
        "shared storage in `/etc/fstab` that the cluster does not use and that is not mounted; shared storage of the cluster that is not "
        "mounted, or on which the login user cannot write and read a file",
        hanging=RESTART,
        as_user=True,
        per_mount=True,
    ),
    Check(
        "storage_of_peer",
        shared_storage.read_of_peer,
        shared_storage.decide,
        (RESTART,),
        "a file that another node has written to the shared storage and that this node cannot read",
        (BETWEEN_NODES,),
        hanging=RESTART,
        as_user=True,
        per_mount=True,
    ),
    Check(
        "storage_hang",
        shared_storage.ask,
        shared_storage.decide_hang,
        (RESTART,),
        "shared storage that does not answer for a minute",
        (PERIODIC,),
        limit=STORAGE_HANG,
        hanging=RESTART,
        per_mount=True,
    ),
    Check(
        "names",
        host_names.read_names,
        host_names.decide_names,
        (RESTART,),
        "missing worker metadata; a host name of the cluster that resolves to an address other than the one in the metadata",
        hanging=RESTART,
        subject="host names",
    ),
    Check(
        "certificates",
        ssh_certificates.read_certificates,
        ssh_certificates.decide_certificates,
        (MONITOR, RESTART),
        "an SSH certificate that expires within a day; one that has expired",
    ),
    Check(
        "gpu_count",
        gpu.read_gpus,
        gpu.decide_count,
        (MONITOR, RESTART, REBOOT, REPLACE),
        "more GPUs than configured, warnings of `nvidia-smi` (such as a corrupted infoROM), a slow `nvidia-smi` without the persistence "
        "daemon; a missing driver; `nvidia-smi` that fails or hangs; fewer GPUs than configured or than the instance type has",
        OF_HOST,
        limit=NVIDIA_SMI,
        hanging=REBOOT,
        why_slow=gpu.why_slow,
        subject=gpu.PROGRAM,
    ),
    Check(
        "gpu_errors",
        gpu.read_gpus,
        gpu.decide_errors,
        (MONITOR, REBOOT, REPLACE),
        "a GPU that must be drained or that MIG divides, an NVLink fabric with limited capacity, values and states that are unknown; "
        "uncorrectable memory errors, a required reset, memory or error counters that cannot be read, no healthy NVLink fabric; memory "
        "that cannot be repaired, a GPU that is lost",
        OF_HOST,
        limit=NVIDIA_SMI,
    ),
    Check(
        "gpu_processes",
        gpu.read_gpus,
        gpu.decide_processes,
        (MONITOR,),
        "processes that use a GPU and belong to no job",
        (ON_DEMAND,),
        limit=NVIDIA_SMI,
    ),
    Check(
        "gpu_links",
        gpu.read_links,
        gpu.decide_links,
        (MONITOR, REBOOT),
        "NVLinks whose status cannot be read; a GPU with fewer active NVLinks than the others; no active NVLinks on a host that has them",
        OF_HOST,
        limit=NVIDIA_SMI,
        subject=f"{gpu.PROGRAM} nvlink",
    ),
    Check(
        "gpu_fabric",
        fabric_manager.read,
        fabric_manager.decide,
        (MONITOR, RESTART),
        "a service `nvidia-fabricmanager` in an unknown state; one that does not run, or that is still starting ten minutes after the "
        "boot, on hosts with NVSwitches",
        subject=fabric_manager.SERVICE,
    ),
    Check(
        xid.NAME,
        xid.read,
        xid.decide,
        (MONITOR, RESTART, REBOOT, REPLACE),
        "a kernel log that cannot be read, if the host has GPUs; Xid errors of GPUs and SXid errors of NVSwitches in the kernel log since "
        "boot, by [code](#xid-errors)",
        (*OF_HOST, PERIODIC),
        subject="the kernel log",
        until_boot=True,
    ),
    Check(
        "efa",
        efa.read,
        efa.decide,
        (RESTART, REPLACE),
        "EFA adapters that cannot be used; fewer adapters than are attached to the instance",
        OF_HOST,
        hanging=RESTART,
        subject="fi_info",
    ),
    dcgm.check(dcgm.LEVEL, dcgm.SECONDS),
)


def checks_for(context: str, mounts: Sequence[shared_storage.MountedStorage]) -> list[Check]:
    found: list[Check] = []
    for check in CHECKS:
        if context in check.contexts and check.read is not None:
            found += [_of_mount(check, place) for place in mounts] if check.per_mount else [check]
    return found


def _of_mount(check: Check, place: shared_storage.MountedStorage) -> Check:
    if check.read is None:
        raise AssertionError(f"{check.name} reads nothing.")
    return replace(
        check,
        read=partial(check.read, place),
        decide=partial(check.decide, place),
        subject=place.path,
        hanging=shared_storage.severity_of(place),
    )
