#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster
version_added: 0.1.0
short_description: Manages the network, file systems, instance role and nodes of a training cluster in a single plan
description:
  - Creates, changes or deletes the AWS resources of a training cluster in a single plan. Changes that do not depend on each other are
    made concurrently.
  - With O(components), manages only a part of the cluster.
options:
  components:
    description:
      - The components that the run creates, changes or deletes. Set the options of these components to the same values as for the whole
        cluster. The run ignores options that concern only other components.
      - V(file_system) is the EFS file system, and V(lustre) the FSx for Lustre file system. V(network) must exist before both, and
        before V(master) and V(workers). These also need V(instance_role).
      - A run manages O(lease) and O(idle_after) only with both V(master) and V(workers).
    type: list
    elements: str
    choices: [network, file_system, lustre, instance_role, master, workers]
    default: [network, file_system, lustre, instance_role, master, workers]
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
  - deeplearning.cluster.provisioning
  - deeplearning.cluster.provisioning.cluster
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Create a cluster of one master and three workers
  deeplearning.cluster.cluster:
    cluster: bert
    region: us-east-1
    instance_type: p4d.24xlarge
    worker_count: 3
    image_parameter: /aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04/latest/ami-id
    key_name: my-key
    ssh_cidrs: [203.0.113.0/24]

- name: Create only the network of a cluster
  deeplearning.cluster.cluster:
    cluster: bert
    region: us-east-1
    components: [network]
    zones: [us-east-1a, us-east-1b]
    nat: per_zone

- name: Delete the workers, and nothing else
  deeplearning.cluster.cluster:
    cluster: bert
    region: us-east-1
    components: [workers]
    state: absent

- name: Delete the cluster and keep the data
  deeplearning.cluster.cluster:
    cluster: bert
    region: us-east-1
    state: absent
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
      description: C(in_place), or C(replace) for an update that replaces nodes.
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
  description: What the cluster costs by the hour after the run or, in check mode, would cost. Null if O(prices) is false.
  returned: success
  type: dict
  contains:
    hourly:
      description: Sum of all known prices, per hour. Null if no price is known.
      type: float
      sample: 98.32
    currency:
      description: Currency of all prices, C(USD), C(CNY) or C(EUR).
      type: str
      sample: USD
    charges:
      description: What AWS charges for, without data, requests, traffic, taxes and discounts.
      type: list
      elements: dict
      contains:
        kind:
          description: Kind of the resource.
          type: str
          sample: auto_scaling_group
        key:
          description: Key of the resource.
          type: str
          sample: workers
        product:
          description: What is charged for, such as C(instance), C(spot_instance), C(volume) or C(nat_gateway).
          type: str
          sample: instance
        variant:
          description: Instance type, volume type, or type and throughput of a file system. Spot Instances have zones after the type.
          type: str
          sample: p4d.24xlarge
        quantity:
          description: Number of units, such as instances or GB.
          type: float
          sample: 3
        hourly:
          description: Price of all units per hour, or null if it is not known.
          type: float
          sample: 65.87
        foreign:
          description: Whether this is a published price of another region, because AWS has told none of the cluster's region.
          type: bool
    data:
      description: Prices of data in file systems that grow.
      type: list
      elements: dict
      contains:
        kind:
          description: Kind of the file system.
          type: str
          sample: file_system
        key:
          description: Key of the file system.
          type: str
          sample: main
        monthly:
          description: Price per GB and month, or null if it is not known.
          type: float
          sample: 0.3
    read_at:
      description: When the oldest of these prices was read from AWS, in seconds since 1970. Null if AWS has told none of them.
      type: float
    published:
      description: Date of published prices, if any of these prices could not be read from AWS. Otherwise, an empty string.
      type: str
      sample: "2026-07-20"
    endpoint:
      description: The endpoint that O(endpoint_url) or E(AWS_ENDPOINT_URL) sets. Its prices may differ from those of AWS. Empty without it.
      type: str
    problem:
      description: Why AWS did not tell prices, or no newer ones, or an empty string.
      type: str
