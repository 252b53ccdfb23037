#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: shared_storage
version_added: 0.1.0
short_description: Mounts the cluster's shared storage on a host
description:
  - Runs on the host. Writes an entry to C(/etc/fstab), mounts the file system, and verifies in the mount table that the correct file
    system is mounted. Then makes the login user the owner of the root directory of the file system.
  - Retries a failed mount for at most O(timeout) seconds, because the DNS names of new mount targets take time to propagate.
  - Fails if the client for the file system is not installed on the host. The message names the client.
  - Nodes that M(deeplearning.cluster.cluster) launches get the same C(/etc/fstab) entry at boot.
  - An action plugin of the same name first inspects the host with one shell command, and runs the module only if something differs.
options:
  kind:
    description: Kind of the storage. Required with O(source).
    type: str
    choices: [efs, lustre, bucket]
  source:
    description:
      - Source of the mount. With O(state=present), exactly one of O(source), O(file_system_id) and O(lustre_source) is required.
      - With O(kind=efs), the source is the ID of the file system. With O(kind=lustre), it is C(DNS-NAME@tcp:/MOUNT-NAME). With
        O(kind=bucket), it is C(s3://BUCKET/PREFIX).
      - Mountpoint for Amazon S3 mounts buckets read-only, with the credentials of the instance role.
    type: str
  file_system_id:
    description: ID of the EFS file system. This is the same as O(source) with O(kind=efs).
    type: str
  region:
    description: Region of the EFS file system. Required with O(file_system_id) or O(kind=efs).
    type: str
  dns_suffix:
    description:
      - DNS suffix of the region's partition. The file system's DNS name ends with this suffix.
      - The action plugin of the same name derives the suffix from the region.
    type: str
    default: amazonaws.com
  address:
    description: Address of the mount target, for hosts that cannot resolve the file system's DNS name, such as hosts in a different VPC.
    type: str
  access_point:
    description:
      - ID of the EFS access point through which the file system is mounted. Hosts can access only the access point's directory.
      - Requires TLS.
    type: str
  directory:
    description:
      - The only directory of the EFS file system that the host may access. O(access_point) restricts the host to this directory.
      - If this option is set and O(access_point) is not, the module fails, because the host could access the whole file system.
    type: str
  encrypt_in_transit:
    description:
      - Whether EFS is mounted over TLS, with C(amazon-efs-utils).
      - By default, hosts with this package use TLS, and other hosts use plain NFS. An existing mount does not change, whether or not it
        uses TLS.
    type: bool
  lustre_source:
    description: Source of the FSx for Lustre mount. This is the same as O(source) with O(kind=lustre).
    type: str
  path:
    description: The mount point.
    type: path
    default: /efs
  owner:
    description:
      - The login user, who owns the root directory of the file system.
      - Required with O(state=present).
    type: str
  adopted:
    description:
      - Whether the file system is adopted. The root directory of an adopted file system keeps its owner, and O(owner) must be able to
        write to it.
    type: bool
    default: false
  timeout:
    description: Maximum time to retry a failed mount, in seconds.
    type: int
    default: 180
  state:
    description:
      - V(present) mounts the file system now and at boot.
      - V(absent) unmounts the file system, and removes the entry and the boot service. The contents of the file system are kept.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Predicts the changes without mounting anything.
    support: full
  diff_mode:
    description: Shows the changes to the C(/etc/fstab) entry and the mount.
    support: full
  idempotent:
    description: A host that has already mounted the storage is not changed.
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
  description: Source of the mount.
  returned: with O(state=present)
  type: str
  sample: fs-0123456789abcdef0.efs.us-east-1.amazonaws.com:/
client_missing:
  description: Whether the mount failed because the client is not installed on the host.
  returned: always
  type: bool
client_packages:
  description: Package name of the client by distribution or distribution family. Only distributions that provide the package are listed.
  returned: when the client is missing
  type: dict
  sample: {"Debian": "nfs-common", "RedHat": "nfs-utils"}
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._common.shared_storage.converge import SPECIFICATION, ensure_absent, ensure_present


def main() -> None:
    os.umask(0o022)  # with a hardened host's umask, the jobs' user could not read these files
    module = AnsibleModule(**SPECIFICATION, supports_check_mode=True)
    try:
        if module.params["state"] == "present":
            ensure_present(module)
        else:
            ensure_absent(module)
    except OSError as error:
        module.fail_json(msg=f"shared storage: {error}", client_missing=False)
    except ValueError as error:
        module.fail_json(msg=str(error), client_missing=False)


if __name__ == "__main__":
    main()
