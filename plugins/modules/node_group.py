#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: node_group
version_added: 0.1.0
short_description: Manages the master or the workers of a training cluster
description:
  - Manages a launch template (IMDSv2, encrypted root volume, file system mounted at boot) and an Auto Scaling group that uses it.
  - Every node has a number that does not change while its instance exists. The master has number 1, and the workers are numbered from 2.
    If you reduce the number of workers, the workers with the highest numbers are terminated.
  - The cluster's network and instance role must exist. The module finds them by their tags.
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
  - deeplearning.cluster.provisioning
  - deeplearning.cluster.provisioning.node_group
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Create four workers
  deeplearning.cluster.node_group:
    cluster: bert
    region: us-east-1
    group: workers
    instance_type: p4d.24xlarge
    worker_count: 4
    image_id: ami-0123456789abcdef0
    key_name: my-key
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
"""

from ..module_utils._aws.node_group.component import NODE_GROUP
from ..module_utils._aws.options.registry import argument_spec
from ..module_utils._aws.provision import provisioning


def main() -> None:
    provisioning.run(argument_spec("node_group"), [NODE_GROUP])


if __name__ == "__main__":
    main()
