#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_trust
version_added: 0.1.0
short_description: Make a host of the cluster trusted, and trust the others, by SSH certificates
description:
  - Gives a host a host certificate, its login user a key of their own with a user certificate, and makes sshd and ssh trust the
    cluster's certificate authority. Hosts that join later need no change on this one.
  - An action plugin of the same name signs in memory on the controller. The private key of the authority never goes to a host,
    and private keys of hosts and users never leave theirs.
  - The login user's key and everything else is in C(/etc/ssh/deeplearning), a folder that only root can change. Keys in the user's home
    are neither signed nor changed.
  - It first inspects the host with one shell command. The module runs only where something differs, and twice where certificates have
    to be signed.
options:
  cluster:
    description:
      - Name of the cluster. Names that begin with it and a dash are the cluster's hosts.
    type: str
    required: true
  user:
    description:
      - The login user, who has the user key and is the only one that certificates of this authority let in.
    type: str
    required: true
  authority:
    description:
      - Public key of the certificate authority, an OpenSSH line.
    type: str
    required: true
  authority_private_key:
    description:
      - Private key of the certificate authority in OpenSSH's PEM format. Used on the controller only.
    type: str
  principals:
    description:
      - All names and addresses under which the host is reached. The first is the id of its instance, by which it can be revoked.
    type: list
    elements: str
    required: true
  address_patterns:
    description:
      - Patterns, as in C(known_hosts), of the addresses under which hosts of the cluster are reached.
    type: list
    elements: str
    default: []
  source_addresses:
    description:
      - Addresses or networks from which the user certificate may be used. The key does not leave the host, so its own address is enough.
      - When empty, the certificate may be used from anywhere.
    type: list
    elements: str
    default: []
  revoked:
    description:
      - Ids of instances whose certificates the host refuses, as a server and as a client.
    type: list
    elements: str
    default: []
  validity_days:
    description:
      - How long new certificates are valid. One that is valid for longer is replaced.
    type: int
    default: 10
  renew_days:
    description:
      - A certificate that ends in fewer days is renewed.
    type: int
    default: 5
  host_certificate:
    description:
      - The signed host certificate. Given by the action plugin.
    type: str
  user_certificate:
    description:
      - The signed user certificate. Given by the action plugin.
    type: str
attributes:
  check_mode:
    description: Predicts which certificates would be signed and which files would change.
    support: full
  diff_mode:
    description: Shows every file's difference.
    support: full
  idempotent:
    description: A host with valid certificates is not changed.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Trust the cluster's certificate authority
  deeplearning.cluster.ssh_trust:
    cluster: demo
    user: ubuntu
    authority: "{{ authority.public_key }}"
    authority_private_key: "{{ authority.private_key }}"
    principals: [i-0123456789abcdef0, deeplearning-worker2, demo-worker2, 10.0.1.5]
    address_patterns: ["10.0.*"]
    source_addresses: [10.0.1.5]
    revoked: [i-0123456789abcdef9]
  become: true
"""

RETURN = r"""
unsigned:
  description: Certificates that the host needs, by kind, with the reason. Empty when nothing had to be signed.
  returned: success
  type: dict
  contains:
    host: &need
      description: The certificate of that kind.
      returned: when the host needs it
      type: dict
      contains:
        public_key:
          description: The key that is to be signed.
          returned: when there is one
          type: str
          sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI...
        reason:
          description: Why.
          type: str
          sample: there is none
    user: *need
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.ssh_trust.converge import SPECIFICATION, check, run


def main() -> None:
    os.umask(0o022)  # on hardened hosts it would hide from the jobs' user what is made here
    module = AnsibleModule(**SPECIFICATION, supports_check_mode=True)
    try:
        check(module.params)
        run(module)
    except (ValueError, OSError) as error:
        module.fail_json(msg=f"SSH trust: {error}")


if __name__ == "__main__":
    main()
