#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_wait
version_added: 0.1.0
short_description: Waits for a training job, shows its progress, and succeeds or fails with the job
description:
  - Runs on the controller and polls the job through one host, in one round trip for each poll.
  - Prints a line when a poll returns new progress, and a summary at the end.
  - Fails if a process of the job failed, was stopped, or has sent no heartbeat for O(heartbeat_timeout) seconds. The message
    contains the name and host of the process that failed first, how this process ended, and the last lines of its log. The task does
    not stop the other processes of the job.
  - On a terminal, Ctrl-C opens a prompt that offers to stop the job, leave it running, or continue watching. The answer is in
    RV(interrupted). Later tasks must act on the answer, as the role P(deeplearning.cluster.training_job#role) does. Ctrl-Z has no effect
    during the wait.
  - Without a terminal, the job continues if Ansible is interrupted. To continue waiting, run the task again.
options:
  name:
    description: The job's name.
    type: str
    required: true
  show_logs:
    description: Whether to also show the output of the processes, each line with the name of its process.
    type: bool
    default: false
  metrics_directory:
    description:
      - Directory on the controller for the job's metrics. The action plugin writes them to C(deeplearning-<name>.prom) every minute and at
        the end of the job, for example for the textfile collector of the Prometheus node exporter. Missing directories are created.
    type: path
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - deeplearning.cluster.job
attributes:
  check_mode:
    support: full
    description: Returns without waiting.
seealso:
  - module: deeplearning.cluster.training_job
"""

EXAMPLES = r"""
- name: Wait for the job
  deeplearning.cluster.training_job_wait:
    name: digits-1
    directory: /efs/jobs
  run_once: true
"""

RETURN = r"""
interrupted:
  description: The answer to the prompt after Ctrl-C, either V(stop) or V(leave). With V(stop), the task fails.
  returned: when the wait ended before the job
  type: str
  sample: leave
job:
  description: The job at the end of the wait, as M(deeplearning.cluster.training_job_info) returns it.
  returned: when the job was found
  type: dict
metrics:
  description: Last reported value of each metric.
  returned: when the job was found
  type: dict
  sample: {step: 100, steps: 100, loss: 0.02, accuracy: 0.97}
out_of_reach:
  description: Whether the host became unreachable, so that the state of the job is unknown.
  returned: when the wait ended for this reason
  type: bool
summary:
  description: Lines of the summary that was printed at the end.
  returned: when the job has ended
  type: list
  elements: str
"""
