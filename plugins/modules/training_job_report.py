#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the data for the report of a job. The action plugin of the same name writes the report."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_report
version_added: 0.1.0
short_description: Writes a report of a training job, with its curves, processes, events and files
description:
  - Writes one HTML file that needs neither network access nor scripts.
  - The report contains curves of all numbers that the training script reported, over steps and over time, the throughput, the result
    of each process, the events with their times, the start parameters, and the locations of the code, logs and checkpoints.
  - The report is written to C(report.html) in the job's directory, and to O(dest) on the controller.
  - Run the task on one host. The job may still be running. Run the task again to update the report.
requirements:
  - C(matplotlib) on the controller, for the curves. Without it, the report contains only the first, last, lowest and highest values.
options:
  name:
    description:
      - The job's name.
    type: str
    required: true
  dest:
    description:
      - Path of the report on the controller. Missing directories are created.
    type: path
    required: true
  former_nodes:
    description:
      - The RV(deeplearning.cluster.former_nodes_info#module:nodes) of the job's cluster. By them, the report tells that a host is gone.
      - Without them, it compares the job's hosts with the inventory.
    type: list
    elements: dict
    default: []
  page:
    description:
      - Path, on the host, of the finished page, which the module copies to the job's directory. The action plugin sets it.
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
  description: Path of the report on the controller.
  returned: by the action plugin
  type: str
  sample: /home/me/project/reports/digits-1.html
report:
  description: Contents of the page, as read on the host. They are not part of the task's result.
  returned: to the action plugin
  type: dict
path:
  description: Path of the report in the job's directory.
  returned: by the action plugin
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
            "former_nodes": {"type": "list", "elements": "dict", "default": []},
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
