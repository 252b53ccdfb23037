#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_role
version_added: 0.1.0
short_description: Manages the AWS permissions of a training cluster's nodes
description:
  - Manages an IAM role with only the permissions that the nodes need, and the instance profile that contains the role.
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
  - deeplearning.cluster.provisioning
  - deeplearning.cluster.provisioning.instance_role
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Allow nodes to read the data and to write the results
  deeplearning.cluster.instance_role:
    cluster: bert
    region: us-east-1
    read_buckets: [my-datasets]
    write_buckets: [my-results]

- name: Allow Session Manager to connect to nodes
  deeplearning.cluster.instance_role:
    cluster: bert
    region: us-east-1
    session_manager: true
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

from ..module_utils._aws.instance_role.component import INSTANCE_ROLE
from ..module_utils._aws.options.registry import argument_spec
from ..module_utils._aws.provision import provisioning


def main() -> None:
    provisioning.run(argument_spec("instance_role"), [INSTANCE_ROLE])


if __name__ == "__main__":
    main()
