#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: node_setup
version_added: 0.2.0
short_description: Runs each set-up step once on a host
description:
  - Runs on the host. Runs the steps in order, except steps that have already succeeded on the host with the same content. If a step fails,
    the run ends, and the next run continues with the failed step.
  - The steps run in a systemd unit, so they continue if Ansible is interrupted. The next run of the module waits for them.
  - The record of each step is in C(/var/lib/deeplearning-node-setup), and its log is in C(/var/log/deeplearning-node-setup). Both
    directories belong to root.
  - An action plugin of the same name checks all steps on the controller, reads the scripts, and runs the module only on hosts where a step
    has not succeeded.
options:
  steps:
    description:
      - The steps. Each step has exactly one of O(steps[].packages), O(steps[].script), O(steps[].command) and O(steps[].repository).
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the step in messages.
        type: str
      packages:
        description: Packages for C(apt-get) or C(dnf) to install.
        type: list
        elements: str
      script:
        description:
          - A file on the controller, an C(https://) URL, or C(s3://bucket/key). A file without C(#!) is a bash script.
          - The host downloads scripts from URLs. For scripts in S3, it uses the AWS CLI with the credentials of the instance role.
        type: str
      sha256:
        description:
          - SHA-256 digest of a script from a URL. A file with a different digest is not run.
          - If the digest is specified, the step's content includes the digest instead of the URL.
        type: str
      arguments:
        description: Arguments of the script.
        type: list
        elements: str
        default: []
      command:
        description: A list with a program and its arguments, or a string that bash runs.
        type: raw
      repository:
        description: URL of a git repository. A password in the URL is not shown.
        type: str
      version:
        description: Branch, tag or commit to check out. If empty, the default branch of the repository is used.
        type: str
        default: ""
      path:
        description:
          - Directory of the clone on the host. The directory must be missing, empty, or a clone of the same repository.
          - With O(steps[].user=root), only root may have write permission for the parent directories.
          - Required with O(steps[].repository).
        type: path
      environment:
        description: Environment variables.
        type: dict
        default: {}
      secrets:
        description:
          - Environment variables whose values are masked in the log and in messages.
          - Their values are not part of the step's content, so the step does not run again if a value changes.
        type: dict
        default: {}
      timeout:
        description: Maximum duration of the step in seconds. After that, all processes of the step are killed.
        type: int
        default: 1800
      user:
        description: User who runs the script, the command or git. Packages are always installed by root.
        type: str
        default: root
      only:
        description: Hosts that run the step.
        type: str
        choices: [all, master, workers]
        default: all
      number:
        description: Position of the step. The action plugin sets this option.
        type: int
      kind:
        description: Kind of the step. The action plugin sets this option.
        type: str
      digest:
        description: Digest of the step's content. The action plugin sets this option.
        type: str
      content:
        description: Content of the script, encoded in base64. The action plugin sets this option.
        type: str
  state:
    description:
      - V(checked) checks the steps on the controller, without connecting to the host.
      - V(started) starts the steps and does not wait for them. A later task with V(present) and O(attempt) waits for them. With both tasks,
        all hosts of a play run their steps at the same time, even if there are more hosts than forks.
      - V(present) runs the steps and waits until they have ended.
    type: str
    choices: [checked, started, present]
    default: present
  region:
    description: Region of the S3 buckets with scripts.
    type: str
  attempt:
    description: With O(state=present), the attempt that a task with O(state=started) returned. By default, the action plugin sets a new ID.
    type: str
  wait:
    description:
      - Maximum time to wait for the end of the steps, in seconds. If the steps have not ended by then, the module returns their progress.
    type: int
    default: 5
attributes:
  check_mode:
    description: Returns the steps that would run, without changing anything.
    support: full
  diff_mode:
    description: In check mode, shows the names of the steps that would run.
    support: partial
  idempotent:
    description: A step that has succeeded does not run again.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Set up the host
  deeplearning.cluster.node_setup:
    steps:
      - packages: [build-essential, cmake]
      - script: setup.sh
        arguments: [--prefix, /opt/tools]
        timeout: 3600
      - name: sources of TensorPack
        repository: https://github.com/tensorpack/tensorpack.git
        version: v0.11
        path: /opt/tensorpack
  become: true
"""

RETURN = r"""
attempt:
  description: ID of the attempt that was started.
  returned: with O(state=started), unless all steps have succeeded
  type: str
finished:
  description: Whether the steps have ended.
  returned: success
  type: bool
ran:
  description: Names of the steps that ran. In check mode, names of the steps that would run.
  returned: when RV(finished)
  type: list
  elements: str
  sample: [packages, script setup.sh]
progress:
  description: The step that is running.
  returned: until the steps have ended
  type: dict
  contains:
    number:
      description: Position of the step, beginning with 1.
      type: int
      sample: 2
    seconds:
      description: Seconds since the step began.
      type: int
      sample: 95
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.node_setup.converge import SPECIFICATION, SetupError, ensure


def main() -> None:
    module = AnsibleModule(**SPECIFICATION, supports_check_mode=True)
    try:
        module.exit_json(**ensure(module))
    except (SetupError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
