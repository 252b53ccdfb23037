#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_files
version_added: 0.2.0
short_description: Writes the controller's SSH files for a cluster
description:
  - Writes C(known_hosts), C(config) and C(revoked_keys). Ansible and C(ssh -F) use these files to verify the hosts of a cluster.
  - The files cache public keys for later runs. The files are also written in check mode, because Ansible cannot connect to any host
    without them.
  - Each value must match a strict pattern. Values with unexpected line breaks, quotes or spaces are rejected.
  - This is an action plugin. It runs on the controller and does not start a module.
options:
  directory:
    description: Directory for the files.
    type: path
    required: true
  state:
    description: V(absent) deletes the files. Directories that are then empty are deleted too.
    type: str
    choices: [present, absent]
    default: present
  hosts:
    description:
      - Inventory names of all hosts in the cluster. Their instance IDs and proxy commands come from the inventory plugin
        P(deeplearning.cluster.nodes#inventory). In a hand-written inventory, host variables contain them. Required with O(state=present).
    type: list
    elements: str
    default: []
  jump_host:
    description:
      - Inventory name of the jump host. C(config) uses it for the same hosts that Ansible reaches through a jump host. Required with
        O(state=present).
    type: str
    default: ""
  region:
    description: Region of the cluster. In C(config), each host also has the name C(NAME.REGION).
    type: str
    default: ""
  account:
    description: AWS account of the cluster. In C(config), each host also has the name C(NAME.REGION.ACCOUNT).
    type: str
    default: ""
  authority:
    description:
      - Public key of the certificate authority. The default is the authority in C(known_hosts). During a rotation, a second line is the
        public key of the previous authority.
      - If the authority changes, all previously learned host keys are removed.
    type: str
    default: ""
  forget_authority:
    description:
      - Whether to remove the authority from C(known_hosts) and keep the host keys. During a rotation, this happens before the new
        authority is created.
    type: bool
    default: false
  host_keys:
    description: Host keys, in the format that M(deeplearning.cluster.host_keys_info) returns.
    type: list
    elements: dict
    default: []
  answers:
    description:
      - Output of C(cat /etc/ssh/ssh_host_ed25519_key.pub) on each host, by inventory name. Output other than a single ed25519 key
        is ignored.
    type: dict
    default: {}
  revoked:
    description: IDs of instances that are not trusted, in addition to O(former).
    type: list
    elements: str
    default: []
  former:
    description:
      - IDs of instances that were hosts of the cluster and are no longer trusted. The default is the revoked instances in
        C(known_hosts).
    type: list
    elements: str
attributes:
  check_mode:
    description: The files are also written in check mode.
    support: none
  diff_mode:
    description: Shows the differences in every file.
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
    directory: ~/.ssh/deeplearning/123456789012/us-east-1/bert
    hosts: "{{ groups['trainers'] }}"
    jump_host: bert-master
    authority: "{{ authority.public_key }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
authority:
  description: Public key of the authority in C(known_hosts). The value is empty if there is no authority.
  returned: success
  type: str
cached:
  description: Whether the files contain host keys from an earlier run that are still valid.
  returned: success
  type: bool
gone:
  description: IDs of instances that are no longer hosts of the cluster but have host keys from an earlier run.
  returned: success
  type: list
  elements: str
revoked:
  description: IDs of the revoked instances.
  returned: success
  type: list
  elements: str
unknown:
  description: IDs of instances whose host keys are unknown.
  returned: success
  type: list
  elements: str
"""
