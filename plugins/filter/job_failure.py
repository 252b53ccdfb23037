# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Explains why a training job did not succeed.

If a host has left the cluster or is unreachable, the explanation names that host, not the processes that lost their connection to it.
"""

from __future__ import annotations

DOCUMENTATION = r"""
name: job_failure
version_added: 0.2.0
short_description: Explains why a training job did not succeed
description:
  - Returns a message about the process that caused a job to fail.
  - If a host of the job disappeared before that process ended, the message names the host instead. Processes that lose the connection to
    that host fail only as a consequence.
positional: nodes, former, unreachable
options:
  _input:
    description: The return value RV(deeplearning.cluster.training_job_wait#module:job) of a job that did not succeed.
    type: dict
    required: true
  nodes:
    description: The nodes, as the lookup P(deeplearning.cluster.nodes#lookup) returns them.
    type: dict
    default: {}
  former:
    description: The return value RV(deeplearning.cluster.former_nodes_info#module:nodes).
    type: list
    elements: dict
    default: []
  unreachable:
    description: Host names of the unreachable hosts, as in the variable C(deeplearning_hostname).
    type: list
    elements: str
    default: []
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Show why the job failed
  ansible.builtin.debug:
    msg: "{{ result.job | deeplearning.cluster.job_failure(lookup('deeplearning.cluster.nodes')) }}"
"""

RETURN = r"""
_value:
  description: Text that states the cause, and contains the last log lines of the process and the commands for the next steps.
  type: str
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..module_utils._job.job_status import JobStatus


def job_failure(
    job: JobStatus,
    nodes: Mapping[str, Mapping[str, Any]] | None = None,
    former: Sequence[Mapping[str, str]] = (),
    unreachable: Collection[str] = (),
) -> str:
    """Return a message that states why the job failed."""
    # A playbook run that uses any of the collection's filters loads all filters, so this file imports only what most runs need.
    from ..plugin_utils import job_formatting
    from ..plugin_utils.gone_nodes import gone_hosts, with_gone_hosts
    from ..plugin_utils.suggested_commands import continuing_command, playbook_command

    found = with_gone_hosts(job, gone_hosts(job, nodes or {}, former, unreachable))
    return job_formatting.failure_message(found, playbook_command, continuing_command(found["name"]))


class FilterModule:
    """Filters for failed jobs."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"job_failure": job_failure}
