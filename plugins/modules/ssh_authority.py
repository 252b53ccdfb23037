#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_authority
version_added: 0.1.0
short_description: Manages the SSH certificate authority of a training cluster
description:
  - Stores one ed25519 key pair per cluster as an encrypted parameter (SecureString) in SSM Parameter Store. All operators of the
    cluster sign with the same key, and controllers do not have to store this key.
  - The key pair is created once. O(rotate=true) replaces it. For a cluster that is in use, run the playbook
    C(deeplearning.cluster.rotate_authority), which also replaces all certificates.
  - The public key is also published in a parameter of its own, C(/deeplearning/CLUSTER/ssh-authority-public-key). Operators who may read
    only this parameter can verify the nodes. If others have changed this parameter, the module corrects it.
  - By default, the AWS managed key for SSM encrypts the parameter, and every role with C(ssm:GetParameter) can read the key pair.
    With a customer managed key, a role also needs C(kms:Decrypt).
  - The result contains the private key, so set C(no_log) on the task.
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  state:
    description:
      - V(present) creates the key pair if it does not exist. V(absent) deletes it.
      - V(absent) keeps the key pair and shows a warning while nodes with this cluster name run, whichever service launched them.
      - V(absent) also schedules the deletion of a KMS key that O(create_kms_key) created. You can cancel the deletion within 7 days.
    type: str
    choices: [present, absent]
    default: present
  node_service:
    description:
      - The service that launches the nodes of the cluster. An EC2 cluster and an EMR cluster with the same name use the same key pair.
      - With O(state=absent), check mode predicts the deletion as if the nodes of this service were already terminated.
    type: str
    choices: [auto_scaling, emr]
    default: auto_scaling
  kms_key_id:
    description:
      - ID, ARN or alias of the KMS key that encrypts the parameter. The default is the AWS managed key for SSM.
      - If a different KMS key encrypts an existing parameter, the module encrypts the parameter again. Earlier versions in the parameter's
        history stay encrypted with the earlier key.
    type: str
  rotate:
    description:
      - Whether to replace the key pair with a new one in each run. Until the role P(deeplearning.cluster.ssh_trust#role) configures the
        hosts, they still trust certificates that were signed with the old key.
      - The KMS key of the old key pair also encrypts the new one, unless you specify a different KMS key with O(kms_key_id) or
        O(create_kms_key).
    type: bool
    default: false
  purge_previous:
    description:
      - After O(rotate=true), the public key from before the rotation stays published in addition to the new public key, because nodes still
        have certificates of the previous authority. With V(true), the module removes the previous public key. Use V(true) when all nodes
        have new certificates.
    type: bool
    default: false
  create_kms_key:
    description:
      - Whether to create a KMS key for this parameter only, with the alias C(alias/deeplearning/CLUSTER/ssh-authority).
        The key policy allows encryption and decryption of this parameter only, and allows the creator to administer the key.
        AWS charges a monthly fee for such a key.
      - With V(false), the module does not change a parameter that is encrypted with such a key, and shows a warning. To return to the AWS
        managed key for SSM, set O(kms_key_id=alias/aws/ssm). The created key is kept until you run the module with O(state=absent).
      - Mutually exclusive with O(kms_key_id).
    type: bool
    default: false
attributes:
  check_mode:
    description: Predicts whether the key pair would be created, replaced, encrypted again or deleted.
    support: full
  diff_mode:
    description: The module shows no differences, because a diff of key pairs would not be meaningful.
    support: none
  idempotent:
    description: A second run changes nothing, except with O(rotate=true).
    support: full
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Get the certificate authority of the cluster
  deeplearning.cluster.ssh_authority:
    cluster: bert
    region: us-east-1
  register: authority
  no_log: true
"""

RETURN = r"""
public_key:
  description: The public key in OpenSSH's format. In check mode, it is C((known after apply)) if the run would create a key pair.
  returned: when O(state=present)
  type: str
  sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI... bert
private_key:
  description: The private key in OpenSSH's format.
  returned: when O(state=present), unless RV(public_key) is C((known after apply))
  type: str
"""


from ..module_utils._aws.client import SDK_ERRORS, AnsibleAWSModule, AwsClient, ClusterError
from ..module_utils._aws.error_messages import fail
from ..module_utils._aws.node_services import ARGUMENT
from ..module_utils._aws.ssh_authority.authority import ensure_absent, ensure_present


def main() -> None:
    module = AnsibleAWSModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "node_service": ARGUMENT,
            "kms_key_id": {"type": "str"},
            "rotate": {"type": "bool", "default": False},
            "purge_previous": {"type": "bool", "default": False},
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
