#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_status
version_added: 0.1.0
short_description: Shows the training jobs, or one of them with its processes
description:
  - Runs on the controller and shows what M(deeplearning.cluster.training_job_info) finds on the one host of the task.
  - All jobs are shown in one line each; one job with a table of its processes, where they run, how they are and how they ended, and with
    the end of the log of the process that failed first. Times are UTC.
options:
  name:
    description:
      - The one job to show. It must exist.
    type: str
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - deeplearning.cluster.job
seealso:
  - module: deeplearning.cluster.training_job_info
"""

EXAMPLES = r"""
- name: Show a job
  deeplearning.cluster.training_job_status:
    name: digits-1
    directory: /efs/jobs
  run_once: true
"""

RETURN = r"""
problems:
  description: The files of jobs that are skipped, as M(deeplearning.cluster.training_job_info) returns them.
  returned: when there are any
  type: list
  elements: str
jobs:
  description: The jobs, as M(deeplearning.cluster.training_job_info) returns them.
  returned: success
  type: list
  elements: dict
"""
