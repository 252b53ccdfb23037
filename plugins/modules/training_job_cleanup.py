#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_cleanup
version_added: 0.2.0
short_description: Deletes the directories of old training jobs
description:
  - Deletes the directories of jobs that ended more than O(days) days ago, including checkpoints, logs and code. Run the task on a single
    host.
  - Keeps jobs that are running, the O(keep) newest jobs, and jobs whose checkpoints a kept job uses.
  - If the module is interrupted, the next run deletes the remaining files.
options:
  directory:
    description:
      - Parent directory of the job directories, on the shared storage. If it is not specified, the module deletes nothing, and returns only
        RV(running).
    type: path
  name:
    description:
      - Name of a single job to delete, regardless of its age. The job must have ended. A job that was prepared more than ten minutes ago
        and has not started also counts as ended.
    type: str
  pending:
    description:
      - Deletes the job O(name) only if none of its processes has started and it was not only printed. This is what a job leaves that is
        refused after it was prepared.
    type: bool
    default: false
  days:
    description: A job is deleted if its last heartbeat is more than this number of days ago.
    type: int
    default: 30
  keep:
    description: Number of newest jobs to keep, regardless of their age.
    type: int
    default: 10
  running:
    description:
      - Names of jobs that have active units on other hosts, as returned in RV(running) on those hosts. These jobs, and jobs with active
        units on this host, count as running regardless of the contents of their files, and are kept.
    type: list
    elements: str
    default: []
  heartbeat_timeout:
    description: Seconds without a heartbeat after which a process counts as lost.
    type: int
    default: 60
  timeout:
    description:
      - Maximum time for the deletion of one job, in seconds. Network file systems delete a few hundred to a few thousand files per second.
    type: int
    default: 3600
notes:
  - The module needs root privileges, because the files of a job belong to the login user and to the job's user.
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  platform:
    support: full
    platforms: posix
seealso:
  - module: deeplearning.cluster.python_environment_cleanup
"""

EXAMPLES = r"""
- name: Find running jobs
  deeplearning.cluster.training_job_cleanup:
  register: units

- name: Delete jobs that ended more than 90 days ago, except the newest job
  deeplearning.cluster.training_job_cleanup:
    directory: /efs/jobs
    days: 90
    keep: 1
    running: "{{ ansible_play_hosts | map('extract', hostvars, 'units') | map(attribute='running') | flatten | unique }}"
  become: true
  run_once: true
"""

RETURN = r"""
jobs:
  description: The deleted jobs, newest first.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The job's name.
      type: str
    state:
      description: The state of the job.
      type: str
      choices: [pending, queued, running, succeeded, failed, stopped, lost]
    last:
      description: Time of the job's last heartbeat, or of its preparation if no process has started, in seconds since 1970.
      type: float
kept:
  description: The kept jobs, newest first.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The name of the job.
      type: str
    reason:
      description: Why the job is kept.
      type: str
pythons:
  description: Python interpreters of the kept jobs. See O(deeplearning.cluster.python_environment_cleanup#module:pythons).
  returned: success
  type: list
  elements: str
running:
  description: Names of the jobs that have active units on this host, according to systemd.
  returned: success
  type: list
  elements: str
problems:
  description: Messages about jobs that cannot be read. These jobs are kept.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.training_job.jobs import cleanup
from ..module_utils._hosts.training_job.jobs.listing import some
from ..module_utils._hosts.training_job.units import systemd, users


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path"},
            "name": {"type": "str"},
            "pending": {"type": "bool", "default": False},
            "days": {"type": "int", "default": 30},
            "keep": {"type": "int", "default": 10},
            "running": {"type": "list", "elements": "str", "default": []},
            "heartbeat_timeout": {"type": "int", "default": 60},
            "timeout": {"type": "int", "default": 3600},
        },
        required_if=[("pending", True, ["directory", "name"])],
        supports_check_mode=True,
    )
    try:
        running = systemd.running_jobs(module.run_command)
        if not module.params["directory"]:
            module.exit_json(changed=False, jobs=[], kept=[], pythons=[], problems=[], running=running)
        params = {**module.params, "running": [*module.params["running"], *running]}
        result = {**cleanup.clean_up(params, module.check_mode), "running": running}
    except (systemd.UnitError, cleanup.CleanupError, users.UserError, users.FailedWorkError, OSError) as error:
        module.fail_json(msg=str(error))
    lines = "".join("{name}\n".format(**job) for job in result["jobs"])
    diff = [{"before_header": "jobs", "after_header": "jobs", "before": lines, "after": ""}] if lines else []
    module.exit_json(**{**result, "problems": some(result["problems"])}, diff=diff)


if __name__ == "__main__":
    main()
