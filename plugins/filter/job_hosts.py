# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Chooses the hosts of a job from what the hosts returned when they were prepared for it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: job_hosts
version_added: 0.2.0
short_description: Chooses the hosts of a job from what the hosts returned when they were prepared for it
description:
  - Hosts that are excluded from jobs are not used, except by a job that is already running. Spares, and hosts beyond O(min_hosts), take
    their place.
positional: min_hosts, spares, queue
options:
  _input:
    description:
      - The results of M(deeplearning.cluster.training_job) with O(deeplearning.cluster.training_job#module:state=prepared), keyed by the
        name of the host in the inventory, in the order of the hosts. A host that was not prepared has an empty result, or only C(msg).
    type: dict
    required: true
  min_hosts:
    description: Minimum number of hosts of the job. V(0) means all hosts, excluding the O(spares).
    type: int
    default: 0
  spares:
    description: Number of hosts that wait on standby.
    type: int
    default: 0
  queue:
    description: Name of the queue in which the job waits. A queue decides about its hosts itself, so all of them are needed.
    type: str
    default: ""
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Choose the hosts
  ansible.builtin.set_fact:
    chosen: "{{ dict(ansible_play_hosts_all | zip(results)) | deeplearning.cluster.job_hosts(min_hosts=2) }}"
  vars:
    results: "{{ ansible_play_hosts_all | map('extract', hostvars) | map(attribute='prepared', default={}) | list }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: The hosts, and what concerns their choice.
  type: dict
  contains:
    hosts:
      description: Descriptions of the job's hosts, as hosts return them.
      type: list
      elements: dict
    required:
      description: Number of hosts that the job needs.
      type: int
    spares:
      description: Number of C(hosts) that wait on standby.
      type: int
    excluded:
      description: One sentence for each host that is excluded from jobs.
      type: list
      elements: str
    other_jobs:
      description: Names of the other jobs that are running on the hosts, sorted.
      type: list
      elements: str
    queues:
      description: Names of the queues that can start other jobs on the hosts, sorted.
      type: list
      elements: str
    unprepared:
      description: Why the first host that was not prepared has no description, or an empty string.
      type: str
"""

from collections.abc import Mapping
from typing import Any

from ..module_utils._job import naming
from ..module_utils._queues.registry import QUEUES


def job_hosts(results: Mapping[str, Mapping[str, Any]], min_hosts: int = 0, spares: int = 0, queue: str = "") -> dict[str, Any]:
    """Return the hosts of a job and what concerns their choice. Hosts can return anything, so only names of jobs and queues count."""
    excluded = exclusions(results)
    hosts = [result["host"] for name, result in results.items() if name not in excluded and "host" in result]
    unprepared = [result.get("msg") or "could not be reached" for result in results.values() if "host" not in result]
    planned = len(results) - int(spares)
    return {
        "hosts": hosts,
        "required": len(results) if queue else int(min_hosts) or planned,
        "spares": max(0, len(hosts) - planned),
        "excluded": [f"{name} has been excluded from jobs {why}" for name, why in excluded.items()],
        "other_jobs": sorted(filter(is_job_name, reported(results, "other_jobs"))),
        "queues": sorted(QUEUES.keys() & reported(results, "queues")),
        "unprepared": unprepared[0] if unprepared else "",
    }


def exclusions(results: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return why jobs must not use each excluded host. A job that is already running keeps its hosts."""
    first = next(iter(results.values()), {})
    if first.get("job_state") == "running":
        return {}
    return {name: result["excluded"] for name, result in results.items() if result.get("excluded")}


def reported(results: Mapping[str, Mapping[str, Any]], key: str) -> set[str]:
    """Return the names that at least one host has returned under this key."""
    return {name for result in results.values() for name in result.get(key, ())}


def is_job_name(name: str) -> bool:
    try:
        naming.check_name(name)
    except ValueError:
        return False
    return True


class FilterModule:
    """Filters for the hosts of a job."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"job_hosts": job_hosts}
