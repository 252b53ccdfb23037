#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: dataset
version_added: 0.1.0
short_description: Stages a data set on shared storage, on a host's disk, or in S3
description:
  - Downloads a data set from S3 or a URL, or uses files that were copied from the controller. Then verifies and unpacks the data set, and
    moves the complete data set to its final path in a single rename. A data set that is up to date is not changed.
  - The data set is staged in the background while the action plugin shows the progress. Staging continues even if Ansible is interrupted.
    If staging itself is interrupted, the next run of the module continues it.
  - The AWS CLI accesses S3 with the credentials of the instance role. curl downloads URLs.
options:
  source:
    description:
      - C(s3://bucket/key) for one object, C(s3://bucket/prefix) for all objects below the prefix, the URL of a file, or a path on the
        controller.
      - Required, unless O(sources) is set.
    type: str
    default: ""
  sources:
    description:
      - Several sources that together form one data set, instead of O(source). O(name) is required. A file from a later source replaces a
        file with the same path from an earlier source.
    type: list
    elements: dict
    default: []
    suboptions:
      source:
        description: C(s3://bucket/key), C(s3://bucket/prefix), or the URL of a file.
        type: str
        required: true
      folder:
        description: Folder in the data set for the files of this source. The default is the data set's top-level folder.
        type: str
        default: ""
      checksum:
        description: Digest of the file, such as C(sha256:0123...).
        type: str
        default: ""
      unpack:
        description: Whether to unpack archives.
        type: bool
        default: false
  destination:
    description:
      - V(shared) is a directory that all hosts share. V(local) is a directory on this host's own disk.
      - V(direct) leaves the data in S3 and creates only lists of the objects.
      - C(s3://bucket/prefix) copies the data to S3. The module never deletes objects there.
    type: str
    default: shared
  name:
    description: Name of the data set. The default is the name of the source without an archive suffix.
    type: str
  directory:
    description: Parent directory of the data sets. If the destination is in S3, this directory contains only temporary files.
    type: path
    required: true
  checksum:
    description: Digest of a single file, such as C(sha256:0123...).
    type: str
    default: ""
  unpack:
    description: Whether to unpack archives (C(.tar), compressed C(.tar) and C(.zip)). The downloaded archives are deleted afterwards.
    type: bool
    default: false
  region:
    description: Region of the S3 bucket. The default is the region of the host.
    type: str
  anonymous:
    description: Whether to read S3 without credentials. Use this for public data sets.
    type: bool
    default: false
  shards:
    description:
      - List of rank counts. For each count, the module divides the files among that many ranks, and writes one list of files per rank.
    type: list
    elements: int
    default: []
  state:
    description:
      - V(examined) inspects the source and the destination without changing anything.
      - V(fetched) downloads the part of the source that O(share) selects, for a later task with V(present).
      - V(present) stages the data set.
    type: str
    choices: [examined, fetched, present]
    default: present
  hosts:
    description: Number of hosts that share the download of a source in S3. Used only with O(state=examined).
    type: int
    default: 1
  share:
    description: Part of the source for this host to download, in the form that O(state=examined) returns. Used only with O(state=fetched).
    type: dict
    suboptions:
      version:
        description: Version of the source.
        type: str
        required: true
      patterns:
        description: Patterns that select the objects.
        type: list
        elements: str
        required: true
  upload:
    description: Properties of the source path on the controller. The action plugin sets this option.
    type: dict
    suboptions:
      version:
        description: Identifier of the files' version. The identifier changes when the files change.
        type: str
        required: true
      size:
        description: Total size of the files in bytes.
        type: int
        required: true
      single:
        description: Whether the path is a single file.
        type: bool
        required: true
  attempt:
    description: ID of the playbook run that this task belongs to. The action plugin sets this option.
    type: str
    default: ""
  wait:
    description:
      - Maximum time to wait until staging has ended, in seconds. If staging has not ended by then, the module returns its progress.
    type: int
    default: 5
attributes:
  check_mode:
    description: Reads the source and the destination without changing anything.
    support: full
  diff_mode:
    description: Shows no differences.
    support: none
  idempotent:
    description: A data set that is up to date is not changed.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Unpack an archive from S3 on the shared storage
  deeplearning.cluster.dataset:
    source: s3://my-datasets/coco-2017.tar
    unpack: true
    directory: /efs/datasets
  run_once: true

- name: Combine images and their annotations
  deeplearning.cluster.dataset:
    name: coco-2017
    sources:
      - source: http://images.cocodataset.org/zips/val2017.zip
        unpack: true
      - source: http://images.cocodataset.org/annotations/annotations_trainval2017.zip
        unpack: true
      - source: s3://my-models/resnet50.npz
        folder: pretrained-models
    directory: /efs/datasets
  run_once: true

- name: Copy all files to the local disk of every host
  deeplearning.cluster.dataset:
    source: s3://my-datasets/imagenet/
    destination: local
    directory: /opt/dlami/nvme/datasets
"""

RETURN = r"""
name:
  description: Name of the data set.
  returned: when RV(finished)
  type: str
  sample: coco-2017
path:
  description: Path of the data set.
  returned: when RV(finished)
  type: str
  sample: /efs/datasets/coco-2017
version:
  description: Version of the data set. The version changes when the contents of the source change.
  returned: when RV(finished)
  type: str
  sample: 0123456789ab
current:
  description: Whether the data set is up to date.
  returned: when O(state=examined)
  type: bool
download:
  description: Directory on the host for the files that are copied from the controller.
  returned: when O(state=examined)
  type: str
single:
  description: Whether the source is a single file.
  returned: when O(state=examined)
  type: bool
shares:
  description: For each of the O(hosts), a list of the patterns that select the objects to download.
  returned: when O(state=examined)
  type: list
  elements: list
finished:
  description: Whether staging has ended.
  returned: always
  type: bool
progress:
  description: Progress of staging.
  returned: until staging has ended
  type: dict
  contains:
    stage:
      description: The current stage.
      returned: when staging has begun
      type: str
      sample: fetching
    done:
      description: Completed part of the stage, in bytes. During unpacking, it is the number of unpacked archives.
      returned: when it is known
      type: int
    total:
      description: Total for the stage, in the same unit as RV(progress.done).
      returned: when it is known
      type: int
    source:
      description: Position of the source to which the current stage belongs.
      returned: while one of several sources is being staged
      type: int
      sample: 2
    sources:
      description: Number of sources.
      returned: while one of several sources is being staged
      type: int
      sample: 4
    seconds:
      description: Seconds since staging began.
      returned: always
      type: int
      sample: 95
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._common.dataset.source import DataError, check_sources
from ..module_utils._hosts.dataset.module_run import ARGUMENTS, OF_THE_CALL, examine, refuse_own_disk, work_on


def main() -> None:
    os.umask(0o022)  # with a hardened host's umask, the jobs' user could not read these files
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True, required_if=[("state", "fetched", ["share"])])
    spec = {name: value for name, value in module.params.items() if name not in OF_THE_CALL}
    try:
        check_sources(spec)
        if spec["source"].startswith("/") and not spec["upload"]:
            raise DataError(
                f"source: {spec['source']} is a path on the controller, which this host cannot read. "
                "Run the module through its action plugin."
            )
        refuse_own_disk(spec["destination"], spec["directory"])
        if module.params["state"] == "fetched" and module.check_mode:
            module.exit_json(changed=True, finished=True)
        if module.params["state"] == "examined" or module.check_mode:
            examine(module, spec)
        work_on(module, spec)
    except DataError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
