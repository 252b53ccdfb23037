#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_info
version_added: 0.2.0
short_description: Returns a host's hardware and the packages that it lacks for Slurm
description:
  - Runs on the host. Returns the host's hardware, the Slurm packages that the host lacks, and whether the host has the MUNGE key of a
    cluster.
  - GPUs are counted with C(nvidia-smi -q -x). A host on which C(nvidia-smi) lists fewer GPUs than C(/opt/deeplearning/metadata.json)
    keeps the number in this file, with a warning.
  - Fails if Slurm is not installed and the repositories of the distribution do not contain it, for example on Amazon Linux.
extends_documentation_fragment: deeplearning.cluster.queue.info
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
seealso:
  - module: deeplearning.cluster.slurm
"""

EXAMPLES = r"""
- name: Read the hardware of the hosts
  deeplearning.cluster.slurm_info:
  become: true
  register: result
"""

RETURN = r"""
hardware:
  description: The host's hardware, for O(deeplearning.cluster.slurm#module:nodes[].hardware).
  returned: success
  type: dict
  contains:
    cpus:
      description: Number of CPUs (hardware threads).
      type: int
    sockets:
      description: Number of sockets, or V(0) if the CPUs have no regular topology.
      type: int
    cores:
      description: Number of cores per socket.
      type: int
    threads:
      description: Number of hardware threads per core.
      type: int
    memory:
      description: Memory for jobs in MiB, which is 95 % of the host's memory.
      type: int
    gpus:
      description: Number of GPUs. V(0) if a GPU has no device file, because Slurm cannot allocate such GPUs.
      type: int
    gpu_type:
      description: Model of the GPUs. The value is empty if it is unknown or the GPUs differ.
      type: str
      sample: h100
    disk:
      description: Size of C(/tmp) in MiB, which is 95 % of the size of its file system.
      type: int
missing_packages:
  description: Packages of the distribution that the host lacks.
  returned: success
  type: list
  elements: str
cgroups:
  description: Whether Slurm can use cgroups on the host.
  returned: success
  type: bool
key_digest:
  description: Digest of the cluster's MUNGE key. The value is empty if the host has no such key.
  returned: success
  type: str
  sample: 0f343b093155
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._common import gpus
from ..module_utils._hosts.munge import key
from ..module_utils._hosts.queue import packages
from ..module_utils._hosts.services import ServiceError
from ..module_utils._hosts.slurm import hardware
from ..module_utils._hosts.slurm.packages import CONTROLLER_PROGRAMS, PROGRAMS


def main() -> None:
    module = AnsibleModule(argument_spec={"controller": {"type": "bool", "default": False}}, supports_check_mode=True)
    lacking = packages.missing({**PROGRAMS, **(CONTROLLER_PROGRAMS if module.params["controller"] else {})})
    try:
        packages.check_available(lacking, "Slurm")
        found = hardware.read_hardware(gpus.count(gpus.configured_count(), module.warn), module.warn)
        digest = key.digest(key.read_key())
    except ServiceError as error:
        module.fail_json(msg=f"slurm: {error}")
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"slurm: the host's hardware cannot be read: {error}")
    module.exit_json(
        changed=False,
        hardware=hardware.as_result(found),
        missing_packages=lacking,
        cgroups=hardware.has_cgroups(module.run_command),
        key_digest=digest,
    )


if __name__ == "__main__":
    main()
