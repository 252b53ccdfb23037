#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: python_environment_cleanup
version_added: 0.2.0
short_description: Deletes Python environments that no job uses
description:
  - Deletes environments that M(deeplearning.cluster.python_environment) built in O(directory) more than O(days) days ago.
  - Keeps environments that a link C(current) points to, and environments that contain one of the O(pythons).
options:
  directory:
    description: Directory in which environments are built, on shared storage or on the host's local disk.
    type: path
    required: true
  pythons:
    description: Python interpreters whose environments are kept, such as RV(deeplearning.cluster.training_job_cleanup#module:pythons).
    type: list
    elements: str
    required: true
  days:
    description: Number of days after which an unused environment is deleted.
    type: int
    default: 30
  timeout:
    description:
      - Maximum time for all deletions together, in seconds. Network file systems delete a few hundred to a few thousand files per second.
    type: int
    default: 3600
notes:
  - Run the module as the user who built the environments.
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  platform:
    support: full
    platforms: posix
seealso:
  - module: deeplearning.cluster.training_job_cleanup
"""

EXAMPLES = r"""
- name: Find the jobs to keep
  deeplearning.cluster.training_job_cleanup:
    directory: /efs/jobs
  check_mode: true
  become: true
  run_once: true
  register: jobs

- name: Delete the environments that none of these jobs uses
  deeplearning.cluster.python_environment_cleanup:
    directory: /efs/environments
    pythons: "{{ jobs.pythons }}"
  run_once: true
"""

RETURN = r"""
environments:
  description: Paths of the deleted environments.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.python_environment.cleanup import clean_up


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "pythons": {"type": "list", "elements": "str", "required": True},
            "days": {"type": "int", "default": 30},
            "timeout": {"type": "int", "default": 3600},
        },
        supports_check_mode=True,
    )
    try:
        found = clean_up(module.params, module.check_mode)
    except OSError as error:
        module.fail_json(msg=f"An environment cannot be deleted: {error}")
    header, lines = "Python environments", "".join(f"{path}\n" for path in found)
    diff = [{"before_header": header, "after_header": header, "before": lines, "after": ""}] if lines else []
    module.exit_json(changed=bool(found), environments=found, diff=diff)


if __name__ == "__main__":
    main()
