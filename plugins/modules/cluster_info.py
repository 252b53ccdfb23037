#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_info
version_added: 0.1.0
short_description: Lists the resources and nodes of a training cluster
description: Lists the resources that have the tag of a cluster, and the cluster's running nodes.
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
  - deeplearning.cluster.aws_info
  - deeplearning.cluster.aws_info.nodes
options:
  prices:
    description: Whether to return what the cluster costs per hour.
    type: bool
    default: true
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: List the resources and nodes of a cluster
  deeplearning.cluster.cluster_info:
    cluster: bert
    region: us-east-1
  register: bert
"""

RETURN = r"""
lease:
  description:
    - The lease of the nodes, in the format of RV(deeplearning.cluster.lease#module:lease). Null without a lease, and if
      RV(incomplete_ends) or RV(unread_ends) contains it.
  returned: success
  type: dict
idle:
  description:
    - What AWS does with idle nodes, in the format of RV(deeplearning.cluster.cluster#module:idle). Null if it does not look for idle
      nodes, and if RV(incomplete_ends) or RV(unread_ends) contains it.
  returned: success
  type: dict
incomplete_ends:
  description:
    - C(lease) if there should be a lease, and C(idle_after) if there should be an end of idle nodes, but parts of it are missing, so that
      AWS does not end the nodes with it.
  returned: success
  type: list
  elements: str
unread_ends:
  description: C(lease) and C(idle_after) if the caller may not read them.
  returned: success
  type: list
  elements: str
emr:
  description: With O(node_service=emr), the EMR cluster that is recorded for the cluster. Null if there is none.
  returned: success
  type: dict
  contains:
    id:
      description: ID of the EMR cluster.
      type: str
      sample: j-2AL4XXXXXX5T9
    ended:
      description: Whether the EMR cluster has terminated, or is terminating.
      type: bool
    reason:
      description: EMR's reason for the termination. Empty while the cluster is running.
      type: str
      sample: Terminated by user request
    end:
      description: When the EMR cluster terminated, in UTC. Null if it has not terminated.
      type: str
      sample: "2026-12-01T18:00:00Z"
    idle_seconds:
      description: Number of seconds after which EMR terminates the idle cluster. With V(0), EMR does not do so, or the
          caller may not know it.
      type: int
resources:
  description: The cluster's resources.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the resource.
      type: str
      sample: vpc
    key:
      description: Key of the resource, which is unique among resources of the same kind.
      type: str
      sample: main
    id:
      description: ID that AWS assigned.
      type: str
      sample: vpc-0123456789abcdef0
    billed:
      description:
        - Name of the resource, if AWS charges for the resource even while no node uses it. Otherwise, the value is an empty string.
        - The running nodes and their volumes also cost money.
      type: str
      sample: NAT gateway main
    properties:
      description: Properties of the resource.
      type: dict
price:
  description: What the cluster costs with the nodes in RV(nodes), in the format of RV(deeplearning.cluster.cluster#module:price). Null if
    O(prices) is false.
  returned: always
  type: dict
nodes:
  description: Running nodes, sorted by number.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name in the inventory.
      type: str
      sample: bert-worker2
    hostname:
      description: Host name of the node, which equals its name in the inventory.
      type: str
      sample: bert-worker2
    group:
      description: C(master) or C(workers).
      type: str
      sample: workers
    number:
      description: Number of the node. The master is number 1.
      type: int
      sample: 2
    instance_id:
      description: ID of the instance.
      type: str
      sample: i-0123456789abcdef0
    instance_type:
      description: Type of the instance.
      type: str
      sample: p4d.24xlarge
    zone:
      description: Availability Zone.
      type: str
      sample: us-east-1a
    launched_at:
      description: When EC2 launched the instance, in seconds since 1970.
      type: float
      sample: 1795910400
    market:
      description: How the instance is paid for, V(on-demand), V(spot) or V(capacity-block).
      type: str
      sample: on-demand
    volumes:
      description:
        - With O(node_service=emr), the volumes of the node. Each is a list of its type, its size in GiB, its IOPS and its throughput in
          MiB/s, the latter two as far as AWS tells them. Otherwise, or without the permission C(ec2:DescribeVolumes), null.
      type: list
      elements: list
      sample: [["gp3", 15, 3000, 125], ["gp2", 32, 100, null]]
    private_ip:
      description: Private address in the VPC.
      type: str
      sample: 10.0.0.4
    public_ip:
      description: Public address. Only a master can have a public address.
      type: str
      sample: 203.0.113.4
    file_system_id:
      description: EFS file system that the node mounts, if any.
      type: str
      sample: fs-0123456789abcdef0
    file_system_address:
      description: Mount target address, if the node cannot resolve the file system's DNS name.
      type: str
      sample: 10.1.0.12
    file_system_tls:
      description:
        - Whether the node mounts the file system with TLS. With V(preferred), the node uses TLS if the EFS client is installed.
        - The value is null if the node has no tag for this setting. In that case, the definition applies.
      type: str
      sample: preferred
    file_system_access_point:
      description: Access point through which the node mounts the file system, unless it mounts the whole file system.
      type: str
      sample: fsap-0123456789abcdef0
    lustre_file_system_id:
      description: Lustre file system that the node mounts, if any.
      type: str
      sample: fs-0123456789abcdef1
    lustre_source:
      description: Source of the Lustre mount.
      type: str
      sample: fs-0123456789abcdef1.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh
    mounts:
      description:
        - The node's mounts, as described by its tags. Each entry consists of arguments for M(deeplearning.cluster.shared_storage),
          such as C(kind).
      type: list
      elements: dict
      sample: [{"kind": "efs", "source": "fs-0123456789abcdef0", "encrypt_in_transit": null}]
    efa:
      description: Whether the node has Elastic Fabric Adapters.
      type: bool
    efa_devices:
      description: Number of Elastic Fabric Adapters of the node.
      type: int
"""

from ..module_utils._aws.client import SDK_ERRORS, AnsibleAWSModule, AwsClient, ClusterError
from ..module_utils._aws.component import Request
from ..module_utils._aws.emr.nodes import status as emr_status
from ..module_utils._aws.error_messages import fail
from ..module_utils._aws.idle.component import describe as describe_idle
from ..module_utils._aws.lease.component import describe as describe_lease
from ..module_utils._aws.node_group.inventory import nodes
from ..module_utils._aws.node_group.membership_tags import MembershipError
from ..module_utils._aws.node_services import ARGUMENT, AUTO_SCALING, NODE_SERVICES, charges_of
from ..module_utils._aws.plan.resources import printable
from ..module_utils._aws.pricing.charges import of_nodes
from ..module_utils._aws.provision.components import billed_name
from ..module_utils._aws.provision.price import price_of
from ..module_utils._aws.provision.read import read_all
from ..module_utils._aws.provision.removed_ends import incomplete_ends
from ..module_utils._aws.tags import IDLE_COMPONENT, LEASE_COMPONENT


def main() -> None:
    module = AnsibleAWSModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "node_service": ARGUMENT,
            "prices": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    service = NODE_SERVICES[module.params["node_service"]]
    try:
        cloud = AwsClient(module, module.params["cluster"])
        request = Request(cloud, {})
        found = read_all(request)
        incomplete = incomplete_ends(request, found)
        resources = [
            {
                "kind": item.address.kind,
                "key": item.address.key,
                "id": item.id,
                "billed": billed_name(item.address),
                "properties": printable(item.properties),
            }
            for item in sorted(found, key=lambda item: item.address)
        ]
        live = [node.as_dict() for node in nodes(cloud.cluster, service.instances(cloud), service)]
        # The charges for groups of Auto Scaling are among those for resources
        charges = charges_of(service, live) if service is not AUTO_SCALING else []
        price = price_of(cloud, found, charges).describe() if module.params["prices"] else None
        emr = emr_status(cloud) if module.params["node_service"] == "emr" else None
    except (ClusterError, *SDK_ERRORS, MembershipError) as error:
        fail(module, error)
    module.exit_json(
        changed=False,
        resources=resources,
        nodes=live,
        price=price and of_nodes(price, [node["group"] for node in live]),
        lease=None if LEASE_COMPONENT in incomplete else describe_lease(request, found),
        idle=None if IDLE_COMPONENT in incomplete else describe_idle(request, found),
        incomplete_ends=incomplete,
        unread_ends=sorted(request.unread),
        emr=emr,
    )


if __name__ == "__main__":
    main()
