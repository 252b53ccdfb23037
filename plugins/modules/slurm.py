#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm
version_added: 0.2.0
short_description: Configures Slurm on a host
description:
  - Runs on the host. O(component=controller) configures C(slurmctld) on the master. O(component=node) configures C(slurmd) on a node,
    which gets its configuration from C(slurmctld).
  - The hosts must have the Slurm programs and a common MUNGE key. See M(deeplearning.cluster.slurm_info) and
    M(deeplearning.cluster.slurm_key).
  - Changes to O(nodes) do not affect running jobs on nodes that respond. A node that is no longer in O(nodes) is drained while jobs are
    running on it, and removed by a later run. If the node no longer responds, its jobs are requeued and the node is removed immediately.
  - Nodes that an administrator has drained stay drained.
options:
  component:
    description:
      - V(controller) configures C(slurmctld), and V(node) configures C(slurmd).
    type: str
    choices:
      - controller
      - node
    required: true
  cluster:
    description:
      - Name of the cluster.
      - Required with O(component=controller) and O(state=present).
    type: str
  nodes:
    description:
      - With O(component=controller), all nodes. The first node runs C(slurmctld).
      - With O(component=node), an entry for this host.
      - Required with O(state=present).
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Host name of the node.
        type: str
        required: true
      address:
        description:
          - Private address of the node.
        type: str
        required: true
      hardware:
        description:
          - The return value RV(deeplearning.cluster.slurm_info#module:hardware) for the node.
          - If a node has no such value, the node's hardware in the current configuration is kept. If the node is not in the configuration
            either, the module omits the node and shows a warning.
        type: dict
        suboptions:
          cpus:
            description:
              - Number of CPUs (hardware threads).
            type: int
            required: true
          sockets:
            description:
              - Number of sockets, or V(0) if the CPUs have no regular topology.
            type: int
            default: 0
          cores:
            description:
              - Number of cores per socket.
            type: int
            default: 0
          threads:
            description:
              - Number of hardware threads per core.
            type: int
            default: 0
          memory:
            description:
              - Memory for jobs in MiB.
            type: int
            required: true
          gpus:
            description:
              - Number of GPUs, which jobs request with C(--gres=gpu:<n>) or C(--gpus).
            type: int
            default: 0
  state_directory:
    description:
      - Directory in which C(slurmctld) stores the queue (C(StateSaveLocation)). On shared storage, the queue is kept when the master is
        replaced.
      - Only root and the login user may have write permission for the parent directories.
      - Required with O(component=controller).
    type: path
  user:
    description:
      - The login user.
      - Required with O(component=controller).
    type: str
  partition:
    description:
      - Name of the partition that contains all nodes.
    type: str
    default: trainers
  groups:
    description:
      - Groups whose members can submit jobs. If the list is empty, all users can submit jobs.
    type: list
    elements: str
    default: []
  cgroups:
    description:
      - Whether cgroups confine jobs to the cores and GPUs that Slurm has allocated to these jobs. All nodes must support cgroups
        (RV(deeplearning.cluster.slurm_info#module:cgroups)).
    type: bool
    default: false
  parameters:
    description:
      - Additional parameters of C(slurm.conf), which override the collection's defaults, such as C(SlurmdTimeout).
    type: dict
    default: {}
  settings:
    description:
      - The return value RV(settings) from the controller. If the value changes, C(slurmd) restarts, which does not affect running jobs.
      - Required with O(component=node) and O(state=present).
    type: str
  timeout:
    description:
      - Seconds to wait for C(slurmctld) to respond, or for the node to register with it.
    type: int
    default: 120
  state:
    description:
      - V(absent) stops the daemon and removes its configuration. With O(component=controller), it also deletes O(state_directory), and
        fails if the queue contains jobs.
    type: str
    choices:
      - present
      - absent
    default: present
attributes:
  check_mode:
    description: Predicts the changes without writing anything.
    support: full
  diff_mode:
    description: Shows the differences in files, services and node states.
    support: full
  idempotent:
    description: A correctly configured host is not changed.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
seealso:
  - module: deeplearning.cluster.slurm_info
  - module: deeplearning.cluster.slurm_key
  - module: deeplearning.cluster.slurm_drain
"""

EXAMPLES = r"""
- name: Run slurmctld on the master
  deeplearning.cluster.slurm:
    component: controller
    cluster: demo
    user: ubuntu
    state_directory: /efs/slurm-demo
    nodes:
      - name: demo-master
        address: 10.0.0.4
        hardware: {cpus: 96, sockets: 2, cores: 24, threads: 2, memory: 1090000, gpus: 8}
      - name: demo-worker2
        address: 10.0.1.5
        hardware: {cpus: 96, sockets: 2, cores: 24, threads: 2, memory: 1090000, gpus: 8}
  become: true
  register: master

- name: Run slurmd on worker 2
  deeplearning.cluster.slurm:
    component: node
    settings: "{{ master.settings }}"
    nodes:
      - name: demo-worker2
        address: 10.0.1.5
        hardware: {cpus: 96, sockets: 2, cores: 24, threads: 2, memory: 1090000, gpus: 8}
  become: true
"""

RETURN = r"""
settings:
  description: Digest of the settings that do not depend on the nodes. Pass it to the nodes as O(settings).
  returned: with O(component=controller) and O(state=present)
  type: str
  sample: 0f343b093155
leaving:
  description: Names of the nodes that have left the cluster and on which jobs are still running. A later run removes them.
  returned: with O(component=controller) and O(state=present)
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm import controller, node
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.services import SlurmError
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.specification import SPECIFICATION, missing
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.state_directory import StateDirectoryError

STEPS = {
    ("controller", "present"): controller.ensure_present,
    ("controller", "absent"): controller.ensure_absent,
    ("node", "present"): node.ensure_present,
    ("node", "absent"): node.ensure_absent,
}


def main() -> None:
    module = AnsibleModule(**SPECIFICATION)
    lacking = missing(module.params)
    if lacking:
        module.fail_json(msg="component: {0} requires {1}. Set them.".format(module.params["component"], ", ".join(lacking)))
    try:
        STEPS[module.params["component"], module.params["state"]](module)
    except (KeyError, OSError, SlurmError, StateDirectoryError, ValueError) as error:
        module.fail_json(msg=f"slurm: {error}")


if __name__ == "__main__":
    main()
