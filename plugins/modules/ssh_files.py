#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_files
version_added: 0.2.0
short_description: Write the controller's SSH files of a cluster
description:
  - Writes C(known_hosts), C(config) and C(revoked_keys), with which Ansible and C(ssh -F) verify the hosts of a cluster.
  - The files are a cache of public keys, which later runs read. Check mode writes them too, because without them no host can be reached.
  - Every value must match its full pattern. One with an unexpected line break, quote or space is refused.
  - An action plugin. It runs on the controller and starts no module.
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
      - The table C(deeplearning_nodes) of the nodes inventory. Without it, instance ids and proxy commands come from the hosts' variables.
    type: dict
    default: {}
  jump_host:
    description:
      - Inventory name of the host through which C(config) jumps where the inventory does.
    type: str
    required: true
  authority:
    description:
      - Public key of the certificate authority. By default the one that C(known_hosts) already names.
      - When it changes, all keys that were learnt before are dropped.
    type: str
    default: ""
  forget_authority:
    description:
      - Take the authority out of C(known_hosts), and keep the keys of hosts. So it goes before another authority is made.
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
      - What hosts answered to C(cat /etc/ssh/ssh_host_ed25519_key.pub), by inventory name. One that is not
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
      - Ids of instances that were hosts of the cluster, and are no longer trusted. By default those that C(known_hosts) names.
    type: list
    elements: str
attributes:
  check_mode:
    description: Writes the files too.
    support: none
  diff_mode:
    description: Shows every file's difference.
    support: full
  idempotent:
    description: Correct files are not written.
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
  description: Public key of the authority in C(known_hosts), empty if there is none.
  returned: success
  type: str
cached:
  description: Whether an earlier run has left keys of hosts that still count.
  returned: success
  type: bool
gone:
  description: Ids of instances whose keys an earlier run has learnt, and that are no hosts of the cluster any more.
  returned: success
  type: list
  elements: str
revoked:
  description: Ids of instances that are not recognised.
  returned: success
  type: list
  elements: str
unknown:
  description: Ids of instances of which no key is known.
  returned: success
  type: list
  elements: str
"""
