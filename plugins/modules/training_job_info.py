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
  directory:
    description:
      - Where the jobs' directories are.
    type: path
    required: true
  name:
    description:
      - The one job to look at. It must exist.
    type: str
  heartbeat_timeout:
    description:
      - A running process whose record is older than so many seconds counts as lost.
    type: int
    default: 60
  progress_offset:
    description:
      - With O(name), progress is returned from this byte of the progress file on; see RV(jobs[].progress_offset).
    type: int
    default: 0
  wait:
    description:
      - With O(name), return only when there is new progress, when the job is over, or after so many seconds.
    type: int
    default: 0
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    support: full
    platforms: posix
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
      description: One of V(pending), V(running), V(succeeded), V(failed), V(stopped) and V(lost).
      type: str
    directory:
      description: The job's directory.
      type: str
    script:
      description: The training script.
      type: str
    launcher:
      description: The launcher.
      type: str
    created:
      description: When the job was prepared, in seconds since 1970.
      type: float
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
        host:
          description: The name of its host.
          type: str
        state:
          description: One of V(running), V(succeeded), V(failed), V(stopped) and V(lost).
          type: str
        started:
          description: When it started, in seconds since 1970.
          type: float
        finished:
          description: When it ended, in seconds since 1970.
          type: float
        exit_code:
          description: Its exit status, if it has one.
          type: int
        signal:
          description: The signal that ended it, if one did.
          type: str
        log:
          description: The file with its output.
          type: str
        text:
          description: The above in words.
          type: str
          sample: rank 0 on deeplearning-worker1 running
    failure:
      description: The process because of which the job did not succeed, C(how) it ended and the last C(lines) of its log.
      type: dict
    progress:
      description: What the script has reported, with O(name).
      type: list
      elements: dict
    progress_offset:
      description: The O(progress_offset) for the next look, with O(name).
      type: int
"""

import json
import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils import job

# torchrun adds some thirty lines of its own below the script's error.
LOG_LINES = 40


def look(paths: job.Paths, heartbeat_timeout: int) -> dict[str, Any]:
    """Return the state of one job. Raises OSError or ValueError when the directory is not a job's."""
    with open(paths.description, encoding="utf-8") as file:
        description = json.load(file)
    now = time.time()
    processes = []
    for record in job.read_records(paths):
        heard = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(record["heartbeat"]))
        state = job.process_state(record, now, heartbeat_timeout)
        text = "rank {} on {} {}".format(record["rank"], record["host"], state)
        processes.append({**record, "state": state, "heard": heard, "log": paths.log(record["rank"]), "text": text})
    count = processes[0]["processes"] if processes else 0
    result = {
        **{key: description[key] for key in ("name", "script", "launcher", "created")},
        "directory": paths.directory,
        "state": job.job_state([process["state"] for process in processes], count),
        "process_count": count,
        "processes": processes,
    }
    failed = job.first_failure(processes)
    if failed:
        result["failure"] = {**failed, "how": job.describe_end(failed), "lines": job.tail(failed["log"], LOG_LINES)}
    return result


def watch(paths: job.Paths, params: dict[str, Any]) -> dict[str, Any]:
    """Return the state of one job with its progress, at once or when there is something new."""
    end = time.monotonic() + params["wait"]
    while True:
        # State before progress: what a job that is over has reported is then complete.
        result = look(paths, params["heartbeat_timeout"])
        result["progress"], result["progress_offset"] = job.read_progress(paths.progress, params["progress_offset"])
        if result["progress"] or result["state"] not in (job.PENDING, job.RUNNING) or time.monotonic() >= end:
            return result
        time.sleep(0.5)


def list_jobs(params: dict[str, Any]) -> Any:
    """Return all jobs below the directory, the newest first."""
    jobs = []
    for name in os.listdir(params["directory"]) if os.path.isdir(params["directory"]) else []:
        try:
            jobs.append(look(job.Paths(os.path.join(params["directory"], name)), params["heartbeat_timeout"]))
        except (OSError, ValueError):
            continue
    return sorted(jobs, key=lambda found: found["created"], reverse=True)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "name": {"type": "str"},
            "heartbeat_timeout": {"type": "int", "default": 60},
            "progress_offset": {"type": "int", "default": 0},
            "wait": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    params = module.params
    if not params["name"]:
        module.exit_json(changed=False, jobs=list_jobs(params))
    try:
        paths = job.Paths(os.path.join(params["directory"], job.check_name(params["name"])))
        module.exit_json(changed=False, jobs=[watch(paths, params)])
    except (OSError, ValueError) as error:
        module.fail_json(msg="there is no job {!r} in {}: {}".format(params["name"], params["directory"], error))


if __name__ == "__main__":
    main()
