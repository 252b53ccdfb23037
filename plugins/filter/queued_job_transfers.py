# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Determines which hosts lack the parameters of waiting training jobs, and which hosts have them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: queued_job_transfers
version_added: 0.2.0
short_description: Determines which hosts lack the parameters of training jobs that wait in a queue
description:
  - Compares the results of M(deeplearning.cluster.queued_jobs) on all hosts. Hosts without a result are ignored.
  - A host belongs to a job if at least half of the hosts that have the job's parameters name it.
  - Several hosts return the parameters of each job, because the first host may return parameters that are not valid.
positional: found
options:
  found:
    description:
      - Name of the variable in which each host has registered its result of M(deeplearning.cluster.queued_jobs) with the state V(examined).
    type: str
    required: true
  _input:
    description: Variables of the cluster's hosts, as the inventory plugin P(deeplearning.cluster.nodes#inventory) sets them.
    type: list
    elements: dict
    required: true
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Show which hosts lack the parameters of waiting jobs
  ansible.builtin.debug:
    msg: "{{ (groups['trainers'] | map('extract', hostvars) | deeplearning.cluster.queued_job_transfers('found')).lacking }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: Which hosts lack parameters, and which hosts have them.
  type: dict
  contains:
    lacking:
      description: Names of the jobs whose parameters a host lacks, by the inventory name of the host.
      type: dict
    holders:
      description: Names of the jobs whose parameters a host is to return, by the inventory name of the host.
      type: dict
    hosts:
      description: Descriptions of the hosts, for O(deeplearning.cluster.queued_jobs#module:hosts).
      type: list
      elements: dict
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

# The number of hosts that return the parameters of a job.
HOLDERS = 3


def queued_job_transfers(hosts: Iterable[Mapping[str, Any]], found: str) -> dict[str, Any]:
    """Return which hosts lack the parameters of which jobs, and which hosts are to return these parameters.

    `lacking` and `holders` map the inventory names of hosts to job names. `hosts` contains the descriptions of the hosts.
    """
    results = {str(host["inventory_hostname"]): host[found] for host in hosts if {"host", "jobs"} <= set(host.get(found, {}))}
    # Hosts may contradict each other. A minority can neither hide that a host belongs to a job, nor add a host to a job.
    named: dict[str, dict[str, set[str]]] = {}
    for name, result in results.items():
        for job in result["jobs"]:
            named.setdefault(job["name"], {})[name] = set(job["hosts"])
    lacking: dict[str, list[str]] = {}
    holders: dict[str, list[str]] = {}
    for job, told in named.items():
        count = Counter(chain.from_iterable(told.values()))
        lacking[job] = [name for name, result in results.items() if name not in told and 2 * count[result["host"]["name"]] >= len(told)]
        holders[job] = list(told)[:HOLDERS] if lacking[job] else []
    return {"lacking": _by_host(lacking), "holders": _by_host(holders), "hosts": [result["host"] for result in results.values()]}


def _by_host(hosts_of_jobs: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for job, hosts in hosts_of_jobs.items():
        for host in hosts:
            found.setdefault(host, []).append(job)
    return found


class FilterModule:
    """Filters for training jobs in a queue."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"queued_job_transfers": queued_job_transfers}
