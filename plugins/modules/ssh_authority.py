#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_authority
version_added: 0.1.0
short_description: The SSH certificate authority of a training cluster
description:
  - Keeps one ed25519 key pair per cluster as an encrypted parameter (SecureString) in the SSM Parameter Store, so that everyone who
    may operate the cluster signs with the same key and nothing has to be kept on a controller.
  - The key is created once. O(rotate=true) replaces it, and the playbook C(deeplearning.cluster.rotate_authority) does that for a
    cluster that is in use, with all certificates.
  - With the account's own KMS key for SSM, which is the default, everybody whose role may call C(ssm:GetParameter) reads the key.
    A KMS key of your own takes C(kms:Decrypt) as well.
  - The result holds the private key. Use C(no_log).
options:
  cluster:
    description:
      - Name of the cluster.
    type: str
    required: true
  state:
    description:
      - V(present) creates the key pair if there is none, V(absent) deletes it.
      - V(absent) also schedules the deletion of a KMS key that was created by O(create_kms_key), which can be cancelled for 7 days.
    type: str
    choices: [present, absent]
    default: present
  kms_key_id:
    description:
      - Id, ARN or alias of the KMS key that encrypts the parameter, by default the account's key for SSM.
      - A parameter that exists is encrypted again when its key is another one. Earlier versions stay in its history as they are.
    type: str
  rotate:
    description:
      - Replace the key pair by a new one, with each run. Whatever the old one has signed is trusted until the hosts are told otherwise, by
        the role P(deeplearning.cluster.ssh_trust#role).
      - The new key pair is encrypted with the KMS key of the old one, unless O(kms_key_id) or O(create_kms_key) names another one.
    type: bool
    default: false
    version_added: 0.2.0
  create_kms_key:
    description:
      - Whether to create a KMS key for this parameter alone, with the alias C(alias/deeplearning/CLUSTER/ssh-authority).
        Its policy lets nobody encrypt or decrypt anything else with it, and lets whoever creates it administer it.
        AWS charges for such a key by the month.
      - V(false) leaves a parameter that is encrypted with such a key as it is, with a warning. Set O(kms_key_id=alias/aws/ssm) to go back
        to the account's own key for SSM. The key stays until O(state=absent).
      - Mutually exclusive with O(kms_key_id).
    type: bool
    default: false
attributes:
  check_mode:
    description: Predicts whether the key pair would be created, encrypted again or deleted.
    support: full
  diff_mode:
    description: A key pair has nothing to compare.
    support: none
  idempotent:
    description: A second run changes nothing.
    support: full
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Get the authority that signs the cluster's certificates
  deeplearning.cluster.ssh_authority:
    cluster: bert
    region: us-east-1
  register: authority
  no_log: true
"""

RETURN = r"""
public_key:
  description: The public key as an OpenSSH line, or C((known after apply)) in check mode when there is none yet.
  returned: when O(state=present)
  type: str
  sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI... bert
private_key:
  description: The private key in OpenSSH's format.
  returned: when O(state=present) and the key pair exists
  type: str
"""


from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import (
    SDK_ERRORS,
    AnsibleAWSModule,
    AwsClient,
    ClusterError,
    fail,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.ssh_authority.authority import ensure_absent, ensure_present


def main() -> None:
    module = AnsibleAWSModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "kms_key_id": {"type": "str"},
            "rotate": {"type": "bool", "default": False},
            "create_kms_key": {"type": "bool", "default": False, "no_log": False},
        },
        mutually_exclusive=[("kms_key_id", "create_kms_key")],
        supports_check_mode=True,
    )
    try:
        cloud = AwsClient(module, module.params["cluster"])
        ensure = ensure_present if module.params["state"] == "present" else ensure_absent
        ensure(module, cloud)
    except (ClusterError, *SDK_ERRORS) as error:
        fail(module, error)


if __name__ == "__main__":
    main()
