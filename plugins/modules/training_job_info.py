#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads what jobs have recorded on the shared storage; also one poll of a job that is being waited for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_info
version_added: 0.1.0
short_description: Lists training jobs and the state of each of their processes
description:
  - Reads the records that the processes of jobs keep on the shared storage, so one host is enough to see all of them.
options:
  name:
    description:
      - The one job to look at. It must exist.
    type: str
  progress_offset:
    description:
      - With O(name), progress is returned from this byte of the progress file on; see RV(jobs[].progress_offset).
    type: int
    default: 0
  log_lines:
    description:
      - With O(name), return so many last lines of the log of each process.
      - When omitted, logs are not read.
    type: int
  log_process:
    description:
      - The one process whose log is read, by its name such as V(ps0) or by its rank. When omitted, all.
      - Of a log that several ranks share, the lines of that one, where the launcher marks them.
    type: str
  log_offsets:
    description:
      - Logs of the processes named here are returned from these bytes on instead of their last lines; see RV(jobs[].log_offsets).
    type: dict
    default: {}
  wait:
    description:
      - With O(name), return only when there is new progress or a new line in a log that is read, when the job is over, or after so many
        seconds.
    type: int
    default: 0
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - deeplearning.cluster.job
"""

EXAMPLES = r"""
- name: List the jobs
  deeplearning.cluster.training_job_info:
    directory: /efs/jobs
  register: result

- name: Show them
  ansible.builtin.debug:
    msg: "{{ item.name }} {{ item.state }}"
  loop: "{{ result.jobs }}"
  loop_control:
    label: "{{ item.name }}"
"""

RETURN = r"""
problems:
  description: The invalid files of jobs that are skipped, one sentence for each.
  returned: when there are any
  type: list
  elements: str
jobs:
  description: The jobs, the newest first.
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
      choices: [pending, running, succeeded, failed, stopped, lost]
    directory:
      description: The job's directory.
      type: str
    script:
      description: The training script.
      returned: when there is one
      type: str
    command:
      description: What runs in place of a script, if anything.
      type: list
      elements: str
    launcher:
      description: The launcher.
      type: str
    created:
      description: When the job was prepared, in seconds since 1970.
      type: float
    code:
      description: Where the code came from; empty when it was not in a git work tree.
      type: dict
      contains:
        commit:
          description: The commit.
          returned: when the code came from git
          type: str
        changed:
          description: Whether files differed from the commit.
          returned: when the code came from git
          type: bool
        repository:
          description: The repository that the job's code was fetched from.
          returned: when it was fetched from one
          type: str
        version:
          description: The branch, tag or commit that was asked for.
          returned: when it was fetched from a repository
          type: str
    metrics:
      description: The last thing that the script has reported.
      type: dict
      sample: {step: 20, steps: 100, loss: 0.31}
    process_count:
      description: How many processes the job has, V(0) as long as none has started.
      type: int
    processes:
      description: The records of the processes that have started, by rank, with RV(jobs[].processes[].state).
      type: list
      elements: dict
      contains:
        rank:
          description: The index of the process in the job.
          type: int
        ranks:
          description: The ranks of the training processes that it may have, itself or those that it has started.
          returned: with O(name)
          type: list
          elements: int
        tag:
          description: How the lines of each of these begin in its log, with C({}) for the rank. Empty where they cannot be told apart.
          type: str
        name:
          description: What its log and record are called.
          type: str
          sample: rank0
        part:
          description:
            - V(worker), whose end the job waits for; V(service), which is ended with the job, such as a parameter server; or V(spare),
              which an elastic job goes on without.
          type: str
        host:
          description: The name of its host.
          type: str
        state:
          description: The state of the process.
          type: str
          choices: [running, succeeded, failed, stopped, lost]
        processes:
          description: How many processes the job has.
          type: int
        started:
          description: When it started, in seconds since 1970.
          type: float
        heartbeat:
          description: The time of its last heartbeat, in seconds since 1970.
          type: float
        finished:
          description: When it ended, in seconds since 1970.
          returned: when it has ended
          type: float
        exit_code:
          description: Its exit status.
          returned: when it has one
          type: int
        signal:
          description: The signal that ended it.
          returned: when one did
          type: str
        reason:
          description: Why it ended, where its exit status does not tell.
          returned: when there is one
          type: str
        log:
          description: The file with its output.
          type: str
    failure:
      description: The process that made the job fail, C(how) it ended and the last C(lines) of its log, of
        which there are none when it was stopped.
      returned: when the job did not succeed
      type: dict
      contains:
        name:
          description: The process.
          type: str
        host:
          description: The name of its host.
          type: str
        state:
          description: Its state.
          type: str
        how:
          description: How it ended, in words.
          type: str
        log:
          description: The file with its output.
          type: str
        lines:
          description: The last lines of its output.
          type: list
          elements: str
    progress:
      description: What the script has reported.
      returned: with O(name)
      type: list
      elements: dict
    progress_offset:
      description: The O(progress_offset) for the next task.
      returned: with O(name)
      type: int
    logs:
      description: What the processes have written. Processes that have written nothing new are left out.
      returned: with O(log_lines)
      type: list
      elements: dict
      contains:
        name:
          description: The process.
          type: str
          sample: rank0
        path:
          description: The file.
          type: str
        lines:
          description: Its lines, without control characters.
          type: list
          elements: str
        left_out:
          description: How many bytes before them were left out because they exceed the limit of one answer.
          type: int
    log_offsets:
      description: The O(log_offsets) for the next task.
      returned: with O(log_lines)
      type: dict
    lines:
      description: The job in words, one line, or with O(name) several.
      type: list
      elements: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.listing import list_jobs, some
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.watch import NoProcessError, watch
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "name": {"type": "str"},
            "heartbeat_timeout": {"type": "int", "default": 60},
            "progress_offset": {"type": "int", "default": 0},
            "log_lines": {"type": "int"},
            "log_process": {"type": "str"},
            "log_offsets": {"type": "dict", "default": {}},
            "wait": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    params = module.params
    if not params["name"]:
        jobs, problems = list_jobs(params)
        module.exit_json(changed=False, jobs=jobs, problems=some(problems))
    try:
        paths = records.Paths(os.path.join(params["directory"], records.check_name(params["name"])))
        found = watch(paths, params)
        problems = found.pop("problems")
        module.exit_json(changed=False, jobs=[found], problems=some(problems))
    except NoProcessError as error:
        module.fail_json(msg=str(error))
    except FileNotFoundError:
        message = "job {!r}: does not exist in {}. deeplearning.cluster.status lists the jobs."
        module.fail_json(msg=message.format(params["name"], params["directory"]))
    except (OSError, ValueError) as error:
        module.fail_json(msg="cannot read job {!r} in {}: {}".format(params["name"], params["directory"], error))


if __name__ == "__main__":
    main()
