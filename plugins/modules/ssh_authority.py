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
  - The key is created once and never changed. Once it is deleted, the next run that has something to
    sign replaces it, and with it all certificates.
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
    type: str
    choices: [present, absent]
    default: present
  kms_key_id:
    description:
      - KMS key that encrypts the parameter, by default the account's key for SSM.
    type: str
attributes:
  check_mode:
    description: Predicts whether the key pair would be created or deleted.
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

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws import (
    CLUSTER_TAG,
    COMPONENT_TAG,
    AnsibleAWSModule,
    Cloud,
    CloudError,
    error_code,
    fail,
    is_missing,
    tag_list,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._plan.resources import KNOWN_AFTER_APPLY
from ansible_collections.deeplearning.cluster.plugins.module_utils.calls import Calls

try:
    from botocore.exceptions import BotoCoreError, ClientError
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
except ImportError:
    pass  # AnsibleAWSModule reports boto3; cryptography comes with ansible-core

CALLS = Calls(reads=("ssm:GetParameter",), present=("ssm:PutParameter",), absent=("ssm:DeleteParameter",))


def parameter_name(cluster: str) -> str:
    return f"/deeplearning/{cluster}/ssh-authority"


def generate() -> str:
    """A new private key in OpenSSH's format."""
    encoding, private_format = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    return Ed25519PrivateKey.generate().private_bytes(encoding, private_format, serialization.NoEncryption()).decode()


def public_key(private_key: str, comment: str) -> str:
    """The public half as one OpenSSH line."""
    key = serialization.load_ssh_private_key(private_key.encode(), password=None).public_key()
    line = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    return f"{line} {comment}"


def read(cloud: Cloud) -> str | None:
    try:
        return str(cloud.ssm.get_parameter(Name=parameter_name(cloud.cluster), WithDecryption=True)["Parameter"]["Value"])
    except ClientError as error:
        if is_missing(error):
            return None
        raise


def create(cloud: Cloud, kms_key_id: str | None) -> str:
    """Stores a new private key and returns it, or the one that somebody else stored in the same moment."""
    private_key = generate()
    try:
        cloud.ssm.put_parameter(
            Name=parameter_name(cloud.cluster),
            Description=f"SSH certificate authority of the training cluster {cloud.cluster}",
            Type="SecureString",
            Value=private_key,
            Tags=tag_list({CLUSTER_TAG: cloud.cluster, COMPONENT_TAG: "ssh_trust"}),
            **({"KeyId": kms_key_id} if kms_key_id else {}),
        )
    except ClientError as error:
        if error_code(error) != "ParameterAlreadyExists":
            raise
        existing = read(cloud)
        if not existing:
            raise
        return existing
    return private_key


def main() -> None:
    module = AnsibleAWSModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "kms_key_id": {"type": "str"},
        },
        supports_check_mode=True,
    )
    try:
        cloud = Cloud(module, module.params["cluster"])
        private_key = read(cloud)
        if module.params["state"] == "absent":
            if private_key and not module.check_mode:
                cloud.ssm.delete_parameter(Name=parameter_name(cloud.cluster))
            module.exit_json(changed=private_key is not None)
        changed = private_key is None
        if changed and module.check_mode:
            module.exit_json(changed=True, public_key=KNOWN_AFTER_APPLY)
        private_key = private_key or create(cloud, module.params["kms_key_id"])
    except (CloudError, BotoCoreError, ClientError) as error:
        fail(module, error)
    module.exit_json(changed=changed, public_key=public_key(private_key, cloud.cluster), private_key=private_key)


if __name__ == "__main__":
    main()
