#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads what the report of a job is made of; the action plugin of the same name makes the report."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_report
version_added: 0.1.0
short_description: Writes a report of a training job, with its curves, processes, events and files
description:
  - Writes one HTML file that needs neither a network nor scripts.
  - It holds the curves of all numbers that the training script has reported, over steps and over time, the throughput, what became of
    each process, what happened when, how the job was started, and where its code, logs and checkpoints are.
  - The report is C(report.html) in the job's directory, and O(dest) on the controller.
  - The task runs through one host. It can report on a running job. Run it again for a newer report.
requirements:
  - On the controller C(matplotlib), for the curves. Without it the page has the first, last, lowest and highest values only.
options:
  name:
    description:
      - The job's name.
    type: str
    required: true
  dest:
    description:
      - The file to write on the controller, with the directories that lead to it.
    type: path
    required: true
  page:
    description:
      - A file on the host with the page, to be put into the job's directory. The action plugin sets it.
    type: path
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - deeplearning.cluster.job
seealso:
  - module: deeplearning.cluster.training_job
"""

EXAMPLES = r"""
- name: Write the report of an older job
  deeplearning.cluster.training_job_report:
    name: digits-1
    directory: /efs/jobs
    dest: reports/digits-1.html
  run_once: true
"""

RETURN = r"""
dest:
  description: The report on the controller.
  returned: by the controller
  type: str
  sample: /home/me/project/reports/digits-1.html
report:
  description: What the page tells, as the host has read it. Not in the result of the task.
  returned: to the controller
  type: dict
path:
  description: The report in the job's directory.
  returned: by the controller
  type: str
  sample: /efs/jobs/digits-1/report.html
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report.collect import collect
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report.publish import put
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "dest": {"type": "path", "required": True},
            "page": {"type": "path"},
            "heartbeat_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        paths = records.Paths(os.path.join(params["directory"], records.check_name(params["name"])))
        if params["page"]:
            module.exit_json(changed=put(params["page"], paths.directory, module.check_mode))
        module.exit_json(changed=False, report=collect(paths, params["heartbeat_timeout"]))
    except FileNotFoundError:
        message = "job {!r}: does not exist in {}. deeplearning.cluster.status lists the jobs."
        module.fail_json(msg=message.format(params["name"], params["directory"]))
    except (OSError, ValueError) as error:
        module.fail_json(msg="cannot read job {!r} in {}: {}".format(params["name"], params["directory"], error))


if __name__ == "__main__":
    main()
