#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_authority_info
version_added: 0.1.0
short_description: Checks whether a training cluster has an SSH certificate authority
description:
  - Checks whether M(deeplearning.cluster.ssh_authority) has created the cluster's certificate authority. The module does not read the
    private key.
  - The role P(deeplearning.cluster.ssh_trust#role) creates the authority when it configures nodes for the first time. Jobs run only
    on configured nodes.
options:
  cluster:
    description:
      - Name of the cluster.
    type: str
    required: true
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
  - deeplearning.cluster.aws_info
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Check whether the cluster has a certificate authority
  deeplearning.cluster.ssh_authority_info:
    cluster: bert
    region: us-east-1
  register: authority
"""

RETURN = r"""
exists:
  description: Whether the cluster has a certificate authority.
  returned: always
  type: bool
  sample: true
"""

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import (
    SDK_ERRORS,
    AnsibleAWSModule,
    AwsClient,
    ClusterError,
    fail,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.ssh_authority.existing import exists


def main() -> None:
    module = AnsibleAWSModule(argument_spec={"cluster": {"type": "str", "required": True}}, supports_check_mode=True)
    try:
        found = exists(AwsClient(module, module.params["cluster"]))
    except (ClusterError, *SDK_ERRORS) as error:
        fail(module, error)
    module.exit_json(changed=False, exists=found)


if __name__ == "__main__":
    main()
