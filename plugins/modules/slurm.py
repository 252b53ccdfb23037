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
    M(deeplearning.cluster.munge_key).
  - Changes to O(nodes) do not affect running jobs on nodes that respond. A node that is no longer in O(nodes) is drained while jobs are
    running on it. A later run removes it. If the node no longer responds, its jobs are requeued and the node is removed immediately.
  - Nodes that an administrator has drained stay drained.
options:
  component:
    description: V(controller) configures C(slurmctld), and V(node) configures C(slurmd).
    type: str
    choices: [controller, node]
    required: true
  cluster:
    description:
      - Name of the cluster.
      - Required with O(component=controller) and O(state=present).
    type: str
  nodes:
    description:
      - With O(component=controller), the list contains all nodes. The first node runs C(slurmctld).
      - With O(component=node), the list contains an entry for this host.
      - Required with O(state=present).
    type: list
    elements: dict
    suboptions:
      name:
        description: Host name of the node.
        type: str
        required: true
      address:
        description: Private address of the node.
        type: str
        required: true
      hardware:
        description:
          - The return value RV(deeplearning.cluster.slurm_info#module:hardware) for the node.
          - Without this value, the node keeps its hardware values from the current configuration. If the node is not in the configuration
            either, the module omits the node and shows a warning.
        type: dict
        suboptions:
          cpus:
            description: Number of CPUs (hardware threads).
            type: int
            required: true
          sockets:
            description: Number of sockets, or V(0) if the CPUs have no regular topology.
            type: int
            default: 0
          cores:
            description: Number of cores per socket.
            type: int
            default: 0
          threads:
            description: Number of hardware threads per core.
            type: int
            default: 0
          memory:
            description: Memory for jobs in MiB.
            type: int
            required: true
          gpus:
            description:
              - Number of GPUs, which jobs request with C(--gres=gpu:<n>) or C(--gpus).
              - A host that reports fewer GPUs than before, and the same number of CPUs, keeps the former number, so that Slurm drains it.
            type: int
            default: 0
          gpu_type:
            description: Model of the GPUs, which jobs can request with C(--gres=gpu:<type>:<n>).
            type: str
            default: ''
          disk:
            description: Size of C(/tmp) in MiB, of which jobs request a part with C(--tmp). V(0) if it is unknown.
            type: int
            default: 0
      features:
        description: Features of the node, which jobs request with C(--constraint).
        type: list
        elements: str
        default: []
  state_directory:
    description:
      - Directory in which C(slurmctld) stores the queue (C(StateSaveLocation)). On shared storage, the queue is kept when the master is
        replaced.
      - Only root and the login user may have write permission for the parent directories.
      - Required with O(component=controller).
    type: path
  partition:
    description: Name of the partition that contains all nodes.
    type: str
    default: trainers
  cgroups:
    description:
      - Whether cgroups confine jobs to the cores and GPUs that Slurm has allocated to these jobs. All nodes must support cgroups
        (RV(deeplearning.cluster.slurm_info#module:cgroups)).
    type: bool
    default: false
  parameters:
    description:
      - Additional parameters of C(slurm.conf), which override the collection's defaults, such as C(SlurmdTimeout).
      - A parameter that needs a file which is not in O(files) is refused.
    type: dict
    default: {}
  files:
    description:
      - Contents of further files in C(/etc/slurm), keyed by file name, such as C(topology.conf), C(job_submit.lua), or a script that
        O(parameters) name. C(cgroup.conf) and C(gres.conf) replace the collection's files.
      - Nodes get configuration files from C(slurmctld). Specify the same value for both components, because scripts, which begin with
        C(#!), are written on each host.
      - All users can read the files. Files that are no longer specified are deleted.
    type: dict
    default: {}
  settings:
    description:
      - The return value RV(settings) from the controller. If the value changes, C(slurmd) restarts, which does not affect running jobs.
      - Required with O(component=node) and O(state=present).
    type: str
extends_documentation_fragment: deeplearning.cluster.queue
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
seealso:
  - module: deeplearning.cluster.slurm_info
  - module: deeplearning.cluster.munge_key
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

from ..module_utils._hosts.queue import module_steps
from ..module_utils._hosts.slurm import controller, node

HARDWARE = {
    "cpus": {"type": "int", "required": True},
    "sockets": {"type": "int", "default": 0},
    "cores": {"type": "int", "default": 0},
    "threads": {"type": "int", "default": 0},
    "memory": {"type": "int", "required": True},
    "gpus": {"type": "int", "default": 0},
    "gpu_type": {"type": "str", "default": ""},
    "disk": {"type": "int", "default": 0},
}
FEATURES = {"type": "list", "elements": "str", "default": []}
NODE = {**module_steps.NODE, "hardware": {"type": "dict", "options": HARDWARE}, "features": FEATURES}
STEPS: module_steps.Steps = {
    ("controller", "present"): (controller.ensure_present, ["cluster", "nodes", "state_directory", "user"]),
    ("controller", "absent"): (controller.ensure_absent, ["state_directory", "user"]),
    ("node", "present"): (node.ensure_present, ["nodes", "settings"]),
    ("node", "absent"): (node.ensure_absent, []),
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **module_steps.PARAMETERS,
            "cluster": {"type": "str"},
            "nodes": {"type": "list", "elements": "dict", "options": NODE},
            "partition": {"type": "str", "default": "trainers"},
            "cgroups": {"type": "bool", "default": False},
            "files": {"type": "dict", "default": {}},
            "settings": {"type": "str"},
        },
        supports_check_mode=True,
    )
    module_steps.run(module, "slurm", STEPS)


if __name__ == "__main__":
    main()