lease:
  description: The lease of the nodes after the run, in the format of RV(deeplearning.cluster.lease#module:lease). Null without a lease.
  returned: success
  type: dict
idle:
  description: What AWS does with idle nodes. Null if it does not look for idle nodes.
  returned: success
  type: dict
  contains:
    seconds:
      description: Number of seconds for which all nodes must be idle.
      type: int
      sample: 1800
    then:
      description: What AWS does, V(terminate) or V(notify).
      type: str
    since:
      description: Since when AWS has found the nodes idle. Null as long as it has not.
      type: str
      sample: "2026-12-01T18:00:00Z"
    warned:
      description: When AWS warned people that it terminates the nodes, about 10 minutes before. Null if it has not.
      type: str
      sample: "2026-12-01T18:20:00Z"
    function:
      description: The function that looks for idle nodes.
      type: str
      sample: bert-nodes-idle
    concurrency:
      description: The reserved concurrency of the function, with which AWS does not call it if this is 0. Null if none is reserved.
      type: int
    region:
      description: The region of the cluster.
      type: str
      sample: us-east-1
    failure:
      description:
        - When and why AWS could not send its last message to O(notify_topic). Null if it could. Everyone with permission to tag the
          function can change this.
      type: dict
      contains:
        time:
          description: When AWS tried to send the message.
          type: str
          sample: "2026-12-01T18:20:00Z"
        error:
          description: The code of the error.
          type: str
          sample: AuthorizationError
    holds:
      description: Until when M(deeplearning.cluster.idle_hold) keeps the nodes, by the name of the hold.
      type: dict
    verdict:
      description:
        - What AWS found when it last looked at the nodes. Null if this run has changed the function, or if
          the tag with it is missing or not valid.
        - Everyone with permission to tag the function that looks for idle nodes can change this.
      type: dict
      contains:
        state:
          description:
            - V(idle) if all nodes are idle, V(in_use) if a node is in use, V(unconfigured) if the console of a node shows no report,
              V(unreported) if a node no longer reports, V(silent) if that has lasted for an hour, or V(no_nodes), also until it first
              looks.
          type: str
          sample: in_use
        node:
          description: The node because of which this is the state. Empty if it is because of all nodes.
          type: str
          sample: bert-worker3
        instance_id:
          description: ID of this node, or empty.
          type: str
          sample: i-0123456789abcdef0
        since:
          description: Since when this has been the state, as far as AWS has seen.
          type: str
          sample: "2026-12-01T12:05:00Z"
        written:
          description: When AWS wrote this. It does so when it finds something else, and at least once an hour.
          type: str
          sample: "2026-12-01T14:10:00Z"
        age:
          description: Number of seconds since then. If they are more than an hour, AWS no longer looks.
          type: float
          sample: 600
nodes_ended:
  description:
    - True if the run failed because AWS has terminated the nodes at the end of their lease, or because they were idle. RV(price) then
      is what the rest of the cluster costs.
  returned: failure
  type: bool
price_exceeded:
  description: What the cluster would cost after the run, if the run failed because of O(enforce_price_warning).
  returned: failure
  type: str
  sample: cluster bert costs 600.00 USD per day at prices of 2026-11-29, more than the 500.00 that the definition expects
removed_ends:
  description:
    - What the run removes of that which ends the nodes or, in check mode, would remove. Empty if it removes nothing of it. If
      the run failed because of O(keep_ends), it has removed nothing. If the run failed in the middle of a deletion, what it was deleting no
      longer ends the nodes, and is contained.
  returned: success, after a change has failed, and if O(keep_ends) has stopped the run
  type: dict
  contains:
    lease:
      description: The lease, in the format of RV(lease). Null if the run does not remove a lease.
      type: dict
    idle:
      description: The end of idle nodes, or the notification about them, in the format of RV(idle). Null if the run does not remove it.
      type: dict
    topic:
      description: The topic to which AWS no longer sends messages, or null.
      type: str
    rests:
      description:
        - C(lease) or C(idle_after), or both, if the run removes only what was left of it. Parts of it were missing, so AWS did not end
          the nodes with it.
      type: list
      elements: str
    endless:
      description: Whether the run removes a lease or an end of idle nodes, or what was left of it, and nothing else ends the nodes.
      type: bool
    done:
      description: Whether the run has removed it. Otherwise, the run predicts it, or O(keep_ends) has stopped the run.
      type: bool
deferred:
  description: Changes that are deferred until nodes may be replaced, in the format of RV(changes).
  returned: success
  type: list
  elements: dict
alternative:
  description: Instance type, zone and market of the nodes.
  returned: success
  type: str
  sample: p4d.24xlarge in us-east-1a (on-demand)
degraded:
  description: Worker counts and the reason, if the run accepted fewer workers than requested.
  returned: success
  type: dict
  contains:
    workers:
      description: Number of workers in the cluster.
      type: int
    wanted:
      description: Number of workers that the definition requests.
      type: int
    reason:
      description: Message from AWS about the insufficient capacity.
      type: str
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
leftovers:
  description: Descriptions of the cluster's resources that AWS still lists after the deletion.
  returned: when O(state=absent)
  type: list
  elements: str
"""

from ..module_utils._aws.options.registry import argument_spec
from ..module_utils._aws.provision import provisioning
from ..module_utils._aws.provision.components import ALL_COMPONENTS, CHOICES


def main() -> None:
    components = {"type": "list", "elements": "str", "choices": list(CHOICES), "default": list(CHOICES)}
    provisioning.run({**argument_spec(), "components": components}, ALL_COMPONENTS)


if __name__ == "__main__":
    main()
