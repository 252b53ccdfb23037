# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Selects the training jobs that run on hosts that are about to be removed."""

from __future__ import annotations

DOCUMENTATION = r"""
name: jobs_on
version_added: 0.1.0
short_description: Selects the jobs that run on given hosts
description:
  - Selects the jobs that have an active unit on one of the hosts, according to systemd on the host.
  - The records of a job count only for hosts that have not answered. A job can write anything into its records, so its records can neither
    keep hosts that have answered, nor hide its units. The filter ignores invalid records and jobs with invalid names. An invalid process
    entry counts as a process that has not started.
  - If some processes of a job have not started yet, their hosts are unknown, so the filter selects the job for any host. This rule applies
    only for ten minutes after the job was prepared or one of its processes started, and not if the job's commands were only printed. An
    older job with processes that have not started is a remnant of an interrupted run. If all hosts have answered, the rule applies only to
    a job that has an active unit or that has just been prepared.
positional: hosts, running
options:
  _input:
    description: The return value RV(deeplearning.cluster.training_job_info#module:jobs).
    type: list
    elements: dict
    required: true
  hosts:
    description: Host names, as in the variable C(deeplearning_hostname).
    type: list
    elements: str
    required: true
  running:
    description: For each host that has answered, the names of the jobs with active units, as
      RV(deeplearning.cluster.training_job_cleanup#module:running) returns them.
    type: dict
    required: true
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: List the jobs
  deeplearning.cluster.training_job_info:
    directory: /efs/jobs
  register: result

- name: Find the running jobs of this host
  deeplearning.cluster.training_job_cleanup:
  register: units

- name: Show the jobs that need this host
  ansible.builtin.debug:
    msg: "{{ result.jobs | deeplearning.cluster.jobs_on([deeplearning_hostname], {deeplearning_hostname: units.running}) }}"
"""

RETURN = r"""
_value:
  description: One dictionary per job.
  type: list
  elements: dict
  contains:
    name:
      description: The job's name.
      type: str
    words:
      description: The status of the job and its hosts, as a phrase.
      type: str
  sample:
    - name: digits-1
      words: digits-1 runs on demo-worker3
"""

import time
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from ..module_utils._job.job_states import CLOCK_LIMIT, START_TIMEOUT
from ..module_utils._job.naming import JOB_NAME, STANDBY
from ..module_utils._job.state_names import PENDING, RUNNING


def jobs_on(jobs: Any, hosts: Sequence[str], running: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Return `{name, words}` for each job that runs on one of the hosts or might soon start there.

    `running` contains the names of the jobs with active units, for each host that has answered.
    """
    listed = jobs if isinstance(jobs, Sequence) and not isinstance(jobs, str) else []
    known = {str(job["name"]): job for job in listed if _is_job(job)}
    active = sorted({name for names in running.values() for name in names if JOB_NAME.fullmatch(name)} - known.keys())
    found = [(name, _words(name, known.get(name, {}), hosts, running)) for name in [*known, *active] if hosts]
    return [{"name": name, "words": f"{name} {words}"} for name, words in found if words]


def _is_job(job: Any) -> bool:
    """Return whether a value is a valid job record. Data from a host cannot be trusted."""
    return isinstance(job, Mapping) and isinstance(job.get("name"), str) and bool(JOB_NAME.fullmatch(job["name"]))


def _words(name: str, job: Mapping[str, Any], hosts: Sequence[str], running: Mapping[str, Sequence[str]]) -> str:
    """Return a phrase about the job on the hosts, or an empty string if the job does not need them. A job without records is empty."""
    silent = [host for host in hosts if host not in running]
    if _is_starting(job) and (job.get("state") == PENDING or silent or name in chain.from_iterable(running.values())):
        return "is starting"
    of_hosts = {**dict.fromkeys(_recorded_hosts(job, silent), (name,)), **running}
    needed = [host for host in hosts if name in of_hosts.get(host, ())]
    if needed:
        return "runs on " + ", ".join(needed)
    return "may run on " + ", ".join(silent) if silent and not job else ""


def _recorded_hosts(job: Mapping[str, Any], hosts: Sequence[str]) -> list[str]:
    """Return those of the hosts on which the job runs according to its records.

    With heartbeats in the future, an ended job could seem to run for long.
    """
    processes, latest = _processes(job), time.time() + CLOCK_LIMIT
    if job.get("state") != RUNNING or any(not _is_before(process.get("heartbeat", 0.0), latest) for process in processes):
        return []
    used = {process.get("host") for process in processes if process.get("state") == RUNNING}
    return [host for host in hosts if host in used]


def _is_before(moment: Any, latest: float) -> bool:
    return isinstance(moment, (int, float)) and moment <= latest


def _is_starting(job: Mapping[str, Any]) -> bool:
    """Return whether the job is new and has processes that have not started. It is unknown on which hosts these processes will run."""
    processes, expected = [each for each in _processes(job) if each.get("part") != STANDBY], job.get("process_count")
    if job.get("printed") is True and job.get("state") == PENDING and not processes:
        return False
    if job.get("state") != PENDING and (job.get("state") != RUNNING or (isinstance(expected, int) and len(processes) >= expected)):
        return False
    return any(_is_recent(moment) for moment in (job.get("created"), *(each.get("started", 0.0) for each in processes)))


def _is_recent(moment: Any) -> bool:
    """Return whether a time differs from the current time by less than `START_TIMEOUT`. An invalid time counts as recent.

    A time can be in the future, because the clocks of the hosts and the controller may differ.
    """
    return not isinstance(moment, (int, float)) or not abs(time.time() - moment) >= START_TIMEOUT


def _processes(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = job.get("processes")
    return [item for item in found if isinstance(item, Mapping) and isinstance(item.get("host"), str)] if isinstance(found, list) else []


class FilterModule:
    """Filters for the jobs of a cluster."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"jobs_on": jobs_on}
