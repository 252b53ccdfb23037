# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tells which training jobs need hosts that are about to go."""

from __future__ import annotations

DOCUMENTATION = r"""
name: jobs_on
version_added: 0.1.0
short_description: The jobs that run on hosts
description:
  - Picks the jobs that have a running process on one of the hosts.
  - A job whose processes have not all started counts for every host, since it is not known yet where they will run. When none has
    started, it counts for the ten minutes after it was prepared only; a run that was broken off leaves such jobs behind.
positional: hosts
options:
  _input:
    description: The RV(deeplearning.cluster.training_job_info#module:jobs).
    type: list
    elements: dict
    required: true
  hosts:
    description: The hosts, by the names that they use among themselves.
    type: list
    elements: str
    required: true
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: List the jobs
  deeplearning.cluster.training_job_info:
    directory: /efs/jobs
  register: result

- name: Show those that need the third host
  ansible.builtin.debug:
    msg: "{{ result.jobs | deeplearning.cluster.jobs_on(['deeplearning-worker3']) }}"
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
      description: What the job does, and where.
      type: str
  sample:
    - name: digits-1
      words: digits-1 runs on deeplearning-worker3
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.deeplearning.cluster.plugins.module_utils._job.records import PENDING, RUNNING

# Seconds. Jobs start right after they have been prepared, unless a host refuses them or the run is broken off.
START_TIMEOUT = 600


def jobs_on(jobs: Iterable[Mapping[str, Any]], hosts: Sequence[str]) -> list[dict[str, str]]:
    """Return C({name, words}) of the jobs that run on one of the hosts, or may in a moment."""
    found = [(job["name"], _words(job, hosts)) for job in jobs if hosts]
    return [{"name": name, "words": f"{name} {words}"} for name, words in found if words]


def _words(job: Mapping[str, Any], hosts: Sequence[str]) -> str:
    """What the job does on the hosts, if anything."""
    if _is_starting(job):
        return "is starting"
    if job["state"] != RUNNING:
        return ""
    used = {process["host"] for process in job["processes"] if process["state"] == RUNNING}
    needed = [host for host in hosts if host in used]
    return "runs on " + ", ".join(needed) if needed else ""


def _is_starting(job: Mapping[str, Any]) -> bool:
    """Whether processes are still to come, and nothing tells where."""
    if job["state"] == PENDING:
        return time.time() - float(job["created"]) < START_TIMEOUT
    return job["state"] == RUNNING and len(job["processes"]) < int(job["process_count"])


class FilterModule:
    """Filters about the jobs of a cluster."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"jobs_on": jobs_on}
