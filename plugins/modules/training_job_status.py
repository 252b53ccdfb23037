#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_status
version_added: 0.1.0
short_description: Shows all training jobs, or one job with its processes
description:
  - Runs M(deeplearning.cluster.training_job_info) on one host, and shows the results on the controller.
  - Without O(name), shows one line for each job. Also shows the processes of the newest job, if it has at most 32 processes.
  - With O(name), shows the job and a table of its processes with their hosts, states and results. If a process failed, also shows the
    end of the log of the process that failed first.
  - With O(name), also shows what the hosts of the job spent their time on, and which hosts are slower than the other hosts.
  - Times are in UTC.
options:
  name:
    description: Name of a single job to show. The job must exist.
    type: str
  metrics_directory:
    description:
      - Directory on the controller for the job's metrics. The action plugin writes them to C(deeplearning-<name>.prom), for example for the
        textfile collector of the Prometheus node exporter. Missing directories are created. Requires O(name).
    type: path
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
  description: Messages about skipped job files, as M(deeplearning.cluster.training_job_info) returns them.
  returned: when files were skipped
  type: list
  elements: str
jobs:
  description: The jobs, as M(deeplearning.cluster.training_job_info) returns them.
  returned: success
  type: list
  elements: dict
"""
