#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: node_health
version_added: 0.2.0
short_description: Checks the health of a node
description:
  - Runs on the host. Checks disks, memory, host names, certificates, shared storage, GPUs and Elastic Fabric Adapters. The checks run at
    the same time, each with a time limit. A check that exceeds its time limit is reported as a finding.
  - Reports findings, and repairs nothing. A finding with the severity V(reboot) or V(replace) excludes the host from jobs until the same
    check passes. The page C(docs/health.md) lists all checks and their severities.
  - The module does not fail if there are findings. The role P(deeplearning.cluster.node_health#role) fails if a node is unhealthy.
  - An action plugin of the same name compares the host's clock with the controller's clock, and sends the users' own checks to the host.
options:
  user:
    description: The login user. The checks of the shared storage and the users' own checks run as this user.
    type: str
    required: true
  context:
    description:
      - V(on_demand) runs all checks of this host.
      - V(between_nodes) reads and removes the files that O(peer) has written to the shared storage.
      - V(deep) runs the diagnostic tests of DCGM on idle GPUs, if the program C(dcgmi) is installed. The tests take minutes.
    type: str
    choices: [on_demand, between_nodes, deep]
    default: on_demand
  number:
    description: Number of this host.
    type: int
    default: 0
  peer:
    description: Number of the host whose files O(context=between_nodes) reads.
    type: int
    default: 0
  token:
    description:
      - Random string that is the same on all hosts. If the token is not empty, the file that this host writes to the shared storage is
        kept, so that another host can read and remove it with O(context=between_nodes).
    type: str
    default: ""
  instance_type:
    description: Instance type of the host, which determines the expected number of GPUs.
    type: str
    default: ""
  efa_devices:
    description: Number of Elastic Fabric Adapters that the host should have.
    type: int
    default: 0
  mounts:
    description: Mount points of shared storage, in addition to those in C(/etc/fstab).
    type: list
    elements: path
    default: []
  disks:
    description:
      - Directories whose file systems must have free space, in addition to C(/), C(/tmp), C(/var/lib/deeplearning) and
        C(/opt/dlami/nvme). Directories that do not exist are skipped.
    type: list
    elements: path
    default: []
  checks:
    description:
      - Folder on the controller with the users' own checks. Each executable file in this folder is one check.
      - A check runs on the host as O(user). If its exit status is not 0, the first line of its output is a finding.
    type: str
    default: ""
  dcgm_level:
    description:
      - Level of DCGM's tests with O(context=deep). According to NVIDIA, the tests take seconds with V(1), 2 minutes with V(2), 30 minutes
        with V(3), and 1 to 2 hours with V(4).
    type: int
    choices: [1, 2, 3, 4]
    default: 2
  timeout:
    description: Time limit for DCGM's tests with O(context=deep), in seconds.
    type: int
    default: 900
  checks_timeout:
    description: Time limit for each of the users' own checks, in seconds.
    type: int
    default: 10
  programs:
    description: Names and contents of the files in O(checks). The action plugin sets this option.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the file.
        type: str
        required: true
      content:
        description: Content of the file in Base64.
        type: str
        required: true
  metadata_directory:
    description: Directory of C(metadata.json), which M(deeplearning.cluster.worker_metadata) writes.
    type: path
    default: /opt/deeplearning
  instance_id:
    description: ID of the host's EC2 instance. Exclusions of a different instance do not count.
    type: str
    default: ""
  excluded:
    description:
      - V(true) excludes the host from jobs until a task with V(false) includes the host again. V(false) also ends the exclusion of a host
        that was responsible for repeated failures of jobs. An exclusion that a check has made ends only if the check passes.
    type: bool
  reason:
    description: Why the host is excluded. Required if O(excluded=true).
    type: str
    default: ""
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    description: Check mode runs the same checks as a normal run, but does not change the exclusions.
    support: full
  diff_mode:
    support: none
  platform:
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: Check the health of the node
  deeplearning.cluster.node_health:
    user: ubuntu
    number: "{{ deeplearning_number }}"
    instance_type: "{{ deeplearning_instance_type }}"
  become: true
  register: health
"""

RETURN = r"""
findings:
  description: Findings of the checks. For a healthy node, the list is empty, or contains only findings with the severity V(monitor).
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: Name of the check.
      type: str
      sample: gpu_count
    severity:
      description: The action that the finding requires. With V(monitor), the node can run jobs.
      type: str
      choices: [monitor, restart, reboot, replace]
    message:
      description: Description of the problem, in one line.
      type: str
      sample: "GPUs: nvidia-smi lists 7, but instance type p4d.24xlarge has 8."
exclusions:
  description: The reasons why jobs do not use the host. The list is empty if jobs may use the host.
  returned: success
  type: list
  elements: dict
  contains:
    by:
      description: Name of the check that has excluded the host, V(person), or V(recovery) after repeated failures of jobs.
      type: str
      sample: xid
    reason:
      description: Why the host is excluded.
      type: str
    since:
      description: Time of the exclusion, in seconds since 1970.
      type: float
    gpus:
      description: UUIDs of the faulty GPUs, if they are known.
      type: list
      elements: str
    severity:
      description: Severity of the finding, V(reboot) or V(replace), if a check has excluded the host. Otherwise, an empty string.
      type: str
    boot:
      description: ID of the last boot before the check's last finding. For exclusions that persons have made, an empty string.
      type: str
    text:
      description: Description of the exclusion, as a sentence.
      type: str
stored:
  description: Whether the host could use all of its shared storage.
  returned: success
  type: bool
time:
  description: The host's time, in seconds since 1970.
  returned: success
  type: float
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.node_health.examine import examine
from ..module_utils._job import exclusions


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "required": True},
            "context": {"type": "str", "choices": ["on_demand", "between_nodes", "deep"], "default": "on_demand"},
            "number": {"type": "int", "default": 0},
            "peer": {"type": "int", "default": 0},
            "token": {"type": "str", "default": "", "no_log": False},
            "instance_type": {"type": "str", "default": ""},
            "efa_devices": {"type": "int", "default": 0},
            "mounts": {"type": "list", "elements": "path", "default": []},
            "disks": {"type": "list", "elements": "path", "default": []},
            "checks": {"type": "str", "default": ""},
            "dcgm_level": {"type": "int", "choices": [1, 2, 3, 4], "default": 2},
            "timeout": {"type": "int", "default": 900},
            "checks_timeout": {"type": "int", "default": 10},
            "programs": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {"name": {"type": "str", "required": True}, "content": {"type": "str", "required": True}},
            },
            "metadata_directory": {"type": "path", "default": "/opt/deeplearning"},
            "instance_id": {"type": "str", "default": ""},
            "excluded": {"type": "bool"},
            "reason": {"type": "str", "default": ""},
        },
        required_if=[("excluded", True, ("reason",))],
        supports_check_mode=True,
    )
    try:
        module.exit_json(**examine({**module.params, "check_mode": module.check_mode}))
    except OSError as error:
        module.fail_json(msg=f"{exclusions.PATH}: {error}")


if __name__ == "__main__":
    main()
