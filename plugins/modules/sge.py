#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: sge
version_added: 0.2.0
short_description: Configures SGE (Grid Engine) on a host
description:
  - Runs on the host. O(component=controller) configures C(sge_qmaster) on the master. O(component=node) configures C(sge_execd) on a node.
  - The hosts must have the Grid Engine programs and a common MUNGE key. See M(deeplearning.cluster.sge_info) and
    M(deeplearning.cluster.munge_key).
  - Changes to O(nodes) do not affect running jobs. No job starts on a node that is no longer in O(nodes). A run removes such a node when no
    job is running on it.
  - Queue instances that an operator has disabled stay disabled.
options:
  component:
    description: V(controller) configures C(sge_qmaster), and V(node) configures C(sge_execd).
    type: str
    choices: [controller, node]
    required: true
  nodes:
    description:
      - With O(component=controller), the list contains all nodes. The first node runs C(sge_qmaster).
      - With O(component=node), the list contains an entry for the master and an entry for this host.
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
      cpus:
        description:
          - Number of CPUs. The node has one slot per CPU.
          - Without this value, the node keeps its hardware values from the current configuration. If the node is not in the configuration
            either, the module omits the node and shows a warning.
        type: int
      gpus:
        description: Number of GPUs. Jobs request GPUs with C(-l gpu=<n>), which applies to each slot.
        type: int
        default: 0
  state_directory:
    description:
      - Directory for the queue and its configuration. On shared storage, the queue is kept when the master is replaced.
      - Only root and the login user may have write permission for the parent directories.
      - Required with O(component=controller) or O(state=present).
    type: path
  queue:
    description: Name of the queue that contains all nodes.
    type: str
    default: trainers
  parameters:
    description: Additional settings of C(sge_conf), which override the collection's defaults, such as C(max_unheard).
    type: dict
    default: {}
extends_documentation_fragment: deeplearning.cluster.queue
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
seealso:
  - module: deeplearning.cluster.sge_info
  - module: deeplearning.cluster.sge_drain
  - module: deeplearning.cluster.munge_key
"""

EXAMPLES = r"""
- name: Run sge_qmaster on the master
  deeplearning.cluster.sge:
    component: controller
    user: ubuntu
    state_directory: /efs/sge-demo
    nodes:
      - {name: demo-master, address: 10.0.0.4, cpus: 96, gpus: 8}
      - {name: demo-worker2, address: 10.0.1.5, cpus: 96, gpus: 8}
  become: true

- name: Run sge_execd on worker 2
  deeplearning.cluster.sge:
    component: node
    state_directory: /efs/sge-demo
    nodes:
      - {name: demo-master, address: 10.0.0.4}
      - {name: demo-worker2, address: 10.0.1.5, cpus: 96, gpus: 8}
  become: true
"""

RETURN = r"""
leaving:
  description: Names of the nodes that have left the cluster and on which jobs are still running. A later run removes them.
  returned: with O(component=controller) and O(state=present)
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.queue import module_steps
from ..module_utils._hosts.sge import controller, node

NODE = {**module_steps.NODE, "cpus": {"type": "int"}, "gpus": {"type": "int", "default": 0}}
STEPS: module_steps.Steps = {
    ("controller", "present"): (controller.ensure_present, ["nodes", "state_directory", "user"]),
    ("controller", "absent"): (controller.ensure_absent, ["state_directory", "user"]),
    ("node", "present"): (node.ensure_present, ["nodes", "state_directory"]),
    ("node", "absent"): (node.ensure_absent, []),
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **module_steps.PARAMETERS,
            "nodes": {"type": "list", "elements": "dict", "options": NODE},
            "queue": {"type": "str", "default": "trainers"},
        },
        supports_check_mode=True,
    )
    module_steps.run(module, "sge", STEPS)


if __name__ == "__main__":
    main()
