#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: dataset
version_added: 0.1.0
short_description: Brings a data set to shared storage, to a host's disk, or to S3
description:
  - Downloads from S3 or a URL, or takes what was copied from the controller, checks and unpacks it, and renames the complete data set to
    its name in one step. A data set whose version is that of the source is not changed.
  - The work runs in the background while its action plugin shows the progress. Interrupting Ansible does not interrupt it. The next run
    continues an interrupted one.
  - S3 is read and written by the AWS CLI with the credentials of the instance's role, URLs by curl.
options:
  source:
    description:
      - C(s3://bucket/key) of an object, C(s3://bucket/prefix) of all objects below it, the URL of a file, or a path of the controller.
    type: str
    required: true
  destination:
    description:
      - V(shared) for a directory that all hosts see, V(local) for one of this host alone.
      - V(direct) leaves the data on S3 and makes only the lists of its objects.
      - C(s3://bucket/prefix) copies to S3. Nothing is ever deleted there.
    type: str
    default: shared
  name:
    description:
      - Name of the data set, by default that of the source without the suffix of an archive.
    type: str
  directory:
    description:
      - Directory of the data sets, or with a destination on S3, of temporary files.
    type: path
    required: true
  checksum:
    description:
      - Digest of a single file, such as C(sha256:0123...).
    type: str
    default: ""
  unpack:
    description:
      - Whether to unpack archives (C(.tar), compressed C(.tar) and C(.zip)). The archives are not kept.
    type: bool
    default: false
  region:
    description:
      - Region of S3, by default that of the host.
    type: str
  anonymous:
    description:
      - Whether to read S3 without credentials, as public data sets require.
    type: bool
    default: false
  shards:
    description:
      - Numbers of ranks. For each, make lists that divide the files among that many ranks.
    type: list
    elements: int
    default: []
  state:
    description:
      - V(examined) inspects source and destination and changes nothing.
      - V(fetched) downloads O(share) to where V(present) finds it.
      - V(present) stages the data set.
    type: str
    choices: [examined, fetched, present]
    default: present
  hosts:
    description:
      - With O(state=examined), among how many hosts a source on S3 is divided.
    type: int
    default: 1
  share:
    description:
      - With O(state=fetched), which part of the source this host downloads, as O(state=examined) returned it.
    type: dict
    suboptions:
      version:
        description:
          - Version of the source.
        type: str
        required: true
      patterns:
        description:
          - Patterns of the objects.
        type: list
        elements: str
        required: true
  upload:
    description:
      - Properties of a path of the controller. The action plugin sets them.
    type: dict
    suboptions:
      version:
        description:
          - Text that changes with the files.
        type: str
        required: true
      size:
        description:
          - Bytes of all files.
        type: int
        required: true
      single:
        description:
          - Whether it is one file.
        type: bool
        required: true
  attempt:
    description:
      - Which run this task belongs to. The action plugin sets it.
    type: str
    default: ""
  wait:
    description:
      - Seconds to wait for the end before returning the progress.
    type: int
    default: 5
attributes:
  check_mode:
    description: Reads source and destination, and changes nothing.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
  idempotent:
    description: A data set of the same version is not changed.
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

- name: Every host has all files on its own disk
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
  description: Where the data set is.
  returned: when RV(finished)
  type: str
  sample: /efs/datasets/coco-2017
version:
  description: Changes with the contents of the source.
  returned: when RV(finished)
  type: str
  sample: 0123456789ab
current:
  description: Whether nothing is to be done.
  returned: when O(state=examined)
  type: bool
download:
  description: Where files from the controller are to be put.
  returned: when O(state=examined)
  type: str
single:
  description: Whether the source is a single file.
  returned: when O(state=examined)
  type: bool
shares:
  description: For each of O(hosts) the patterns of the objects that it may fetch.
  returned: when O(state=examined)
  type: list
  elements: list
finished:
  description: Whether the work has ended.
  returned: always
  type: bool
progress:
  description: How far it is.
  returned: as long as it has not ended
  type: dict
  contains:
    stage:
      description: What is being done.
      returned: when it has begun
      type: str
      sample: fetching
    done:
      description: How much of it is done, in bytes or, when unpacking, archives.
      returned: when it is known
      type: int
    total:
      description: How much there is to do.
      returned: when it is known
      type: int
    seconds:
      description: How long it has been going on.
      returned: always
      type: int
      sample: 95
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.call import (
    ARGUMENTS,
    OF_THE_CALL,
    examine,
    refuse_own_disk,
    work_on,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.source import (
    PATH,
    DataError,
    parse,
)


def main() -> None:
    os.umask(0o022)  # on hardened hosts it would hide from the jobs' user what is made here
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True, required_if=[("state", "fetched", ["share"])])
    spec = {name: value for name, value in module.params.items() if name not in OF_THE_CALL}
    try:
        if parse(spec["source"]).kind == PATH and not spec["upload"]:
            raise DataError(f"source: {spec['source']} is a path of the controller, which only this module's action plugin can read.")
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
