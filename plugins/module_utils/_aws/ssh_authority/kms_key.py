# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The KMS key of the cluster's SSH certificate authority, if it is not the AWS managed key for SSM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..client import AwsClient, BotoCoreError, ClientError, ClusterError, if_exists
from ..error_codes import error_code, outcome_is_unknown
from ..regions import partition_of
from .parameter import parameter_name

# Number of days during which the deletion of a key can be cancelled. This is the minimum that KMS allows. A longer period is not
# needed, because the encrypted parameter is already deleted.
WAITING_PERIOD = 7
# Alias of the AWS managed key for SSM.
SERVICE_KEY = "alias/aws/ssm"
ADMINISTRATION = [
    "kms:CancelKeyDeletion",
    "kms:CreateAlias",
    "kms:DeleteAlias",
    "kms:DescribeKey",
    "kms:DisableKey",
    "kms:DisableKeyRotation",
    "kms:EnableKey",
    "kms:EnableKeyRotation",
    "kms:GetKeyPolicy",
    "kms:GetKeyRotationStatus",
    "kms:ListKeyPolicies",
    "kms:PutKeyPolicy",
    "kms:ScheduleKeyDeletion",
    "kms:UpdateAlias",
    "kms:UpdateKeyDescription",
]
USE = ["kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"]


def alias(cluster: str) -> str:
    return f"alias/deeplearning/{cluster}/ssh-authority"


def description(cluster: str) -> str:
    """Return the description by which a run recognizes the KMS key that the collection created for this cluster."""
    return f"SSH certificate authority of the training cluster {cluster}"


def principals(caller: str) -> list[str]:
    """Return patterns that match `aws:PrincipalArn` for all sessions of a caller. Performs no I/O.

    `caller` is the ARN from STS. The session ARN of an assumed role does not contain the path of the role, so one pattern matches any
    path. Role names are unique within an account.
    """
    head, _separator, resource = caller.rpartition(":")
    kind, _separator, rest = resource.partition("/")
    if kind != "assumed-role":
        return [caller]
    role = rest.partition("/")[0]
    roles = f"{head.replace(':sts:', ':iam:')}:role"
    return [f"{roles}/{role}", f"{roles}/*/{role}"]


def policy(cluster: str, region: str, caller: str) -> dict[str, Any]:
    """Return the policy of a key that the caller creates. Performs no I/O.

    The creator can administer the key without an IAM policy, so the creator's IAM policies need not allow changes to other keys. The
    account's IAM policies determine who else can administer the key and who can use it. The key can encrypt and decrypt only the parameter
    of the SSH certificate authority.
    """
    partition, account = partition_of(region), caller.split(":")[4]
    everybody = {"AWS": partition.arn("iam", "root", account=account)}
    parameter = partition.arn("ssm", f"parameter{parameter_name(cluster)}", region, account)
    only = {"kms:ViaService": partition.via("ssm", region), "kms:EncryptionContext:PARAMETER_ARN": parameter}
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "Creator",
                "Effect": "Allow",
                "Principal": {"AWS": "*"},
                "Action": ADMINISTRATION,
                "Resource": "*",
                "Condition": {"ArnLike": {"aws:PrincipalArn": principals(caller)}},
            },
            {"Sid": "Administration", "Effect": "Allow", "Principal": everybody, "Action": ADMINISTRATION, "Resource": "*"},
            {
                "Sid": "Authority",
                "Effect": "Allow",
                "Principal": everybody,
                "Action": USE,
                "Resource": "*",
                "Condition": {"StringEquals": only},
            },
        ],
    }


def usable(cloud: AwsClient, key_id: str) -> str:
    """Return the ARN of the key with this ID, ARN or alias. Raises ClusterError if the key cannot encrypt the parameter."""
    key = _describe(cloud, key_id)
    if key is None:
        raise ClusterError(f"kms_key_id: there is no key '{key_id}' in {cloud.region}. Specify the ID, ARN or alias (alias/NAME) of a key.")
    if key["KeyState"] != "Enabled" or key.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
        state = key["KeyState"] if key["KeyState"] != "Enabled" else f"a key with the spec {key['KeySpec']}"
        raise ClusterError(f"kms_key_id: {key['Arn']} is {state}. Specify an enabled symmetric key.")
    return str(key["Arn"])


def is_same(cloud: AwsClient, stored: str, arn: str) -> bool:
    """Return whether a parameter is encrypted with the desired key.

    `stored` is the ID, ARN or alias of the parameter's key. `arn` is the ARN of the desired key, or `SERVICE_KEY`.
    """
    if SERVICE_KEY in (stored, arn):
        return stored == arn
    if not stored.startswith(("alias/", "arn:")) or ":key/" in stored:
        return arn.endswith(f"/{stored.rpartition('/')[2]}")
    key = _describe(cloud, stored)
    return key is not None and key["Arn"] == arn


