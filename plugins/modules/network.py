#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: network
version_added: 0.1.0
short_description: Manages the network of a training cluster
description:
  - Manages a VPC with a public and a private subnet in each zone, an internet gateway, NAT gateways with Elastic IP addresses, and
    routes.
  - Also manages an S3 gateway endpoint, interface endpoints, and security groups for SSH to the master, for traffic among the nodes, and
    for shared storage.
  - In an existing VPC with existing subnets, manages only the security groups and interface endpoints.
  - Finds existing resources by their tags.
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
  - deeplearning.cluster.provisioning
  - deeplearning.cluster.provisioning.network
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Create a network in two zones
  deeplearning.cluster.network:
    cluster: bert
    region: us-east-1
    zones: [us-east-1a, us-east-1b]
    ssh_cidrs: [203.0.113.0/24]

- name: Create a network without internet access, for use with Session Manager
  deeplearning.cluster.network:
    cluster: bert
    region: us-east-1
    master_public_address: false
    nat: none
    interface_endpoints: [ssm, ssmmessages, ec2, autoscaling]

- name: Use an existing network
  deeplearning.cluster.network:
    cluster: bert
    region: us-east-1
    vpc_id: vpc-0123456789abcdef0
    private_subnet_ids: [subnet-0123456789abcdef0]
    master_public_address: false
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

from ..module_utils._aws.network.component import NETWORK
from ..module_utils._aws.options.registry import argument_spec
from ..module_utils._aws.provision import provisioning


def main() -> None:
    provisioning.run(argument_spec("network"), [NETWORK])


if __name__ == "__main__":
    main()
