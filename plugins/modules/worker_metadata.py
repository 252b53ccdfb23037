#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: worker_metadata
version_added: 0.1.0
short_description: Tell a host which cluster it belongs to
description:
  - Runs on the host. Writes the list of workers, C(metadata.json), the variables of login shells and a marked block of
    C(/etc/hosts), each file in one step and C(metadata.json) last, so that its generation is only there when all the rest is.
  - Counts the host's GPUs with C(nvidia-smi -L).
  - An action plugin of the same name first looks at the host by one shell command, and runs the module where not everything is right.
options:
  cluster:
    description:
      - Name of the cluster.
      - Required with O(state=present).
    type: str
  number:
    description:
      - Number of this host, 1 is the master.
      - Required with O(state=present).
    type: int
  workers:
    description:
      - All hosts of the cluster, the master included, in any order.
      - Required with O(state=present).
    type: list
    elements: dict
    suboptions:
      number:
        description:
          - Number of the worker.
        type: int
        required: true
      name:
        description:
          - The name that hosts use among themselves.
        type: str
        required: true
      address:
        description:
          - Its private address.
        type: str
        required: true
  user:
    description:
      - The login user, who owns the list of workers.
      - Required with O(state=present).
    type: str
  efs_mount:
    description:
      - Mount point of the shared storage, for E(EFS_MOUNT).
      - Omitted when there is none.
    type: path
  directory:
    description:
      - Where the list of workers and C(metadata.json) are.
    type: path
    default: /opt/deeplearning
  worker_ip_file:
    description:
      - Also write the workers' addresses here, one per line in numeric order, as EMR-based clusters did.
    type: path
  state:
    description:
      - V(absent) removes all of it.
    type: str
    choices:
      - present
      - absent
    default: present
attributes:
  check_mode:
    description: Predicts the changes and writes nothing.
    support: full
  diff_mode:
    description: Shows every file's difference.
    support: full
  idempotent:
    description: A host that knows its cluster is not changed.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Tell worker 2 about its cluster
  deeplearning.cluster.worker_metadata:
    cluster: demo
    number: 2
    user: ubuntu
    efs_mount: /efs
    workers:
      - number: 1
        name: deeplearning-worker1
        address: 10.0.0.4
      - number: 2
        name: deeplearning-worker2
        address: 10.0.1.5
  become: true
"""

RETURN = r"""
generation:
  description: Digest of the cluster's name and members, equal on hosts that were told the same.
  returned: with O(state=present)
  type: str
  sample: 0f343b093155
gpu_count:
  description: GPUs of this host.
  returned: with O(state=present)
  type: int
  sample: 8
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.files import THIS, Host, HostFile, agree, converge
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.worker_metadata.metadata import (
    address_file,
    count_gpus,
    generation,
    hosts_block,
    metadata_file,
    ordered,
    profile_file,
    replace_block,
    workers_file,
)

HOSTS = "/etc/hosts"
PROFILE = "/etc/profile.d/deeplearning.sh"
CLOUD_INIT_DIRECTORY = "/etc/cloud/cloud.cfg.d"
CLOUD_INIT = CLOUD_INIT_DIRECTORY + "/99-deeplearning-hosts.cfg"
#: Some images (Debian's) let cloud-init write /etc/hosts anew at every boot.
CLOUD_INIT_CONTENT = "# /etc/hosts has a block of the cluster's: it must outlive a reboot.\nmanage_etc_hosts: false\n"


LIST_GPUS = ("nvidia-smi", "-L")
WORKER = {
    "number": {"type": "int", "required": True},
    "name": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
}
SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "cluster": {"type": "str"},
        "number": {"type": "int"},
        "workers": {"type": "list", "elements": "dict", "options": WORKER},
        "user": {"type": "str"},
        "efs_mount": {"type": "path"},
        "directory": {"type": "path", "default": "/opt/deeplearning"},
        "worker_ip_file": {"type": "path"},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    },
    "required_if": [("state", "present", ["cluster", "number", "workers", "user"])],
}


