#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_wait
version_added: 0.1.0
short_description: Waits for a training job, shows its progress and ends as the job does
description:
  - Runs on the controller and polls the job through the one host of the task, in one round trip each.
  - Prints a line whenever the script has reported progress, and a summary at the end.
  - Fails when a process of the job has failed or was stopped, or has sent no heartbeat for O(heartbeat_timeout) seconds. It names the
    process that failed first, its host, how it ended and the end of its log. It does not stop the rest of the job.
  - On a terminal, Ctrl-C asks whether to stop the job, to leave it running, or to continue watching. The answer is in RV(interrupted), and
    the tasks that follow act on it, as in the role P(deeplearning.cluster.training_job#role). Ctrl-Z does nothing during
    the wait. Without a terminal, an interrupted Ansible leaves the job running. Run the task again to wait for it again.
options:
  name:
    description:
      - The job's name.
    type: str
    required: true
  show_logs:
    description:
      - Also show what the processes write, each line with its process.
    type: bool
    default: false
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - deeplearning.cluster.job
attributes:
  check_mode:
    support: full
    description: Does not wait.
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
  description:
    - V(stop) or V(leave), as answered after Ctrl-C, when waiting ended before the job. With V(stop) the task fails.
  returned: when waiting was interrupted
  type: str
  sample: leave
job:
  description: The job at its end, as M(deeplearning.cluster.training_job_info) returns it.
  returned: when the job was found
  type: dict
metrics:
  description: The last value of each thing that the script has reported.
  returned: when the job was found
  type: dict
  sample: {step: 100, steps: 100, loss: 0.02, accuracy: 0.97}
out_of_reach:
  description: Whether the host could not be reached any more, so that the state of the job is unknown.
  returned: when that is why waiting ended
  type: bool
summary:
  description: The lines that were printed at the end.
  returned: success
  type: list
  elements: str
"""
