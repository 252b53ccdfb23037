#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: lustre_file_system
version_added: 0.1.0
short_description: The shared FSx for Lustre file system of a training cluster
description:
  - A file system on SSD in the private subnet of the cluster's first zone, and its links to S3.
  - The network has to exist; it is found by its tags. Where the file system is kept, so are its subnet, its security groups and the VPC.
extends_documentation_fragment:
  - deeplearning.cluster.provisioning
  - deeplearning.cluster.provisioning.lustre_file_system
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: A file system that shows a dataset in S3
  deeplearning.cluster.lustre_file_system:
    cluster: bert
    region: us-east-1
    lustre: true
    lustre_data_repositories:
      - path: /wikipedia
        s3: s3://my-datasets/wikipedia

- name: Use one that exists
  deeplearning.cluster.lustre_file_system:
    cluster: bert
    region: us-east-1
    lustre_file_system_id: fs-0123456789abcdef0
"""

RETURN = r"""
changes:
  description: What was changed, or would be, in the order of the plan.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the resource.
      type: str
      sample: subnet
    key:
      description: Which resource of its kind.
      type: str
      sample: private-us-east-1a
    action:
      description: C(create), C(update) or C(delete).
      type: str
      sample: create
    policy:
      description:
        - C(in_place), or C(replace) for an update that nodes are replaced for.
      type: str
      sample: in_place
    before:
      description: The properties that differ, as they were.
      type: dict
    after:
      description: The properties that differ, as they are now.
      type: dict
resources:
  description: Ids of the cluster's resources by kind and key; in check mode as they would be.
  returned: success
  type: dict
  sample: {"vpc": {"main": "vpc-0123456789abcdef0"}}
kept:
  description: Ids of data that belongs to the cluster and was not deleted.
  returned: when not in check mode
  type: list
  elements: str
"""

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import argument_spec
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import provisioning
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre.component import LUSTRE


def main() -> None:
    provisioning.run(argument_spec("lustre_file_system"), [LUSTRE])


if __name__ == "__main__":
    main()
