#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_validation
version_added: 0.2.0
short_description: Checks the definition of a training cluster against its AWS account
description:
  - Runs all validators on the definition and the AWS account, and reports all findings together.
  - Accepts the options of M(deeplearning.cluster.cluster), which runs the same validators before it changes anything. This module changes
    nothing.
  - Shows the warnings. If there are errors, fails with one line for each error.
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
- name: Check the definition of a cluster
  deeplearning.cluster.cluster_validation:
    cluster: bert
    region: us-east-1
    instance_type: p4d.24xlarge
    worker_count: 3
    image_parameter: /aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04/latest/ami-id
    key_name: my-key
    ssh_cidrs: [203.0.113.0/24]
    suppress_validators: [quotas_readable]
"""

RETURN = r"""
valid:
  description: Whether the definition has no errors.
  returned: always
  type: bool
price:
  description:
    - What the cluster would cost after a run, in the format of RV(deeplearning.cluster.cluster#module:price).
    - Null if O(prices) is false or O(state=absent).
  returned: success
  type: dict
lease:
  description: The lease of the nodes after a run, in the format of RV(deeplearning.cluster.lease#module:lease). Null without a lease.
  returned: success
  type: dict
idle:
  description:
    - What AWS does with idle nodes after a run, in the format of RV(deeplearning.cluster.cluster#module:idle). Null if it does not look
      for idle nodes.
  returned: success
  type: dict
removed_ends:
  description: What a run would remove of that which ends the nodes, in the format of RV(deeplearning.cluster.cluster#module:removed_ends).
  returned: success
  type: dict
findings:
  description: Findings of the validators, errors first.
  returned: always
  type: list
  elements: dict
  contains:
    validator:
      description: Name of the validator. Add it to O(suppress_validators) to skip this validator.
      type: str
      sample: vcpu_quota
    level:
      description: C(error) or C(warning).
      type: str
      sample: error
    message:
      description: The problem, and what to do about it.
      type: str
"""

from ..module_utils._aws.options.registry import argument_spec
from ..module_utils._aws.provision import provisioning
from ..module_utils._aws.provision.components import ALL_COMPONENTS


def main() -> None:
    provisioning.run(argument_spec(), ALL_COMPONENTS, only_validate=True)


if __name__ == "__main__":
    main()
