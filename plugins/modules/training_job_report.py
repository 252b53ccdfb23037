#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads what the report of a job is made of; the action plugin of the same name makes the report."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_report
version_added: 0.1.0
short_description: Writes a page about a training job, with its curves, processes, events and files
description:
  - Makes one HTML file that needs nothing else to be looked at, neither a network nor scripts.
  - It holds the curves of all numbers that the training script has reported, over steps and over time, the throughput, what became of
    each process, what happened when, how the job was started, and where its code, logs and checkpoints are.
  - The page lies in the job's directory as C(report.html), and on the controller in O(dest).
  - The task runs through one host. A job that still runs has a report, too; run the task again for a newer one.
requirements:
  - On the controller C(matplotlib), for the curves. Without it the page has the first, last, lowest and highest values only.
options:
  name:
    description:
      - The job's name.
    type: str
    required: true
  dest:
    description:
      - The file to write on the controller, with the directories that lead to it.
    type: path
    required: true
  page:
    description:
      - A file on the host with the page, to be put into the job's directory. The action plugin sets it.
    type: path
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - deeplearning.cluster.job
seealso:
  - module: deeplearning.cluster.training_job
"""

EXAMPLES = r"""
- name: Write the report of an older job
  deeplearning.cluster.training_job_report:
    name: digits-1
    directory: /efs/jobs
    dest: reports/digits-1.html
  run_once: true
"""

RETURN = r"""
dest:
  description: The report on the controller.
  returned: by the controller
  type: str
  sample: /home/me/project/reports/digits-1.html
report:
  description: What the page tells, as the host has read it. Not in the result of the task.
  returned: to the controller
  type: dict
path:
  description: The report in the job's directory.
  returned: by the controller
  type: str
  sample: /efs/jobs/digits-1/report.html
"""

import os
import secrets
import stat
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.status import look
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report import files, progress
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records

PAGE = "report.html"


def collect(paths: records.Paths, heartbeat_timeout: int) -> dict[str, Any]:
    """Return what a report tells of a job. Raises OSError or ValueError when the directory is not a job's."""
    # State before progress: what a job that is over has reported is then complete.
    job = look(paths, heartbeat_timeout)
    processes = job["processes"]
    over = job["state"] not in (records.PENDING, records.RUNNING)
    start = min((process["started"] for process in processes), default=job["created"])
    end = max((process.get("finished", process["heartbeat"]) for process in processes), default=start)
    return {
        "job": job,
        "description": records.read_description(paths),
        "start": start,
        "end": end if over else time.time(),
        "over": over,
        "progress": progress.read(paths.progress, progress.read_notes(paths.progress_times), start, end),
        "code": files.code(paths.code),
        "checkpoints": files.newest(paths.checkpoints),
        "logs": files.newest(paths.logs),
    }


def put(page: str, directory: str, check_mode: bool) -> bool:
    """Put the page into the job's directory; return whether it was not like that. Raises OSError.

    Follows no link: the job's user may have made one of any name there.
    """
    with open(page, "rb") as file:
        content = file.read()
    job = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        changed = read(job, len(content) + 1) != content
        if changed and not check_mode:
            temporary = f".{PAGE}.{secrets.token_hex(8)}"
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=job), "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), 0o644)
            os.replace(temporary, PAGE, src_dir_fd=job, dst_dir_fd=job)
    finally:
        os.close(job)
    return changed


def read(directory: int, size: int) -> bytes:
    """Return the beginning of the page that is in an open directory, nothing where it is none."""
    try:
        page = os.open(PAGE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except OSError:
        return b""
    with open(page, "rb") as file:
        return file.read(size) if stat.S_ISREG(os.fstat(page).st_mode) else b""


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "dest": {"type": "path", "required": True},
            "page": {"type": "path"},
            "heartbeat_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        paths = records.Paths(os.path.join(params["directory"], records.check_name(params["name"])))
        if params["page"]:
            module.exit_json(changed=put(params["page"], paths.directory, module.check_mode))
        module.exit_json(changed=False, report=collect(paths, params["heartbeat_timeout"]))
    except FileNotFoundError:
        message = "there is no job {!r} in {}: deeplearning.cluster.status lists those that are there"
        module.fail_json(msg=message.format(params["name"], params["directory"]))
    except (OSError, ValueError) as error:
        module.fail_json(msg="cannot look at job {!r} in {}: {}".format(params["name"], params["directory"], error))


if __name__ == "__main__":
    main()
