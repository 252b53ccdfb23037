#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: shared_storage
version_added: 0.1.0
short_description: Mount the cluster's shared storage on a host
description:
  - Runs on the host. Writes the entry of C(/etc/fstab), mounts it, verifies in the mount table that the right file system is mounted,
    and gives the mount point to the login user.
  - Retries for a while, because the DNS names of new mount targets take time to appear.
  - Fails where the host lacks the client of the file system, and names that client.
  - The entry is the one that nodes of M(deeplearning.cluster.node_group) get at boot.
  - An action plugin of the same name first inspects the host with one shell command, and runs the module only where something differs.
options:
  kind:
    description:
      - Kind of the storage, required with O(source).
    type: str
    choices:
      - efs
      - lustre
      - bucket
  source:
    description:
      - What is mounted. Exactly one of this, O(file_system_id) and O(lustre_source) is required with O(state=present).
      - Of V(efs) it is the id of the file system, of V(lustre) C(DNS-NAME@tcp:/MOUNT-NAME), of V(bucket) C(s3://BUCKET/PREFIX).
      - A bucket is mounted for reading by Mountpoint for Amazon S3, with the credentials of the instance's role.
    type: str
  file_system_id:
    description:
      - Id of the EFS file system, the same as O(source) with O(kind=efs).
    type: str
  region:
    description:
      - Region of the EFS file system, required with O(file_system_id) and O(kind=efs).
    type: str
  dns_suffix:
    description:
      - End of the file system's DNS name, which is that of the region's partition.
      - The action plugin of the same name takes it from the region.
    type: str
    default: amazonaws.com
  address:
    description:
      - Address of the mount target, for hosts that cannot resolve the file system's DNS name, such as those in another VPC.
    type: str
  access_point:
    description:
      - Id of the access point of EFS through which it is mounted. Hosts see the access point's directory only.
      - Requires TLS.
    type: str
  encrypt_in_transit:
    description:
      - Whether EFS is mounted through TLS, by C(amazon-efs-utils).
      - By default it is on hosts that have that package. Others use plain NFS. An existing mount is kept, whichever it uses.
    type: bool
  lustre_source:
    description:
      - What is mounted of FSx for Lustre, the same as O(source) with O(kind=lustre).
    type: str
  path:
    description:
      - The mount point.
    type: path
    default: /efs
  owner:
    description:
      - The login user, who owns the root folder of the file system.
      - Required with O(state=present).
    type: str
  adopted:
    description:
      - Whether the file system is adopted. Its root folder keeps its owner then, and O(owner) must be able to write there.
    type: bool
    default: false
  timeout:
    description:
      - How long to retry mounting, in seconds.
    type: int
    default: 180
  state:
    description:
      - V(present) mounts now and at boot.
      - V(absent) unmounts and removes the entry and the boot service. The contents of the file system are kept.
    type: str
    choices:
      - present
      - absent
    default: present
attributes:
  check_mode:
    description: Predicts the changes and mounts nothing.
    support: full
  diff_mode:
    description: Shows the entry and what is mounted.
    support: full
  idempotent:
    description: A host that has the storage is not changed.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Mount the shared storage
  deeplearning.cluster.shared_storage:
    kind: efs
    source: fs-0123456789abcdef0
    region: us-east-1
    path: /efs
    owner: ubuntu
  become: true

- name: Mount a Lustre file system
  deeplearning.cluster.shared_storage:
    kind: lustre
    source: fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh
    path: /fsx
    owner: ubuntu
  become: true
"""

RETURN = r"""
source:
  description: What is mounted.
  returned: with O(state=present)
  type: str
  sample: fs-0123456789abcdef0.efs.us-east-1.amazonaws.com:/
client_missing:
  description: Whether the host lacks the client, which is why nothing could be mounted.
  returned: always
  type: bool
client_packages:
  description: The client's package in a distribution's own repositories, by the name of the distribution or of its family.
  returned: when the client is missing
  type: dict
  sample: {"Debian": "nfs-common", "RedHat": "nfs-utils"}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage.converge import (
    SPECIFICATION,
    ensure_absent,
    ensure_present,
)


def main() -> None:
    os.umask(0o022)  # on hardened hosts it would hide from the jobs' user what is made here
    module = AnsibleModule(**SPECIFICATION, supports_check_mode=True)
    try:
        if module.params["state"] == "present":
            ensure_present(module)
        else:
            ensure_absent(module)
    except (ValueError, OSError) as error:
        module.fail_json(msg=f"shared storage: {error}", client_missing=False)


if __name__ == "__main__":
    main()
