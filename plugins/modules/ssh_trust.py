#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_trust
version_added: 0.1.0
short_description: Sets up SSH certificates so that the hosts of a cluster trust each other
description:
  - Installs a host certificate, and a key with a user certificate for the login user. Configures sshd and ssh to trust the cluster's
    certificate authority. If other hosts join the cluster later, this host does not have to be changed.
  - An action plugin of the same name signs certificates in memory on the controller. The private key of the authority is never sent to
    a host, and the private keys of hosts and users never leave their hosts.
  - The certificates and the login user's key are in C(/etc/ssh/deeplearning), a directory that only root can change. Keys in the user's
    home directory are neither signed nor changed.
  - The action plugin first inspects the host with one shell command, and runs the module only if something differs. If certificates
    have to be signed, it runs the module twice.
options:
  cluster:
    description: Name of the cluster. Host names that begin with this name and a hyphen belong to the cluster.
    type: str
    required: true
  user:
    description: The login user, who owns the user key. Hosts accept user certificates of this authority only for logins as this user.
    type: str
    required: true
  authority:
    description: Public key of the certificate authority in OpenSSH's one-line format.
    type: str
    required: true
  authority_private_key:
    description: Private key of the certificate authority in OpenSSH's PEM format. The private key is used only on the controller.
    type: str
  principals:
    description:
      - All names and addresses by which SSH reaches the host. The first entry must be the instance ID, because revocation uses this entry.
    type: list
    elements: str
    required: true
  address_patterns:
    description: Address patterns for the cluster's hosts, in the format of C(known_hosts).
    type: list
    elements: str
    default: []
  source_addresses:
    description:
      - Addresses or networks from which the user certificate may be used. The host's own address is sufficient, because the key does not
        leave the host.
      - If the list is empty, the certificate may be used from anywhere.
    type: list
    elements: str
    default: []
  revoked:
    description: IDs of instances whose certificates the host rejects, both as an SSH server and as an SSH client.
    type: list
    elements: str
    default: []
  validity_days:
    description: Validity of new certificates in days. An existing certificate that is valid for longer is replaced.
    type: int
    default: 10
  renew_days:
    description: Certificates that expire in fewer than this number of days are renewed.
    type: int
    default: 5
  host_certificate:
    description: The signed host certificate. The action plugin sets this option.
    type: str
  user_certificate:
    description: The signed user certificate. The action plugin sets this option.
    type: str
attributes:
  check_mode:
    description: Predicts which certificates would be signed and which files would change.
    support: full
  diff_mode:
    description: Shows the differences in every file.
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
    principals: [i-0123456789abcdef0, demo-worker2, deeplearning-worker2, 10.0.1.5]
    address_patterns: ["10.0.*"]
    source_addresses: [10.0.1.5]
    revoked: [i-0123456789abcdef9]
  become: true
"""

RETURN = r"""
unsigned:
  description: Certificates that have to be signed, keyed by kind. The value is empty if the host needs no new certificate.
  returned: success
  type: dict
  contains:
    host: &need
      description: Details of the certificate to sign.
      returned: when the host needs the certificate
      type: dict
      contains:
        public_key:
          description: The public key to sign.
          returned: when the host has a key
          type: str
          sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI...
        reason:
          description: Why the host needs the certificate.
          type: str
          sample: it does not exist
    user: *need
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._common.ssh_trust.converge import SPECIFICATION, check, run


def main() -> None:
    os.umask(0o022)  # with a hardened host's umask, the jobs' user could not read these files
    module = AnsibleModule(**SPECIFICATION, supports_check_mode=True)
    try:
        check(module.params)
        run(module)
    except (ValueError, OSError) as error:
        module.fail_json(msg=f"SSH trust: {error}")


if __name__ == "__main__":
    main()
