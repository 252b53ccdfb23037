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
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records, text

# torchrun adds some thirty lines of its own below the script's error.
LOG_LINES = 40


def look(paths: records.Paths, heartbeat_timeout: int) -> dict[str, Any]:
    """Return the state of one job. Raises OSError or ValueError when the directory is not a job's."""
    with open(paths.description, encoding="utf-8") as file:
        description = json.load(file)
    now = time.time()
    # Before the records: those of a job that is over are then complete.
    verdict = records.read_json(paths.verdict) or {}
    processes = [describe(record, paths, now, heartbeat_timeout) for record in records.read_records(paths)]
    result = {
        **{key: description[key] for key in ("name", "script", "launcher", "created")},
        "directory": paths.directory,
        "state": verdict.get("state") or records.job_state(processes),
        "process_count": processes[0]["processes"] if processes else 0,
        "processes": processes,
    }
    first = verdict.get("failure") or (records.first_failure(processes) if not verdict else None)
    if first:
        log = paths.log(first["name"])
        result["failure"] = {**first, "log": log, "how": records.describe_end(first), "lines": text.tail(log, LOG_LINES)}
    return result


def describe(record: dict[str, Any], paths: records.Paths, now: float, heartbeat_timeout: int) -> dict[str, Any]:
    """Return a process as its record tells, with its state by now and in words."""
    state = records.process_state(record, now, heartbeat_timeout)
    words = "{} on {} {}".format(records.title(record["name"]), record["host"], state)
    return {**record, "state": state, "log": paths.log(record["name"]), "text": words}


def watch(paths: records.Paths, params: dict[str, Any]) -> dict[str, Any]:
    """Return the state of one job with its progress, at once or when there is something new."""
    end = time.monotonic() + params["wait"]
    while True:
        # State before progress: what a job that is over has reported is then complete.
        result = look(paths, params["heartbeat_timeout"])
        result["progress"], result["progress_offset"] = text.read_progress(paths.progress, params["progress_offset"])
        if result["progress"] or result["state"] not in (records.PENDING, records.RUNNING) or time.monotonic() >= end:
            return result
        time.sleep(0.5)


def list_jobs(params: dict[str, Any]) -> Any:
    """Return all jobs below the directory, the newest first."""
    jobs = []
    for name in os.listdir(params["directory"]) if os.path.isdir(params["directory"]) else []:
        try:
            jobs.append(look(records.Paths(os.path.join(params["directory"], name)), params["heartbeat_timeout"]))
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
        paths = records.Paths(os.path.join(params["directory"], records.check_name(params["name"])))
        module.exit_json(changed=False, jobs=[watch(paths, params)])
    except (OSError, ValueError) as error:
        module.fail_json(msg="there is no job {!r} in {}: {}".format(params["name"], params["directory"], error))


if __name__ == "__main__":
    main()
