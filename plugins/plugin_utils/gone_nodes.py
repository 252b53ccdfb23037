# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Corrects the status of an ended job if some of its hosts have left the cluster or are unreachable.

In this file, such hosts are called gone. A gone host cannot report its own loss. Processes that lose their connection to a gone host fail,
and would otherwise be reported as the cause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from ..module_utils._job import failed_process, failure_causes, state_names
from ..module_utils._job.documents import ProcessRecord
from ..module_utils._job.job_status import Failure, JobStatus, ProcessStatus


def gone_hosts(
    job: JobStatus, nodes: Mapping[str, Mapping[str, Any]], former: Iterable[Mapping[str, str]] = (), unreachable: Collection[str] = ()
) -> dict[str, str]:
    """Return the gone hosts of the job, each with a sentence that states the reason.

    `nodes` contains the nodes in the inventory, keyed by name. `former` is the return value `nodes` of the `former_nodes_info` module.
    `unreachable` contains the names of hosts that do not respond. Processes that ended on their own are ignored.
    """
    left = {node["instance_id"]: node for node in former}
    present = {str(node["hostname"]): str(node["instance_id"]) for node in nodes.values()}
    result = {}
    for process in job["processes"]:
        host, instance = process["host"], process.get("instance", "")
        if not _ended_with_host(process):
            continue
        if instance in left:
            result[host] = f"{host} is gone: {_departure(left[instance])}."
        elif instance and present and instance not in present.values():
            now = f", and {present[host]} has replaced it" if host in present else ""
            result[host] = f"{host} is gone: {instance} is no longer a node of the cluster{now}."
        elif host in unreachable:
            result[host] = f"{host} does not answer{f': {instance} cannot be reached over SSH' if instance else ''}."
    return result


def _ended_with_host(process: ProcessRecord) -> bool:
    """Return whether a process has not recorded its end, or ended because its host was shut down."""
    is_shut_down = failed_process.recorded_cause(process).get("kind") == failure_causes.HOST_SHUT_DOWN
    return process["state"] in (state_names.RUNNING, state_names.LOST) or is_shut_down


def _departure(node: Mapping[str, str]) -> str:
    instance, replacement = node["instance_id"], node["replacement"]
    how = f"{instance} was terminated by its Auto Scaling group" if node["cause"] else f"{instance} is no longer running"
    return how + (f", and {replacement} was launched" if replacement else ", and no instance has been launched to replace it yet")


def with_gone_hosts(job: JobStatus, gone: Mapping[str, str]) -> JobStatus:
    """Return the status of a job that is over, corrected for the gone hosts.

    Running processes on gone hosts count as lost. If a lost process was the first to end, it is the cause of the failure.
    """
    name = job.get("failure", {}).get("name")
    # The failure does not contain all values of the process's record.
    judged = next((process for process in job["processes"] if process["name"] == name), None)
    if judged is None or not gone:
        return job
    processes = [_lost(process) if process["host"] in gone else process for process in job["processes"]]
    found = failed_process.cause(processes, judged)
    result: JobStatus = {**job, "processes": processes}
    if found is not None and found["host"] in gone and _ended_with_host(found):
        process = next(each for each in processes if each["name"] == found["name"])
        result["failure"] = cast(Failure, {**process, "lines": [], "gone": gone[process["host"]]})
    return result


def _lost(process: ProcessStatus) -> ProcessStatus:
    return {**process, "state": state_names.LOST} if process["state"] == state_names.RUNNING else process
