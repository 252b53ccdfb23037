#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_files
version_added: 0.2.0
short_description: Writes the controller's SSH files for a cluster
description:
  - Writes C(known_hosts), C(config) and C(revoked_keys), with which Ansible and C(ssh -F) verify the hosts of a cluster.
  - The files are a cache of public keys for later runs. Check mode writes them too, because Ansible cannot connect to any host
    without them.
  - Each value must match a strict pattern. A value with an unexpected line break, quote or space is refused.
  - This is an action plugin. It runs on the controller and does not start a module.
options:
  directory:
    description:
      - Folder of the files.
    type: path
    required: true
  hosts:
    description:
      - Inventory names of all hosts of the cluster.
    type: list
    elements: str
    required: true
  nodes:
    description:
      - The table C(deeplearning_nodes) of the nodes inventory. When omitted, instance ids and proxy commands come from the hosts'
        variables.
    type: dict
    default: {}
  jump_host:
    description:
      - Inventory name of the jump host in C(config), for the hosts that the inventory also reaches through a jump host.
    type: str
    required: true
  authority:
    description:
      - Public key of the certificate authority. By default, it is the authority in C(known_hosts).
      - If it changes, all previously learnt host keys are removed.
    type: str
    default: ""
  forget_authority:
    description:
      - Whether to remove the authority from C(known_hosts) and keep the keys of hosts. A rotation does this before it creates the new
        authority.
    type: bool
    default: false
  host_keys:
    description:
      - Host keys as M(deeplearning.cluster.host_keys_info) returns them.
    type: list
    elements: dict
    default: []
  answers:
    description:
      - Output of C(cat /etc/ssh/ssh_host_ed25519_key.pub) on hosts, by inventory name. Output that is not
        exactly one ed25519 key is ignored.
    type: dict
    default: {}
  revoked:
    description:
      - Ids of instances that are not trusted, in addition to O(former).
    type: list
    elements: str
    default: []
  former:
    description:
      - Ids of instances that were hosts of the cluster and are no longer trusted. By default, these are the revoked instances in
        C(known_hosts).
    type: list
    elements: str
attributes:
  check_mode:
    description: Also writes the files in check mode.
    support: none
  diff_mode:
    description: Shows the differences of every file.
    support: full
  idempotent:
    description: Files that are already correct are not written.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Write the cluster's SSH files
  deeplearning.cluster.ssh_files:
    directory: ~/.ssh/deeplearning/bert
    hosts: "{{ groups['trainers'] }}"
    nodes: "{{ deeplearning_nodes }}"
    jump_host: bert-master
    authority: "{{ authority.public_key }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
authority:
  description: Public key of the authority in C(known_hosts). It is empty if there is no authority.
  returned: success
  type: str
cached:
  description: Whether the files contain host keys from an earlier run that are still valid.
  returned: success
  type: bool
gone:
  description: Ids of instances whose keys an earlier run learnt and that are no longer hosts of the cluster.
  returned: success
  type: list
  elements: str
revoked:
  description: Ids of instances that are revoked.
  returned: success
  type: list
  elements: str
unknown:
  description: Ids of instances whose host keys are not known.
  returned: success
  type: list
  elements: str
"""
