#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_logs
version_added: 0.1.0
short_description: Shows the logs of a training job, each line with its process
description:
  - Runs on the controller and reads the logs through the one host of the task, in one round trip for each look. They lie on the shared
    storage, so one host is enough to see those of all.
  - What one look shows is limited. Where a program writes more, the beginning is left out and a line says so.
  - Control characters are left out, and of a line that a progress bar has overwritten the last state is shown.
options:
  name:
    description:
      - The job's name.
    type: str
    required: true
  process:
    description:
      - The one process to show, by its name such as V(ps0) or by its rank. When omitted, all.
      - Of a log that several ranks share, the lines of that one, where the launcher marks them.
    type: str
  lines:
    description:
      - How many lines from the end of each log.
    type: int
    default: 100
  follow:
    description:
      - Show also what comes, until the job is over. Interrupting Ansible leaves the job running.
    type: bool
    default: false
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - deeplearning.cluster.job
attributes:
  check_mode:
    support: full
    description: Does not follow.
seealso:
  - module: deeplearning.cluster.training_job_info
"""

EXAMPLES = r"""
- name: Show what rank 3 writes until the job is over
  deeplearning.cluster.training_job_logs:
    name: digits-1
    directory: /efs/jobs
    process: "3"
    follow: true
  run_once: true
"""

RETURN = r"""
job:
  description: The job at the last look, as M(deeplearning.cluster.training_job_info) returns it.
  returned: success
  type: dict
"""
