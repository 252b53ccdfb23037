#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_events_info
version_added: 0.2.0
short_description: Lists what happened to a training cluster, when, why, and by whom
description:
  - Reads the scaling activities of the cluster's Auto Scaling groups, also of deleted ones, which AWS keeps for six weeks, and EC2's
    descriptions of the instances.
  - Looks up in CloudTrail's event history who has changed the Auto Scaling groups, terminated nodes, and created, changed or deleted the
    network, NAT gateways and file systems, and who has set, changed or removed the lease of the nodes or the end of idle nodes. The history
    contains events of 90 days, up to 15 minutes late. AWS allows two look-ups per second and account, and the module makes at least
    fifteen.
  - Events count only if they name a resource of the cluster, which is a node, an Auto Scaling group, a schedule that ends the nodes, or a
    resource that was created with the cluster's tag.
  - Without the permission C(cloudtrail:LookupEvents), the result lacks the events of CloudTrail, and RV(problems) says so.
  - Changes to launch templates, placement groups, addresses, roles, SSM parameters, buckets and EMR clusters are not listed, and neither
    are deletions of resources that were created more than 90 days ago.
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
  - deeplearning.cluster.aws_info
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  since:
    description: How far to look back, in minutes, hours, days or weeks, such as V(12h) or V(2w).
    type: str
    default: 7d
  prices:
    description: Whether to return what each node costs per hour.
    type: bool
    default: true
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: List what happened in the last two days
  deeplearning.cluster.cluster_events_info:
    cluster: bert
    region: us-east-1
    since: 2d
  register: bert
"""

RETURN = r"""
events:
  description: The events, oldest first.
  returned: success
  type: list
  elements: dict
  contains:
    time:
      description: When the event happened, in seconds since 1970.
      type: float
      sample: 1795910400
    source:
      description: Who has recorded the event, V(auto_scaling), V(cloudtrail) or V(ec2).
      type: str
    action:
      description: V(launch), V(failed_launch), V(stop), V(termination), V(detachment), or the name of the API call or event in CloudTrail.
      type: str
      sample: TerminateInstances
    resources:
      description: IDs and names of the cluster's resources that the event names.
      type: list
      elements: str
      sample: [i-0123456789abcdef0]
    group:
      description: C(master) or C(workers), for events of Auto Scaling and EC2.
      type: str
    caller:
      description: ARN of the caller, or the service that has acted. Only events of CloudTrail have a caller.
      type: str
      sample: arn:aws:iam::123456789012:user/alice
    cause:
      description: AWS's explanation.
      type: str
    ended_by:
      description:
        - V(lease) or V(idle) if AWS has deleted the group or terminated the node because of the lease or because the nodes were idle. This
          is recognized by the ARN of the role that has deleted the group, which only AWS services can assume.
        - For the calls C(CreateSchedule), C(UpdateSchedule) and C(DeleteSchedule), what the schedule is for. Otherwise an empty string.
      type: str
    error:
      description: Error code of a call that failed, or an empty string.
      type: str
    until:
      description: When the lease ends that a call has set or changed, in seconds since 1970. Null if CloudTrail does not tell it.
      type: float
    hourly:
      description: By how much the event changes the price per hour. Null for events that neither launch nor end nodes, and if the price is
        not known.
      type: float
nodes:
  description: The nodes that existed at some time since O(since), and earlier nodes that AWS still lists.
  returned: success
  type: list
  elements: dict
  contains:
    instance_id:
      description: ID of the instance.
      type: str
    name:
      description: Name of the node in the inventory. Empty if AWS no longer tells it.
      type: str
      sample: bert-worker2
    group:
      description: C(master) or C(workers).
      type: str
    instance_type:
      description: Type of the instance. Empty if AWS no longer tells the type.
      type: str
    market:
      description: V(on-demand), V(spot) or V(capacity-block). Empty if the type is not known.
      type: str
    zone:
      description: Availability Zone. Empty if the type is not known.
      type: str
    launched_at:
      description: When the node was launched, in seconds since 1970. Null if it is not known.
      type: float
    ended_at:
      description: When the node ended, in seconds since 1970. Null if the node is running, or if AWS does not tell this time.
      type: float
    running:
      description: Whether the node is running now.
      type: bool
    cause:
      description: EC2's reason for the end of the node. Empty if the node is running, or if EC2 no longer tells it.
      type: str
      sample: "Server.InternalError: Internal error on launch"
    hourly:
      description: What the node costs per hour, without its volumes. Null if it is not known.
      type: float
price:
  description: The prices and their source, in the format of RV(deeplearning.cluster.cluster#module:price). Null if O(prices) is false.
  returned: success
  type: dict
problems:
  description:
    - Which events may be missing. With the C(kind) V(denied) or V(unavailable), CloudTrail has told nothing or not everything, and
      C(message) says why. With V(truncated), there were too many events for the look-up in C(message), and before C(time), only those near
      the ends of nodes were read. With V(omitted), the types of the nodes in C(message) are not known, because CloudTrail has shortened the
      events of their launches. With V(foreign_group), the Auto Scaling group in C(message) does not have the cluster's tag, and is ignored.
  returned: success
  type: list
  elements: dict
since:
  description: The beginning of the time of the events, in seconds since 1970.
  returned: success
  type: float
read_at:
  description: When the events were read, in seconds since 1970.
  returned: success
  type: float
"""

from ..module_utils._aws.client import SDK_ERRORS, AnsibleAWSModule, AwsClient, ClusterError
from ..module_utils._aws.cluster_events.read import read
from ..module_utils._aws.error_messages import fail


def main() -> None:
    module = AnsibleAWSModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "since": {"type": "str", "default": "7d"},
            "prices": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        found = read(AwsClient(module, module.params["cluster"]), module.params["since"], module.params["prices"])
    except ValueError as error:
        module.fail_json(msg=str(error))
    except (ClusterError, *SDK_ERRORS) as error:
        fail(module, error)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