def find(cloud: AwsClient) -> str | None:
    """Return the ARN of the key that the collection created for the cluster, or None if there is no such key.

    Raises ClusterError if this key is not enabled, or if the alias belongs to a key that the collection did not create.
    """
    name = alias(cloud.cluster)
    key = _describe(cloud, name)
    if key is None:
        return None
    if not _is_own(cloud, key):
        wanted = description(cloud.cluster)
        raise ClusterError(
            f"create_kms_key: {name} is the alias of {key['Arn']}, whose description is not '{wanted}'. "
            "Give that key another alias, and delete this alias."
        )
    if key["KeyState"] != "Enabled":
        raise ClusterError(
            f"create_kms_key: {key['Arn']}, the key with the alias {name}, is {key['KeyState']}. "
            "Enable the key, or delete the alias so that the module creates a new key."
        )
    return str(key["Arn"])


def find_own(cloud: AwsClient) -> str | None:
    """Return the ARN of the key that the collection created for the cluster, or None if there is no such key.

    Unlike `find`, return the ARN even if the key is not enabled.
    """
    key = _describe(cloud, alias(cloud.cluster))
    return str(key["Arn"]) if key and _is_own(cloud, key) else None


def _is_own(cloud: AwsClient, key: Mapping[str, Any]) -> bool:
    return bool(key.get("Description") == description(cloud.cluster))


def create(cloud: AwsClient) -> str:
    caller = cloud.client("sts").get_caller_identity()["Arn"]
    try:
        key = cloud.create(
            "kms",
            "create_key",
            Description=description(cloud.cluster),
            KeySpec="SYMMETRIC_DEFAULT",
            KeyUsage="ENCRYPT_DECRYPT",
            Policy=json.dumps(policy(cloud.cluster, cloud.region, caller)),
        )["KeyMetadata"]
    except (BotoCoreError, ClientError) as error:
        if not outcome_is_unknown(error):
            raise
        raise ClusterError(
            f"create_kms_key: the key may have been created despite this error: {error}. If there is a customer managed key with the "
            f'description "{description(cloud.cluster)}" and without an alias, delete it, because it costs money. Then run again.'
        ) from error
    arn, name = str(key["Arn"]), alias(cloud.cluster)
    try:
        # A new key and its policy are not immediately visible everywhere in AWS
        create_alias = partial(cloud.client("kms").create_alias, AliasName=name, TargetKeyId=key["KeyId"])
        cloud.once_allowed(partial(cloud.once_visible, create_alias, "NotFoundException"))
    except (BotoCoreError, ClientError) as error:
        # botocore retries the call if the first response is lost
        if error_code(error) == "AlreadyExistsException" and find(cloud) == arn:
            return arn
        raise ClusterError(f"create_kms_key: {arn} was created, but its alias {name} was not: {error}. {_discard(cloud, arn)}") from error
    cloud.created.add(arn)
    return arn


def _discard(cloud: AwsClient, arn: str) -> str:
    """Schedule the deletion of a key without an alias, because no later run would find it.

    Return a message that tells the user whether the deletion was scheduled.
    """
    try:
        _schedule_deletion(cloud, arn)
    except (BotoCoreError, ClientError) as error:
        return f"Delete the key yourself, because it costs money. The module could not schedule its deletion: {error}"
    return f"The key will be deleted in {WAITING_PERIOD} days. Fix the problem, and run the playbook again."


def delete(cloud: AwsClient, arn: str) -> None:
    """Schedule the deletion of the key, and delete its alias, so that a new cluster with the same name can use the alias.

    The alias is deleted last, because the IAM policies allow the deletion of a key only if it has this alias. After an interruption, the
    next run also needs the alias to find the key.
    """
    try:
        _schedule_deletion(cloud, arn)
    except ClientError as error:
        if error_code(error) != "KMSInvalidStateException":  # an earlier run has scheduled the deletion
            raise
    cloud.once_unused(cloud.client("kms").delete_alias, AliasName=alias(cloud.cluster))


def _schedule_deletion(cloud: AwsClient, arn: str) -> None:
    cloud.client("kms").schedule_key_deletion(KeyId=arn.rpartition("/")[2], PendingWindowInDays=WAITING_PERIOD)


def _describe(cloud: AwsClient, key_id: str) -> dict[str, Any] | None:
    answer = if_exists(cloud.client("kms").describe_key, KeyId=key_id)
    return answer["KeyMetadata"] if answer else None
