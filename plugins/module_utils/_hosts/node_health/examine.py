# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the checks for one context on this host, for the `node_health` module and for jobs."""

from __future__ import annotations

import base64
import time
from typing import Any, Iterable

from ..._common.node_health.check import BEFORE_JOB, DEEP, ON_DEMAND, CheckedNode, HealthFinding, is_unhealthy
from ..._job import exclusions
from . import custom_checks, dcgm, exclusion_by_checks, shared_storage
from .registry import checks_for
from .run import Readings, run

# The root directory, the directories for temporary files and data sets, and the mount point of the instance store in Deep Learning AMIs.
DISKS = ("/", "/tmp", "/var/lib/deeplearning", "/opt/dlami/nvme")


def examine(params: dict[str, Any]) -> dict[str, Any]:
    """Return the module's result: the findings, this host's time, and whether the host was able to store a file on all shared storage."""
    now, mounts = time.time(), {place.path: place for place in shared_storage.read_places()}
    for path in params["mounts"]:
        mounts[path] = mounts.get(path, shared_storage.MountedStorage(path))._replace(is_foreign=False)
    node = CheckedNode(
        user=params["user"],
        instance_type=params["instance_type"],
        efa_devices=params["efa_devices"],
        disks=(*DISKS, *params["disks"]),
        metadata_directory=params["metadata_directory"],
        number=params["number"],
        token=params["token"],
        peer=params["peer"],
    )
    checks = checks_for(params["context"], list(mounts.values()))
    if params["context"] == ON_DEMAND:
        for each in params["programs"]:
            program = custom_checks.CustomCheck(each["name"], base64.b64decode(each["content"]))
            checks.append(custom_checks.check(program, params["checks_timeout"]))
    elif params["context"] == DEEP:
        checks = [dcgm.check(params["dcgm_level"], params["timeout"])]
    findings = run(checks, node)
    faulty = exclusion_by_checks.find_faulty(findings, now)

    def without_passed(memory: exclusions.Memory) -> exclusions.Memory:
        return exclusion_by_checks.without_passed(memory, checks, findings, by_person=params["excluded"] is False)

    before, memory = exclusion_by_checks.change(
        params["instance_id"],
        lambda memory: change_exclusions(params, exclusion_by_checks.with_faulty(without_passed(memory), faulty), now),
        check_mode=params["check_mode"],
        is_optional=params["excluded"] is None,  # a person must learn that the choice could not be stored
    )
    return {
        "changed": memory != before,
        "exclusions": [{**each._asdict(), "text": exclusions.describe(each._asdict())} for each in memory.exclusions],
        "findings": [finding._asdict() for finding in findings],
        "stored": not any(finding.check == "storage" and is_unhealthy(finding.severity) for finding in findings),
        "time": now,
    }


def change_exclusions(params: dict[str, Any], memory: exclusions.Memory, now: float) -> exclusions.Memory:
    """Return the exclusions of this host after a person has excluded or included the host, or the same exclusions."""
    if params["excluded"] is False:
        return exclusions.include(memory, now)
    if params["excluded"]:
        return exclusions.exclude(memory, exclusions.Exclusion(exclusions.PERSON, params["reason"], now))
    return memory


def before_job(user: str, params: dict[str, Any]) -> Readings:
    """Start the checks that run before a job, with the parameters of the module `training_job`."""
    # The user may not be allowed to write to the root directory of the storage, so the storage counts as read-only.
    mounts = [
        place._replace(read_only=True, is_foreign=False)
        for place in shared_storage.read_places()
        if f"{params['directory']}/".startswith(f"{place.path}/")
    ]
    node = CheckedNode(
        user,
        instance_type=params["instance_type"],
        efa_devices=params["efa_devices"],
        disks=DISKS,
        metadata_directory=params["metadata_directory"],
    )
    return Readings(checks_for(BEFORE_JOB, mounts), node)


def refusal(findings: Iterable[HealthFinding]) -> str:
    """Return why a node should not run a job, or an empty string if it is healthy."""
    return " ".join(f"{finding.check}: {finding.message}" for finding in findings if is_unhealthy(finding.severity))
