#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_keys_info
version_added: 0.1.0
short_description: Reads the public SSH host keys of instances from their console output
description:
  - Reads the host keys that cloud-init prints to the console at the first boot. The first SSH connection to an instance can then be
    verified through a channel that an attacker on the network does not control.
  - Waits until the consoles show the keys, and reports how many instances have printed their keys.
  - cloud-init prints the keys only once in the lifetime of an instance, before any job can run. The module therefore uses only the first
    keys on the console, and ignores the messages of the kernel.
  - The module does not fail if the keys of some instances cannot be determined. It returns the reasons in RV(problems).
options:
  instance_ids:
    description: IDs of the instances.
    type: list
    elements: str
    required: true
  wait_timeout:
    description:
      - Maximum time to wait for the console output of one instance, in seconds. The output can be delayed by minutes on instances that are
        not built on the Nitro System. Large instances take ten minutes or more to boot.
    type: int
    default: 1800
  wait:
    description: Whether to wait for the keys. With V(false), the result does not contain instances whose consoles show no keys.
    type: bool
    default: true
  progress_file:
    description: File on the controller to which the module writes its progress. The action plugin sets this option and shows the progress.
    type: path
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
  - deeplearning.cluster.aws_info
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Read the host keys of two instances
  deeplearning.cluster.host_keys_info:
    region: us-east-1
    instance_ids:
      - i-0123456789abcdef0
      - i-0123456789abcdef1
  register: consoles
"""

RETURN = r"""
host_keys:
  description: The keys of every instance whose console shows them, in the order of O(instance_ids).
  returned: success
  type: list
  elements: dict
  contains:
    instance_id:
      description: ID of the instance.
      type: str
      sample: i-0123456789abcdef0
    keys:
      description: Public host keys of the instance.
      type: list
      elements: str
      sample: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI..."]
problems:
  description: The instances whose keys cannot be determined, in the order of O(instance_ids).
  returned: success
  type: list
  elements: dict
  contains:
    instance_id:
      description: ID of the instance.
      type: str
      sample: i-0123456789abcdef1
    kind:
      description:
        - V(conflicting), if the console output at boot and the current output contain different keys. A process on the instance has printed
          keys, so the instance is not trustworthy.
        - V(missing), if the instance does not exist.
        - V(timeout), if the console has shown no keys before the timeout.
      type: str
      sample: conflicting
    msg:
      description: The problem, and what to do.
      type: str
      sample: the console output contains conflicting SSH host keys. Replace the instance.
"""

from concurrent.futures import ThreadPoolExecutor

from ..module_utils._aws.client import SDK_ERRORS, AnsibleAWSModule, AwsClient, ClusterError
from ..module_utils._aws.error_messages import fail
from ..module_utils._aws.node_group.host_keys import HostKeyError, HostKeyProgress, find_host_keys, wait_for_host_keys


def main() -> None:
    module = AnsibleAWSModule(
        argument_spec={
            "instance_ids": {"type": "list", "elements": "str", "required": True},
            "wait_timeout": {"type": "int", "default": 1800},
            "wait": {"type": "bool", "default": True},
            "progress_file": {"type": "path"},
        },
        supports_check_mode=True,
    )
    instance_ids = module.params["instance_ids"]
    try:
        cloud = AwsClient(module, "", wait_timeout=module.params["wait_timeout"])
        cloud.client("ec2")
        progress = HostKeyProgress(cloud, len(instance_ids))

        def read(instance_id: str) -> list[str] | HostKeyError:
            try:
                return wait_for_host_keys(cloud, instance_id, progress) if module.params["wait"] else find_host_keys(cloud, instance_id)
            except HostKeyError as error:
                return error

        with ThreadPoolExecutor(16) as pool:
            found = dict(zip(instance_ids, pool.map(read, instance_ids)))
    except (ClusterError, *SDK_ERRORS) as error:
        fail(module, error)
    problems = {name: problem for name, problem in found.items() if isinstance(problem, HostKeyError)}
    module.exit_json(
        changed=False,
        host_keys=[{"instance_id": name, "keys": keys} for name, keys in found.items() if keys and name not in problems],
        problems=[{"instance_id": name, "kind": problem.kind, "msg": str(problem)} for name, problem in problems.items()],
    )


if __name__ == "__main__":
    main()
