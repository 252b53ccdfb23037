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
  description: The files of jobs that are skipped because they are not as the collection writes them, one sentence for each.
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
      description: What the job does or how it ended.
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
          description: What the process does or how it ended.
          type: str
          choices: [running, succeeded, failed, stopped, lost]
        processes:
          description: How many processes the job has.
          type: int
        started:
          description: When it started, in seconds since 1970.
          type: float
        heartbeat:
          description: When it was last heard of, in seconds since 1970.
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
      description: The process because of which the job did not succeed, C(how) it ended and the last C(lines) of its log, of
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
      description: The O(progress_offset) for the next look.
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
          description: How many bytes before them were left out because there was more than one answer holds.
          type: int
    log_offsets:
      description: The O(log_offsets) for the next look.
      returned: with O(log_lines)
      type: dict
    lines:
      description: The job in words, one line, or with O(name) several.
      type: list
      elements: str
"""

import json
import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import messages
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.status import look
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records
from ansible_collections.deeplearning.cluster.plugins.module_utils._text import clean_line

# What an answer holds of all logs together, in bytes, and of each one at least.
LOGS_LIMIT = 1 << 20
LOG_LIMIT = 1 << 12

# Bytes of the records that a list of jobs reads, and of what it answers: the controller takes twice as many.
LISTING_LIMIT = 1 << 25

# How many files that are skipped are named.
PROBLEMS_LIMIT = 20


class NoProcessError(Exception):
    """The job has no such process; the text says which it has."""


def watch(paths: records.Paths, params: dict[str, Any]) -> dict[str, Any]:
    """Return the state of one job with its progress, at once or when there is something new."""
    end = time.monotonic() + params["wait"]
    while True:
        # State before progress: what a job that is over has reported is then complete.
        result = look(paths, params["heartbeat_timeout"])
        result["progress"], result["progress_offset"] = messages.read_progress(paths.progress, params["progress_offset"])
        if params["log_lines"] is not None:
            result.update(read_logs(result["processes"], params))
        over = result["state"] not in (records.PENDING, records.RUNNING)
        if result["progress"] or result.get("logs") or over or time.monotonic() >= end:
            lines = [messages.job_line(result, time.time()), *messages.process_table(result["processes"])]
            return {**result, "lines": lines}
        time.sleep(0.5)


def read_logs(processes: list[dict[str, Any]], params: dict[str, Any]) -> dict[str, Any]:
    """Return the new lines of the logs and where the next look begins. Raises NoProcessError."""
    asked = params["log_process"]
    wanted = [process for process in processes if asked in (None, process["name"], *map(str, process["ranks"]))]
    if processes and not wanted and len(processes) == processes[0]["processes"]:
        names = ", ".join(process["name"] for process in processes)
        raise NoProcessError("job {} has no process {!r}: it has {}".format(params["name"], asked, names))
    limit = max(LOG_LIMIT, LOGS_LIMIT // max(1, len(wanted)))
    logs, offsets = [], {}
    for process in wanted:
        offset = params["log_offsets"].get(process["name"])
        lines, offsets[process["name"]], left_out = messages.read_log(
            process["log"], int(offset or 0), limit, process["state"] != records.RUNNING
        )
        if process["tag"] and asked not in (None, process["name"]):
            lines = messages.lines_of(asked, process["tag"], lines)
        if offset is None:
            lines, left_out = lines[max(0, len(lines) - params["log_lines"]) :], 0
        if lines:
            logs.append({"name": process["name"], "path": process["log"], "lines": lines, "left_out": left_out})
    return {"logs": logs, "log_offsets": offsets}


def list_jobs(params: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return all jobs below the directory, the newest first, and what is skipped of it, with the reasons."""
    jobs, problems, left = [], [], LISTING_LIMIT
    for name in newest_first(params["directory"]):
        paths = records.Paths(os.path.join(params["directory"], name))
        budget = records.Budget(min(left, records.JOB_LIMIT))
        try:
            records.check_name(name)
            found = look(paths, params["heartbeat_timeout"], budget)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            if os.path.lexists(paths.description):
                problems.append(f"job {name!r} in {params['directory']} is skipped: {error}")
            continue
        problems += found.pop("problems")
        for process in found["processes"]:
            del process["ranks"]
        job = {**found, "lines": [messages.job_line(found, time.time())]}
        size = max(len(json.dumps(job)), budget.size - budget.left)
        if size > left:
            problems.append(
                f"job {name!r} in {params['directory']} is skipped: it and newer jobs have more than {LISTING_LIMIT} bytes of records"
            )
        else:
            jobs.append(job)
        left = max(0, left - size)
    return sorted(jobs, key=lambda found: found["created"], reverse=True), problems


def newest_first(directory: str) -> list[str]:
    """Return the names in a directory of jobs, those first that were prepared last: what is too much is the oldest."""
    times = {}
    for name in os.listdir(directory) if os.path.isdir(directory) else []:
        try:
            times[name] = os.stat(records.Paths(os.path.join(directory, name)).description, follow_symlinks=False).st_mtime
        except OSError:
            times[name] = 0.0
    return sorted(times, key=lambda name: (-times[name], name))


def some(problems: list[str]) -> list[str]:
    """Return the problems as lines, and not more of them than people read."""
    shown = [clean_line(problem) for problem in problems[:PROBLEMS_LIMIT]]
    rest = len(problems) - len(shown)
    return [*shown, f"{rest} more files of jobs are skipped"] if rest else shown


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
        message = "there is no job {!r} in {}: deeplearning.cluster.status lists those that are there"
        module.fail_json(msg=message.format(params["name"], params["directory"]))
    except (OSError, ValueError) as error:
        module.fail_json(msg="cannot look at job {!r} in {}: {}".format(params["name"], params["directory"], error))


if __name__ == "__main__":
    main()
