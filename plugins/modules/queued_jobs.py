#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: queued_jobs
version_added: 0.2.0
short_description: Gives new hosts the parameters of training jobs that wait in a queue
description:
  - Runs on the host. Each host of a training job that waits in Slurm or SGE keeps the parameters of the job. This module copies these
    parameters to a host that was replaced while the job waits, and updates the addresses of the job's hosts on all hosts of the job.
  - The roles P(deeplearning.cluster.slurm#role) and P(deeplearning.cluster.sge#role) run this module before new nodes join the queue.
  - The parameters contain the job's secrets, so set C(no_log) on tasks with O(state=read) or O(parameters).
options:
  queue:
    description: The queue in which the jobs wait.
    type: str
    choices: [sge, slurm]
    required: true
  state:
    description:
      - V(listed) returns the names of the training jobs that wait in the queue. Use it on the master.
      - V(examined) returns the jobs whose parameters the host has, and a description of the host.
      - V(read) returns the parameters of the jobs in O(names).
      - V(present) writes the parameters of the jobs in O(names) to the host, and the current addresses of their hosts. A job is ignored if
        neither the host nor O(parameters) has its parameters.
    type: str
    choices: [listed, examined, read, present]
    default: present
  names:
    description: Names of the jobs.
    type: list
    elements: str
    default: []
  hosts:
    description: Descriptions of the cluster's hosts, which are the return values RV(host) of the hosts.
    default: []
  parameters:
    description:
      - Return values RV(parameters) of other hosts, with at most one element of each host for each job. For each job that the host lacks,
        the module uses the first valid parameters, and shows a warning about those that are not valid.
      - Parameters are not valid if the job's user is a system user or belongs to a group of administrators. A user other than
        C(deeplearning), a job without a sandbox, and directories that the host would have to create, must be the same on two hosts.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the job.
        type: str
        required: true
      document:
        description: The parameters of the job.
        type: str
        required: true
  efa:
    description: Whether the host has Elastic Fabric Adapters. The default is the value of C(deeplearning_has_efa) in the inventory.
    type: bool
  instance_id:
    description: ID of the host's instance. The default is the value of C(deeplearning_instance_id) in the inventory.
    type: str
  capacity_end:
    description:
      - Time at which the Capacity Block of the instance ends, in seconds since 1970. The default is the value of
        C(deeplearning_capacity_end) in the inventory.
    type: float
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
seealso:
  - module: deeplearning.cluster.training_job
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
  - deeplearning.cluster.job.hosts
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: List the training jobs that wait in Slurm
  deeplearning.cluster.queued_jobs:
    queue: slurm
    state: listed
  become: true
  run_once: true
  register: queue

- name: Find the hosts that have their parameters
  deeplearning.cluster.queued_jobs:
    queue: slurm
    state: examined
    names: "{{ queue.waiting }}"
  become: true
  register: found
"""

RETURN = r"""
waiting:
  description: Names of the training jobs that wait in the queue.
  returned: when O(state=listed)
  type: list
  elements: str
jobs:
  description: The jobs in O(names) whose parameters the host has.
  returned: when O(state=examined)
  type: list
  elements: dict
  contains:
    name:
      description: Name of the job.
      type: str
    hosts:
      description: Names of the hosts that the job was submitted for.
      type: list
      elements: str
host:
  description: Description of the host, in the format of an entry in O(hosts).
  returned: when O(state=examined)
  type: dict
  contains:
    name:
      description: Name of the host in the cluster's metadata.
      type: str
      sample: demo-master
    address:
      description: Private address of the host.
      type: str
      sample: 10.0.0.10
    number:
      description: Worker number of the host.
      type: int
    gpus:
      description: Indices of the host's GPUs.
      type: list
      elements: int
      sample: [0, 1, 2, 3]
    interface:
      description: Network interface that has the address.
      type: str
      sample: ens5
    efa:
      description: Whether the host has Elastic Fabric Adapters.
      type: bool
parameters:
  description: The parameters of the jobs in O(names) that the host has.
  returned: when O(state=read)
  type: list
  elements: dict
  contains:
    name:
      description: Name of the job.
      type: str
    document:
      description: The parameters of the job, encoded in base64.
      type: str
changed_jobs:
  description: Names of the jobs whose parameters have changed on the host.
  returned: when O(state=present)
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.training_job.queue import waiting
from ..module_utils._job.definition import job_parameters
from ..module_utils._queues.base import QueueError

PARAMETERS = {"name": {"type": "str", "required": True}, "document": {"type": "str", "required": True}}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "queue": {"type": "str", "choices": ["sge", "slurm"], "required": True},
            "state": {"type": "str", "choices": ["listed", "examined", "read", "present"], "default": "present"},
            "names": {"type": "list", "elements": "str", "default": []},
            "hosts": {**job_parameters.SPECIFICATION["argument_spec"]["hosts"], "default": []},
            "parameters": {"type": "list", "elements": "dict", "default": [], "options": PARAMETERS},
            "metadata_directory": {"type": "path", "default": "/opt/deeplearning"},
            "efa": {"type": "bool"},
            "instance_id": {"type": "str"},
            "capacity_end": {"type": "float"},
        },
        supports_check_mode=True,
    )
    state, params = module.params["state"], module.params
    try:
        if state == "listed":
            module.exit_json(changed=False, waiting=waiting.waiting(module))
        if state == "examined":
            module.exit_json(changed=False, **waiting.examine(params))
        if state == "read":
            module.exit_json(changed=False, parameters=waiting.read(params))
        changed = waiting.ensure(module)
    except (*waiting.ERRORS, QueueError, OSError) as error:
        module.fail_json(msg=f"queued_jobs: {error}")
    module.exit_json(changed=bool(changed), changed_jobs=changed)


if __name__ == "__main__":
    main()