def main() -> None:
    os.umask(0o022)  # on hardened hosts it would hide from the jobs' user what is made here
    module = AnsibleModule(**SPECIFICATION, supports_check_mode=True)
    try:
        if module.params["state"] == "present":
            ensure_present(module)
        else:
            ensure_absent(module)
    except (ValueError, OSError) as error:
        module.fail_json(msg=f"worker metadata: {error}")


def ensure_present(module: AnsibleModule) -> None:
    """Write what differs, and end the module."""
    params = module.params
    THIS.account(params["user"])
    gpu_count = detect_gpus(module)
    diff = converge(module, described(params, gpu_count, THIS))
    module.exit_json(changed=bool(diff), diff=diff, **facts(params, gpu_count))


def described(params: dict[str, Any], gpu_count: int, host: Host) -> list[HostFile]:
    """Return the host's files as the parameters describe them. Raises ValueError."""
    workers = ordered(params["workers"])
    if params["number"] not in [worker["number"] for worker in workers]:
        raise ValueError("workers do not contain this host's own number {0}".format(params["number"]))
    workers_path = os.path.join(params["directory"], "workers")
    files = [HostFile(workers_path, workers_file(workers), owner=params["user"])]
    if params["worker_ip_file"]:
        files.append(HostFile(params["worker_ip_file"], address_file(workers), owner=params["user"]))
    if host.exists(CLOUD_INIT_DIRECTORY):
        files.append(HostFile(CLOUD_INIT, CLOUD_INIT_CONTENT))
    return [
        *files,
        HostFile(HOSTS, replace_block(host.read(HOSTS) or "", hosts_block(workers)), in_place=True),
        HostFile(PROFILE, profile_file(len(workers), workers_path, gpu_count, params["efs_mount"])),
        HostFile(metadata_path(params), metadata_file(params["cluster"], params["number"], workers, gpu_count)),
    ]


def facts(params: dict[str, Any], gpu_count: int) -> dict[str, Any]:
    """Return what the module tells of a host that knows its cluster."""
    return {"generation": generation(params["cluster"], params["workers"]), "gpu_count": gpu_count}


def paths(params: dict[str, Any]) -> list[str]:
    """Return everything that is_right() asks for."""
    names = [os.path.join(params["directory"], "workers"), CLOUD_INIT_DIRECTORY, CLOUD_INIT, HOSTS, PROFILE, metadata_path(params)]
    return names + [params["worker_ip_file"]] * bool(params["worker_ip_file"])


def is_right(params: dict[str, Any], gpu_count: int, host: Host) -> bool:
    """Return whether nothing has to be changed. Raises ValueError as the module itself would."""
    return agree(described(params, gpu_count, host), host)


def ensure_absent(module: AnsibleModule) -> None:
    """Remove every file and the block, and end the module; jobs refuse the host from the first removal on."""
    names = [metadata_path(module.params), PROFILE, CLOUD_INIT, os.path.join(module.params["directory"], "workers")]
    if module.params["worker_ip_file"]:
        names.append(module.params["worker_ip_file"])
    files: list[HostFile] = [HostFile(name, None) for name in names]
    hosts = THIS.read(HOSTS)
    if hosts is not None:
        files.append(HostFile(HOSTS, replace_block(hosts, ""), in_place=True))
    diff = converge(module, files)
    directory = module.params["directory"]
    if not module.check_mode and os.path.isdir(directory) and not os.listdir(directory):
        os.rmdir(directory)
    module.exit_json(changed=bool(diff), diff=diff)


def metadata_path(params: dict[str, Any]) -> str:
    """Return where metadata.json is."""
    return os.path.join(params["directory"], "metadata.json")


def detect_gpus(module: AnsibleModule) -> int:
    """Return how many GPUs the driver lists, 0 on a host without a driver."""
    command = module.get_bin_path(LIST_GPUS[0])
    if command is None:
        return 0
    status, output, error = module.run_command([command, *LIST_GPUS[1:]])
    if status != 0:
        module.warn(f"nvidia-smi -L failed, so this host counts as one without GPUs: {(error or output).strip()}")
        return 0
    return count_gpus(output)


if __name__ == "__main__":
    main()
