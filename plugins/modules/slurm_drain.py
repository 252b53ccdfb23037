#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_drain
version_added: 0.2.0
short_description: Drains nodes of a Slurm cluster before they are terminated
description:
  - Runs on the master. Drains the nodes, so that no new job starts on them, and lists the jobs that are still running there.
  - Does nothing on a host without C(slurmctld), and ignores nodes that are not in the queue.
  - The module M(deeplearning.cluster.slurm) resumes nodes that this module has drained and that are members of the cluster.
extends_documentation_fragment: deeplearning.cluster.queue.drain
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
seealso:
  - module: deeplearning.cluster.slurm
"""

EXAMPLES = r"""
- name: Drain worker 3
  deeplearning.cluster.slurm_drain:
    nodes: [demo-worker3]
  become: true
"""

RETURN = r"""
drained:
  description: Names of the nodes that were drained.
  returned: success
  type: list
  elements: str
jobs:
  description: IDs of the jobs that are running on the nodes.
  returned: success
  type: list
  elements: str
  sample: ["12", "13"]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.slurm.commands import SlurmError
from ..module_utils._hosts.slurm.drain import drain


def main() -> None:
    module = AnsibleModule(
        argument_spec={"nodes": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    try:
        drain(module)
    except (OSError, SlurmError, ValueError) as error:
        module.fail_json(msg=f"slurm: {error}")


if __name__ == "__main__":
    main()
