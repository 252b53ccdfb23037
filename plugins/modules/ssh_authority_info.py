#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_authority_info
version_added: 0.1.0
short_description: Reads the public keys of a training cluster's SSH certificate authority
description:
  - Reads the public keys that M(deeplearning.cluster.ssh_authority) publishes. This needs only the permission C(ssm:GetParameter) for the
    parameter C(/deeplearning/CLUSTER/ssh-authority-public-key). The module does not read the private key.
  - The role P(deeplearning.cluster.ssh_trust#role) creates the authority when it configures nodes for the first time. Jobs run only
    on configured nodes.
options:
  cluster:
    description: Name of the cluster.
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
  description:
    - Whether the cluster has a certificate authority. If no public key is published, this value needs the permission
      C(ssm:ListTagsForResource) for the parameter with the private key.
  returned: if a public key is published or the credentials have this permission
  type: bool
  sample: true
parameter:
  description: Name of the parameter with the public keys.
  returned: always
  type: str
  sample: /deeplearning/bert/ssh-authority-public-key
public_keys:
  description:
    - The published public keys in OpenSSH's format. The first key is the current one. During a rotation, a second key is that of the
      previous authority.
  returned: always
  type: list
  elements: str
  sample: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI... bert"]
"""

from typing import Any

from ..module_utils._aws.client import SDK_ERRORS, AnsibleAWSModule, AwsClient, ClusterError
from ..module_utils._aws.error_codes import DENIED, error_code
from ..module_utils._aws.error_messages import fail
from ..module_utils._aws.ssh_authority import published_key
from ..module_utils._aws.ssh_authority.existing import exists
from ..module_utils._aws.ssh_authority.parameter import public_parameter_name


def main() -> None:
    module = AnsibleAWSModule(argument_spec={"cluster": {"type": "str", "required": True}}, supports_check_mode=True)
    result: dict[str, Any] = {"parameter": public_parameter_name(module.params["cluster"])}
    try:
        cloud = AwsClient(module, module.params["cluster"])
        result["public_keys"] = published_key.read(cloud)
        result["exists"] = bool(result["public_keys"]) or exists(cloud)
    except (ClusterError, *SDK_ERRORS) as error:
        if "public_keys" not in result or error_code(error) not in DENIED:
            fail(module, error, **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
