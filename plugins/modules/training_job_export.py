#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Exports a job to S3. The action plugin of the same name runs this module repeatedly, and shows the progress."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_export
version_added: 0.2.0
short_description: Uploads the files of a training job to S3
description:
  - Uploads the files of a job's directory that are not at the destination yet, or that have changed since they were uploaded. Never
    deletes objects at the destination.
  - If the job writes its checkpoints to a different directory, the checkpoints are uploaded to C(checkpoints/) at the destination.
  - The AWS CLI uploads the files with the credentials of the instance role, as the job's user and in the same sandbox as jobs. The upload
    includes only regular files, and does not follow symbolic links.
  - A systemd unit on the host uploads the files. The unit continues even if Ansible is interrupted. If the unit itself is interrupted, the
    next run of the module uploads the remaining files.
  - Run the task on a single host. Only a task with O(state=standby) may run on several hosts.
options:
  name:
    description: The job's name.
    type: str
    required: true
  directory:
    description: Parent directory of the job directories, on the shared storage.
    type: path
    required: true
  destination:
    description:
      - Bucket or prefix such as C(s3://bucket/prefix). The files of the job are uploaded to C(s3://bucket/prefix/NAME/).
      - The default is the destination of the job's last export.
    type: str
  include:
    description:
      - Patterns of the files and directories to upload, such as V(logs), V(*.pt), or V(checkpoints/step-*) for paths relative to the job's
        directory.
      - If the list is empty, all files are uploaded.
    type: list
    elements: str
    default: []
  exclude:
    description:
      - Patterns of files and directories that are not uploaded. The default excludes hidden and temporary entries of the job's directory
        and of the checkpoint directory, such as incomplete checkpoints. Everything in a complete checkpoint is uploaded.
    type: list
    elements: str
    default: ["/*.tmp", "/.*", "checkpoints/*.tmp", "checkpoints/.*"]
  checkpoint_count:
    description:
      - Number of checkpoints to upload, the newest first. Older checkpoints are not uploaded, but those that were uploaded before remain
        at the destination. With V(0), all checkpoints are uploaded.
    type: int
    default: 0
  interval:
    description:
      - Seconds between two uploads while the job runs. With V(0), the files are uploaded only at the start and when the job is over. Used
        only with O(state=started).
    type: int
    default: 0
  region:
    description: Region for the requests to S3. The default is the region of the host.
    type: str
  state:
    description:
      - V(started) uploads the files that exist, and then, in the background, the files that the job writes, until the job is over.
      - V(standby) waits in the background while another host uploads the files of the job with O(state=started). If that host is lost,
        this host continues the upload.
      - V(present) uploads the files that exist now.
    type: str
    choices: [started, standby, present]
    default: present
  attempt:
    description:
      - Number of the attempt that is about to begin. With O(state=started) and O(state=standby), an earlier attempt that has ended does not
        end the export.
    type: int
    default: 1
  standby:
    description:
      - Number of the host among the hosts on standby, beginning with 1. The host with the lowest number takes over first. Used only with
        O(state=standby).
    type: int
    default: 1
  user:
    description: The user who ran the job. The files are uploaded as this user, who must own the job's logs.
    type: str
    default: deeplearning
  heartbeat_timeout:
    description: Seconds without a heartbeat after which a process of the job, or the upload itself, counts as lost.
    type: int
    default: 60
  since:
    description:
      - Value of RV(since) that the first run of the module returned. With this value, the module only waits. The action plugin sets this
        option.
    type: float
    default: 0.0
  wait:
    description:
      - Maximum time to wait for the end of the upload, in seconds. If the upload has not ended by then, the module returns the progress of
        the upload.
    type: int
    default: 5
notes:
  - The module needs root privileges to run the upload as the job's user.
requirements:
  - AWS CLI on the host
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: partial
    details: Shows differences only in check mode, as a list of the objects that a run would upload.
  platform:
    support: full
    platforms: posix
seealso:
  - module: deeplearning.cluster.training_job
"""

EXAMPLES = r"""
- name: Upload the checkpoints and logs of a job
  deeplearning.cluster.training_job_export:
    name: digits-1
    directory: /efs/jobs
    destination: s3://my-results/jobs
    include: [checkpoints, logs]
  become: true
  run_once: true
"""

RETURN = r"""
destination:
  description: Prefix of the job's objects.
  returned: success
  type: str
  sample: s3://my-results/jobs/digits-1/
files:
  description: Number of files that are at the destination, or that would be there after a run.
  returned: when RV(finished) with O(state=present)
  type: int
size:
  description: Total size of these files in bytes.
  returned: when RV(finished) with O(state=present)
  type: int
uploaded:
  description: Number of uploaded files. In check mode, number of files that a run would upload.
  returned: when RV(finished) with O(state=present)
  type: int
uploaded_size:
  description: Total size of these files in bytes.
  returned: when RV(finished) with O(state=present)
  type: int
changing:
  description: Number of files that changed while they were uploaded, because a running job is still writing them.
  returned: when RV(finished) with O(state=present)
  type: int
omitted:
  description: What is not uploaded, because O(exclude) matches it, or because it is a symbolic link or a special file. Only the first 20
    entries are named. Directories end with a slash.
  returned: when RV(finished) with O(state=present)
  type: list
  elements: str
  sample: [checkpoints/step-300.tmp/]
omitted_count:
  description: Number of all these entries.
  returned: when RV(finished) with O(state=present)
  type: int
finished:
  description: Whether the upload has ended.
  returned: success
  type: bool
since:
  description: When the task began, in seconds since 1970. See O(since).
  returned: except in check mode
  type: float
progress:
  description: Progress of the upload.
  returned: until the upload has ended
  type: dict
  contains:
    uploaded_size:
      description: Number of bytes that have been uploaded.
      returned: when it is known
      type: int
    seconds:
      description: Seconds since the task began.
      type: int
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.training_job.units import systemd, users
from ..module_utils._hosts.training_job_export.module_run import ARGUMENTS, ExportError, work_on


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        result = work_on(module)
    except (ExportError, systemd.UnitError, users.UserError, users.FailedWorkError, OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
