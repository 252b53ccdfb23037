#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: worker_metadata
version_added: 0.1.0
short_description: Writes the metadata files of the cluster to a host
description:
  - Runs on the host. Writes the list of workers, C(metadata.json), environment variables for login shells, and marked blocks in
    C(/etc/hosts) and C(/etc/environment). Also sets the host name to the name in O(workers).
  - PAM sets the variables in C(/etc/environment) for commands that run without a login shell, such as commands that C(ssh host command)
    runs. The remaining lines of this file stay the same, and diffs do not show them.
  - Each file is replaced atomically. C(metadata.json) is written last, so a current generation in it means that the other files are
    complete.
  - Counts the host's GPUs with C(nvidia-smi -q -x). If C(nvidia-smi) fails or lists fewer GPUs than at the last configuration, the number
    in C(metadata.json) stays, with a warning.
  - An action plugin of the same name first inspects the host with one shell command, and runs the module only if something differs.
options:
  cluster:
    description:
      - Name of the cluster.
      - Required with O(state=present).
    type: str
  number:
    description:
      - Number of this host. The master is number 1.
      - Required with O(state=present).
    type: int
  workers:
    description:
      - All hosts of the cluster, including the master, in any order.
      - Required with O(state=present).
    type: list
    elements: dict
    suboptions:
      number:
        description: Number of the worker.
        type: int
        required: true
      name:
        description: Name of the host. Hosts also resolve the alias C(deeplearning-worker<number>), which is the same in all clusters.
        type: str
        required: true
      address:
        description: Private address of the worker.
        type: str
        required: true
  user:
    description:
      - The login user, who owns the list of workers.
      - Required with O(state=present).
    type: str
  efs_mount:
    description:
      - Mount point of the shared storage, for the environment variable E(EFS_MOUNT).
      - Omit this option if the cluster has no shared storage.
    type: path
  directory:
    description: Directory of the list of workers and C(metadata.json).
    type: path
    default: /opt/deeplearning
  workers_content:
    description:
      - What each line of the list of workers contains. V(names) writes the aliases C(deeplearning-worker<number>), which stay the same when
        a node is replaced. V(addresses) writes private addresses, for programs that bind to the address in the line, such as MXNet's
        C(launch.py).
    type: str
    choices: [names, addresses]
    default: names
  worker_ip_file:
    description:
      - Path of an additional file with the workers' addresses, one per line in numeric order. Programs that were written for EMR-based
        clusters read such a file.
    type: path
  state:
    description: V(absent) removes all files. The host keeps its name.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Predicts the changes without writing anything.
    support: full
  diff_mode:
    description: Shows the differences in every file.
    support: full
  idempotent:
    description: A host with correct files is not changed.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Write the worker metadata to worker 2
  deeplearning.cluster.worker_metadata:
    cluster: demo
    number: 2
    user: ubuntu
    efs_mount: /efs
    workers:
      - number: 1
        name: demo-master
        address: 10.0.0.4
      - number: 2
        name: demo-worker2
        address: 10.0.1.5
  become: true
"""

RETURN = r"""
generation:
  description: Digest of the cluster's name and members. Hosts with the same digest have the same members in their metadata.
  returned: with O(state=present)
  type: str
  sample: 0f343b093155
gpu_count:
  description: Number of GPUs of this host.
  returned: with O(state=present)
  type: int
  sample: 8
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._common.worker_metadata.converge import SPECIFICATION, ensure_absent, ensure_present


def main() -> None:
    os.umask(0o022)  # with a hardened host's umask, the jobs' user could not read these files
    module = AnsibleModule(**SPECIFICATION, supports_check_mode=True)
    try:
        if module.params["state"] == "present":
            ensure_present(module)
        else:
            ensure_absent(module)
    except (ValueError, OSError) as error:
        module.fail_json(msg=f"worker metadata: {error}")


if __name__ == "__main__":
    main()
