#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: variable_validation
version_added: 0.2.0
short_description: Checks the variables of a playbook run, on the controller
description:
  - Reports, in a single message, all problems that the controller can find without access to AWS or a host.
  - Finds misspelled variables, values of the wrong type, unknown launchers and launcher options, and a report directory that is not
    writable. Also finds a missing script, source, requirements file, data set or private key.
  - Warns about variables that are set but have no effect.
  - Checks the values that the variables will have on the nodes. Values that depend on a host are not checked, and neither are files that
    exist only on hosts.
  - Misspelled variables are errors, unless C(deeplearning_allow_unknown_variables) is V(true).
  - This is an action plugin. It runs on the controller and does not start a module.
options:
  subject:
    description:
      - The variables to check. V(job) selects the variables of a training job, its Python environment, and the configuration of
        nodes. V(dataset) selects the variables of a data set, and V(export) selects the variables for exporting a job. V(names) checks
        only the names of all variables.
    type: str
    choices: [job, dataset, export, names]
    default: job
  required:
    description: Whether a job must have a script or a command.
    type: bool
    default: false
  options:
    description: Variables without a prefix that the playbook uses. Similar names on the command line are misspelled variables.
    type: list
    elements: str
    default: []
  roles:
    description:
      - With O(subject=names), the roles whose variables must also have values of the correct type. Roles check this on each host otherwise.
    type: list
    elements: str
    default: []
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Check the variables of the job
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Check the variables
      deeplearning.cluster.variable_validation:
        required: true
"""

RETURN = r"""
findings:
  description: Warnings about variables that have no effect.
  returned: success
  type: list
  elements: dict
  contains:
    validator:
      description: Name of the check.
      type: str
      sample: unused_variables
    level:
      description: Always C(warning).
      type: str
      sample: warning
    message:
      description: The problem, and what to do about it.
      type: str
"""
