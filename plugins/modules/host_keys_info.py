#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_keys_info
version_added: 0.1.0
short_description: Public SSH host keys of instances, from their console output
description:
  - Reads the host keys that cloud-init prints to the console at the first boot, so that the first SSH connection to an instance
    can be verified over a channel that an attacker in between does not control.
  - Waits until the keys are there, and shows how many instances have printed theirs meanwhile.
  - Keys are printed once in the life of an instance. Where the console shows different ones, anything that runs on the instance may have
    printed the others, so that none of them counts and the module fails.
options:
  instance_ids:
    description:
      - The instances.
    type: list
    elements: str
    required: true
  wait_timeout:
    description:
      - How long to wait for the console output of one instance, in seconds. It can lag by minutes on instances that are not
        built on the Nitro system, and large instances take ten minutes and more to boot.
    type: int
    default: 1800
  wait:
    description:
      - Whether to wait. Otherwise instances whose consoles show no keys are left out of the result.
    type: bool
    default: true
  progress_file:
    description:
      - File on the controller to which the module appends what it waits for. An action plugin sets it and shows the lines.
    type: path
attributes:
  check_mode:
    description: Only reads.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
  idempotent:
    description: Only reads.
    support: full
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Learn the host keys of two instances
  deeplearning.cluster.host_keys_info:
    region: us-east-1
    instance_ids:
      - i-0123456789abcdef0
      - i-0123456789abcdef1
  register: consoles
"""

RETURN = r"""
host_keys:
  description: The keys of every instance that shows them, in the order in which the instances were given.
  returned: success
  type: list
  elements: dict
  contains:
    instance_id:
      description: Id of the instance.
      type: str
      sample: i-0123456789abcdef0
    keys:
      description: Its public keys.
      type: list
      elements: str
      sample: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI..."]
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import (
    AnsibleAWSModule,
    AwsClient,
    ClusterError,
    WaitTimeout,
    error_code,
    fail,
    is_missing,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.iam_actions import IamActions
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.console import BLOCK, host_keys

try:
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError:
    pass  # AnsibleAWSModule reports it

IAM_ACTIONS = IamActions(reads=("ec2:GetConsoleOutput",))
QUIET_SECONDS = 2
PAUSE = 1  # seconds between the first two looks at the console of an instance
KEPT = 60 * 1024  # bytes, of the 64 KB that EC2 keeps of an output


def console_output(cloud: AwsClient, instance_id: str, *, latest: bool) -> str:
    """The console output of the present moment if C(latest), which only Nitro instances have, or what EC2 kept of the boot."""
    try:
        return str(cloud.ec2.get_console_output(InstanceId=instance_id, Latest=latest).get("Output", ""))
    except ClientError as error:
        if is_missing(error):
            raise ClusterError(f"instance_ids: there is no instance {instance_id} in {cloud.region}.") from error
        if error_code(error) != "UnsupportedOperation":
            raise
        return ""


def find_host_keys(cloud: AwsClient, instance_id: str) -> list[str]:
    """The keys on the console. Either output ends 64 KB back, so that they may be in one only; what both show has to agree."""
    latest = console_output(cloud, instance_id, latest=True)
    if latest and not BLOCK.search(latest) and len(latest.encode()) < KEPT:
        return []  # it still boots, and the other output has nothing that this one lacks
    boot = console_output(cloud, instance_id, latest=False)
    try:
        shown = [keys for keys in map(host_keys, (latest, boot)) if keys]
        if any(keys != shown[0] for keys in shown):
            raise ValueError("the console shows different SSH host keys")
    except ValueError as error:
        raise ClusterError(
            f"{instance_id}: {error}. Something on the instance has printed others than its first boot. Replace the instance, or give its "
            "host keys in ssh_trust_host_keys."
        ) from error
    return shown[0] if shown else []


class Progress:
    """Tells how many of the instances have printed their keys."""

    def __init__(self, cloud: AwsClient, count: int) -> None:
        self._cloud, self._count, self._ready = cloud, count, 0
        self._lock, self._start = threading.Lock(), time.monotonic()

    def ready(self) -> None:
        with self._lock:
            self._ready += 1

    def tell(self) -> None:
        """Say it once it takes more than a moment."""
        elapsed = time.monotonic() - self._start
        if elapsed > QUIET_SECONDS:
            with self._lock:
                self._cloud.progress(f"{self._ready} of {self._count} new nodes have printed their SSH host keys", elapsed)


def wait_for_host_keys(cloud: AwsClient, instance_id: str, progress: Progress) -> list[str]:
    """The instance's host keys. Raises ClusterError when the console does not show them in time."""

    def probe() -> list[str]:
        keys = find_host_keys(cloud, instance_id)
        if keys:
            progress.ready()
        else:
            progress.tell()
        return keys

    try:
        return cloud.wait_until(f"Console output of {instance_id}", probe, pause=PAUSE)
    except WaitTimeout as error:
        raise ClusterError(
            f"{instance_id} has not printed its SSH host keys to the console within {cloud.wait_timeout} s. See whether it boots: "
            f"aws ec2 get-console-output --latest --output text --instance-id {instance_id}. "
            "The image has to run cloud-init with ssh.emit_keys_to_console, which is the default. "
            "Where the console has shown more since than EC2 keeps, give the keys in ssh_trust_host_keys."
        ) from error


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
        progress = Progress(cloud, len(instance_ids))

        def read(instance_id: str) -> list[str]:
            if module.params["wait"]:
                return wait_for_host_keys(cloud, instance_id, progress)
            return find_host_keys(cloud, instance_id)

        with ThreadPoolExecutor(16) as pool:
            keys = list(pool.map(read, instance_ids))
    except (ClusterError, BotoCoreError, ClientError) as error:
        fail(module, error)
    shown = [{"instance_id": name, "keys": found} for name, found in zip(instance_ids, keys) if found]
    module.exit_json(changed=False, host_keys=shown)


if __name__ == "__main__":
    main()
