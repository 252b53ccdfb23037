#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: sge_info
version_added: 0.2.0
short_description: Returns a host's hardware and the packages that it lacks for SGE (Grid Engine)
description:
  - Runs on the host. Returns the host's CPU and GPU counts, the Grid Engine packages that the host lacks, and whether the host has the
    MUNGE key of a cluster.
  - GPUs are counted with C(nvidia-smi -q -x). A host on which C(nvidia-smi) lists fewer GPUs than C(/opt/deeplearning/metadata.json)
    keeps the number in this file, with a warning.
  - Fails if Grid Engine is not installed and the repositories of the distribution do not contain it, for example on Amazon Linux.
extends_documentation_fragment: deeplearning.cluster.queue.info
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
seealso:
  - module: deeplearning.cluster.sge
"""

EXAMPLES = r"""
- name: Read the hardware of the hosts
  deeplearning.cluster.sge_info:
  become: true
  register: result
"""

RETURN = r"""
cpus:
  description: Number of CPUs (hardware threads).
  returned: success
  type: int
gpus:
  description: Number of GPUs.
  returned: success
  type: int
missing_packages:
  description: Packages of the distribution that the host lacks.
  returned: success
  type: list
  elements: str
key_digest:
  description: Digest of the cluster's MUNGE key. The value is empty if the host has no such key.
  returned: success
  type: str
  sample: 0f343b093155
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._common import gpus
from ..module_utils._hosts.munge import key
from ..module_utils._hosts.queue import packages
from ..module_utils._hosts.services import ServiceError
from ..module_utils._hosts.sge.packages import CONTROLLER_PROGRAMS, PROGRAMS


def main() -> None:
    module = AnsibleModule(argument_spec={"controller": {"type": "bool", "default": False}}, supports_check_mode=True)
    lacking = packages.missing({**PROGRAMS, **(CONTROLLER_PROGRAMS if module.params["controller"] else {})})
    try:
        packages.check_available(lacking, "Grid Engine")
        digest = key.digest(key.read_key())
    except ServiceError as error:
        module.fail_json(msg=f"sge: {error}")
    except OSError as error:
        module.fail_json(msg=f"sge: the host's key cannot be read: {error}")
    module.exit_json(
        changed=False,
        cpus=len(os.sched_getaffinity(0)),
        gpus=gpus.count(gpus.configured_count(), module.warn),
        missing_packages=lacking,
        key_digest=digest,
    )


if __name__ == "__main__":
    main()
