#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: lustre_file_system
version_added: 0.1.0
short_description: Manages the shared FSx for Lustre file system of a training cluster
description:
  - Manages a file system on SSD storage in the private subnet of the cluster's first zone, and its links to S3.
  - The network must exist. The module finds it by its tags. If the file system is kept, its subnet, its security groups and the VPC
    are kept as well.
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
  - deeplearning.cluster.provisioning
  - deeplearning.cluster.provisioning.lustre_file_system
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Create a file system that is linked to a data set in S3
  deeplearning.cluster.lustre_file_system:
    cluster: bert
    region: us-east-1
    lustre: true
    lustre_data_repositories:
      - path: /wikipedia
        s3: s3://my-datasets/wikipedia

- name: Use an existing file system
  deeplearning.cluster.lustre_file_system:
    cluster: bert
    region: us-east-1
    lustre_file_system_id: fs-0123456789abcdef0
"""

RETURN = r"""
changes:
  description: The changes that the run made, or would make in check mode, in the order of the plan.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the resource.
      type: str
      sample: subnet
    key:
      description: Key of the resource, which is unique among resources of the same kind.
      type: str
      sample: private-us-east-1a
    action:
      description: C(create), C(update) or C(delete).
      type: str
      sample: create
    policy:
      description:
        - C(in_place), or C(replace) for an update that replaces nodes.
      type: str
      sample: in_place
    before:
      description: Values of the changed properties before the change.
      type: dict
    after:
      description: Values of the changed properties after the change.
      type: dict
    hourly:
      description: By how much the change increases or reduces the price of the resource per hour. Null if a price is not known.
      type: float
      sample: 0.045
price:
  description: What the cluster costs, in the format of RV(deeplearning.cluster.cluster#module:price). Null if O(prices) is false.
  returned: success
  type: dict
resources:
  description: IDs of the cluster's resources by kind and key. In check mode, these are the predicted IDs.
  returned: success
  type: dict
  sample: {"vpc": {"main": "vpc-0123456789abcdef0"}}
kept:
  description: IDs of the cluster's own file systems that the deletion kept or, in check mode, would keep.
  returned: success
  type: list
  elements: str
"""

from ..module_utils._aws.options.registry import argument_spec
from ..module_utils._aws.provision import provisioning
from ..module_utils._aws.storage.lustre.component import LUSTRE


def main() -> None:
    provisioning.run(argument_spec("lustre_file_system"), [LUSTRE])


if __name__ == "__main__":
    main()
