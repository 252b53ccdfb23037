#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the data for the report on a job. The action plugin of the same name writes the report."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_report
version_added: 0.1.0
short_description: Writes a report on the curves, processes, events and files of a training job
description:
  - Writes a self-contained HTML file that needs neither network access nor scripts.
  - The report contains the start parameters, the result of each process, the events with their times, and the locations of the code,
    logs and checkpoints. Curves show the throughput, and the values that the training script reported, over steps and over time.
  - The report is written to C(report.html) in the job's directory, and to O(dest) on the controller.
  - Run the task on one host. The job may still be running. To update the report, run the task again.
requirements:
  - C(matplotlib) on the controller, for the curves. Without it, the report contains only the first, last, lowest and highest values.
options:
  name:
    description: The job's name.
    type: str
    required: true
  dest:
    description: Path of the report on the controller. Missing directories are created.
    type: path
    required: true
  former_nodes:
    description:
      - Former nodes of the job's cluster, in the format of RV(deeplearning.cluster.former_nodes_info#module:nodes). The report uses this
        list to show which hosts have left the cluster.
      - Without former nodes, the module compares the job's hosts with the inventory.
    type: list
    elements: dict
    default: []
  page:
    description:
      - Path of the finished page on the host. The module copies the page to the job's directory. The action plugin sets this option.
    type: path
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - deeplearning.cluster.job
seealso:
  - module: deeplearning.cluster.training_job
"""

EXAMPLES = r"""
- name: Write the report on an older job
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
  description: Data for the page, as read on the host. The task's result does not contain this data.
  returned: to the action plugin
  type: dict
path:
  description: Path of the report in the job's directory.
  returned: by the action plugin
  type: str
  sample: /efs/jobs/digits-1/report.html
"""

import functools
import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.training_job.queue import queries
from ..module_utils._hosts.training_job_report.collect import collect
from ..module_utils._hosts.training_job_report.publish import put
from ..module_utils._job import directories, naming


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
        paths = directories.Paths(os.path.join(params["directory"], naming.check_name(params["name"])))
        if params["page"]:
            module.exit_json(changed=put(params["page"], paths.directory, module.check_mode))
        report = collect(paths, params["heartbeat_timeout"], functools.partial(queries.complete, module.run_command))
        module.exit_json(changed=False, report=report)
    except FileNotFoundError:
        message = "job {!r} does not exist in {}. To list the jobs, run the playbook deeplearning.cluster.status."
        module.fail_json(msg=message.format(params["name"], params["directory"]))
    except (OSError, ValueError) as error:
        module.fail_json(msg="job {!r} in {} cannot be read: {}".format(params["name"], params["directory"], error))


if __name__ == "__main__":
    main()
