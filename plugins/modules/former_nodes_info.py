#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: former_nodes_info
version_added: 0.2.0
short_description: Lists the former instances and the running instances of a cluster
description:
  - Reads the scaling activities of a cluster's Auto Scaling groups, and lists the instances that the groups terminated or detached. Also
    lists instances that the groups launched and that are no longer running. The certificates of all these instances can then be revoked.
  - If an Auto Scaling group did not terminate an instance itself, for example after a Spot interruption, the activities may contain only
    the launch of that instance. AWS keeps scaling activities for six weeks.
  - With O(node_service=emr), lists the instances that EMR has terminated. EMR lists them for 30 days.
options:
  days:
    description: Number of days to look back. To find all instances with valid certificates, specify the certificates' validity in days.
    type: int
    required: true
  instance_ids:
    description: IDs of the instances that are in the cluster now. These instances are never listed.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
  - deeplearning.cluster.aws_info
  - deeplearning.cluster.aws_info.nodes
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: List the instances that left the cluster in the last ten days
  deeplearning.cluster.former_nodes_info:
    cluster: bert
    region: us-east-1
    days: 10
  register: former
"""

RETURN = r"""
instance_ids:
  description: IDs of the instances, sorted.
  returned: success
  type: list
  elements: str
  sample: [i-0123456789abcdef0]
running_instance_ids:
  description: IDs of the nodes that are running now, sorted.
  returned: success
  type: list
  elements: str
  sample: [i-0123456789abcdef1]
running_groups:
  description: For each of these nodes, V(master) or V(workers).
  returned: success
  type: list
  elements: str
  sample: [master]
nodes:
  description: The instances by Auto Scaling group, in the order in which they left the group.
  returned: success
  type: list
  elements: dict
  contains:
    instance_id:
      description: ID of the instance.
      type: str
    cause:
      description: Reason that AWS gives for the termination or detachment. The value is empty if the Auto Scaling group neither terminated
        nor detached the instance.
      type: str
      sample: At 2026-11-22T06:16:42Z an instance was taken out of service in response to an EC2 health check.
    replacement:
      description: ID of a running instance that the Auto Scaling group launched later as a replacement. The value is empty if there is no
        replacement yet.
      type: str
    launched_at:
      description: When the instance was launched, in seconds since 1970, or null if AWS no longer tells this time.
      type: float
      sample: 1795910400
    left_at:
      description: When the instance left the cluster, in seconds since 1970, or null if AWS has not recorded this yet.
      type: float
      sample: 1795914000
"""

from datetime import datetime, timedelta, timezone

from ..module_utils._aws.client import SDK_ERRORS, AnsibleAWSModule, AwsClient, ClusterError
from ..module_utils._aws.error_messages import fail
from ..module_utils._aws.node_services import ARGUMENT, NODE_SERVICES


def main() -> None:
    module = AnsibleAWSModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "days": {"type": "int", "required": True},
            "instance_ids": {"type": "list", "elements": "str", "default": []},
            "node_service": ARGUMENT,
        },
        supports_check_mode=True,
    )
    # The extra day allows for slow terminations, because certificates are signed until a termination begins
    since = datetime.now(timezone.utc) - timedelta(days=module.params["days"] + 1)
    try:
        cloud = AwsClient(module, module.params["cluster"])
        service = NODE_SERVICES[module.params["node_service"]]
        nodes = service.former(cloud, since, module.params["instance_ids"])
        groups = {each["InstanceId"]: service.group_of(cloud.cluster, each) for each in service.instances(cloud)}
    except (ClusterError, *SDK_ERRORS) as error:
        fail(module, error)
    left = sorted({node["instance_id"] for node in nodes})
    running = sorted(instance for instance, group in groups.items() if group)
    module.exit_json(
        changed=False,
        instance_ids=left,
        running_instance_ids=running,
        running_groups=[groups[instance] for instance in running],
        nodes=nodes,
    )


if __name__ == "__main__":
    main()
