#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: node_configuration_info
version_added: 0.2.0
short_description: Tells whether a node is configured
description:
  - Tells whether M(deeplearning.cluster.ssh_trust), M(deeplearning.cluster.shared_storage) and M(deeplearning.cluster.worker_metadata)
    would change nothing on the host.
  - This is an action plugin. It inspects the host with one shell command and does not start a module.
options:
  ssh_trust:
    description: Arguments of M(deeplearning.cluster.ssh_trust).
    type: dict
    required: true
  shared_storage:
    description: Arguments of M(deeplearning.cluster.shared_storage).
    type: dict
    required: true
  worker_metadata:
    description: Arguments of M(deeplearning.cluster.worker_metadata).
    type: dict
    required: true
attributes:
  check_mode:
    description: The host is not changed.
    support: full
  diff_mode:
    description: The host is not changed.
    support: none
  idempotent:
    description: The host is not changed.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Check whether the node is configured
  deeplearning.cluster.node_configuration_info:
    ssh_trust: "{{ trust }}"
    shared_storage: {kind: efs, source: fs-0123456789abcdef0, region: us-east-1, owner: ubuntu}
    worker_metadata: {cluster: bert, number: 1, workers: [{number: 1, address: 10.0.0.4, name: deeplearning-worker1}], user: ubuntu}
  become: true
"""

RETURN = r"""
configured:
  description: Whether the modules would change nothing. The value is also V(false) if they refuse their arguments, or if the check fails.
  returned: success
  type: bool
"""
