#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: emr_cluster
version_added: 0.1.0
short_description: Manages an Amazon EMR cluster with uniform instance groups
description:
  - Creates, resizes, replaces or terminates an EMR cluster with a master, core nodes and task nodes, and adds steps to it.
  - The parameter C(/deeplearning/CLUSTER/emr-cluster) in SSM Parameter Store records the ID of the EMR cluster. The module does
    not change other EMR clusters with the same name and tags.
  - All nodes are On-Demand Instances. A run waits until all nodes are ready. The timeout for this wait is always at least 1800 seconds,
    or 5400 seconds while the number of nodes in a group decreases.
  - The module refers to other resources by their IDs or names and never changes them. EMR itself adds rules to the security groups that
    it manages for the nodes.
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
  - deeplearning.cluster.provisioning
  - deeplearning.cluster.provisioning.emr
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Create an EMR cluster of one master and three core nodes on a custom image
  deeplearning.cluster.emr_cluster:
    cluster: bert
    region: us-east-1
    emr_release_label: emr-7.9.0
    emr_image_id: ami-0123456789abcdef0
    emr_instance_type: g5.2xlarge
    emr_core_count: 3
    emr_key_name: my-key
    emr_log_uri: s3://my-logs/emr/
    emr_bootstrap_actions:
      - path: s3://my-scripts/mount_efs.sh
        args: [fs-0123456789abcdef0, us-east-1]

- name: Add two task nodes and a step
  deeplearning.cluster.emr_cluster:
    cluster: bert
    region: us-east-1
    emr_release_label: emr-7.9.0
    emr_image_id: ami-0123456789abcdef0
    emr_instance_type: g5.2xlarge
    emr_core_count: 3
    emr_task_count: 2
    emr_key_name: my-key
    emr_log_uri: s3://my-logs/emr/
    emr_bootstrap_actions:
      - path: s3://my-scripts/mount_efs.sh
        args: [fs-0123456789abcdef0, us-east-1]
    emr_steps:
      - name: prepare
        args: [spark-submit, s3://my-scripts/prepare.py]

- name: Terminate the cluster
  deeplearning.cluster.emr_cluster:
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
      sample: emr_cluster
    key:
      description: Key of the resource, which is unique among resources of the same kind.
      type: str
      sample: main
    action:
      description: C(create), C(update) or C(delete).
      type: str
      sample: create
    policy:
      description: C(in_place), or C(replace) for an update that replaces the EMR cluster.
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
  sample: {"emr_cluster": {"main": "j-3KVTXXXXXX7UG"}}
"""

from ..module_utils._aws.emr.component import EMR
from ..module_utils._aws.emr.validators import VALIDATORS
from ..module_utils._aws.options.registry import argument_spec
from ..module_utils._aws.provision import provisioning
from ..module_utils._aws.tags import EMR_COMPONENT


def main() -> None:
    provisioning.run(argument_spec(EMR_COMPONENT), [EMR], validators=VALIDATORS)


if __name__ == "__main__":
    main()
