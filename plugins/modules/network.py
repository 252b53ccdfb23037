#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: network
version_added: 0.1.0
short_description: The network of a training cluster
description:
  - A VPC with a public and a private subnet in each zone, an internet gateway, NAT gateways with elastic IP addresses, routes,
    an S3 gateway endpoint, interface endpoints, and the security groups for SSH to the master, for the nodes among themselves and
    for shared storage.
  - Or the security groups and interface endpoints alone, in a VPC and subnets that exist.
  - Resources are found again by their tags.
extends_documentation_fragment:
  - deeplearning.cluster.provisioning
  - deeplearning.cluster.provisioning.network
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: A network in two zones
  deeplearning.cluster.network:
    cluster: bert
    region: us-east-1
    zones: [us-east-1a, us-east-1b]
    ssh_cidrs: [203.0.113.0/24]

- name: No way to the internet, reached by Session Manager
  deeplearning.cluster.network:
    cluster: bert
    region: us-east-1
    master_public_address: false
    nat: none
    interface_endpoints: [ssm, ssmmessages, ec2, autoscaling]

- name: In a network that exists
  deeplearning.cluster.network:
    cluster: bert
    region: us-east-1
    vpc_id: vpc-0123456789abcdef0
    private_subnet_ids: [subnet-0123456789abcdef0]
    master_public_address: false
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

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.component import NETWORK
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import argument_spec
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import provisioning


def main() -> None:
    provisioning.run(argument_spec("network"), [NETWORK])


if __name__ == "__main__":
    main()
