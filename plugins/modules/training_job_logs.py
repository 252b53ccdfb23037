#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_logs
version_added: 0.1.0
short_description: Shows the logs of a training job, each line with the name of its process
description:
  - Runs on the controller and reads the logs through one host, in one round trip for each poll. The logs are on the shared storage, so
    one host is enough to read the logs of all hosts.
  - Each poll shows a limited amount of output. If a program writes more than that, the beginning is omitted, and a line says so.
  - Control characters are removed. If a progress bar overwrites its line, only the last version of the line is shown.
options:
  name:
    description: The job's name.
    type: str
    required: true
  process:
    description:
      - Name or rank of the only process whose log is shown, such as V(ps0) or V(3). If omitted, the logs of all processes are shown.
      - If several ranks share a log and the launcher marks their lines, only the lines of this rank are shown.
    type: str
  attempt:
    description: Number of the attempt whose logs are shown. By default, this is the newest attempt.
    type: int
  lines:
    description: Number of lines to show from the end of each log.
    type: int
    default: 100
  follow:
    description:
      - Whether to also show new lines until the job is over. On a terminal, Ctrl-C ends the task without an error. Neither Ctrl-C nor an
        interruption of Ansible stops the job.
    type: bool
    default: false
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - deeplearning.cluster.job
attributes:
  check_mode:
    support: full
    description: Shows the logs once and does not follow them.
seealso:
  - module: deeplearning.cluster.training_job_info
"""

EXAMPLES = r"""
- name: Show the output of rank 3 until the job is over
  deeplearning.cluster.training_job_logs:
    name: digits-1
    directory: /efs/jobs
    process: "3"
    follow: true
  run_once: true
"""

RETURN = r"""
job:
  description: The job at the last poll, as M(deeplearning.cluster.training_job_info) returns it.
  returned: success
  type: dict
"""
