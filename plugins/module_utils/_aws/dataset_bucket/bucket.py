# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads, creates and changes the bucket for data sets. The bucket is private and encrypted, requires TLS, and is never deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, Mapping

from ..client import CLUSTER_TAG, AwsClient, ClientError, ClusterError, tag_dict, tag_list
from ..error_codes import error_code
from ..plan.planning import Kind
from ..plan.resources import Address, Found, Properties, Wanted
from ..policy_documents import comparable_statement, listed
from ..regions import partition_of

NAME = "data"
BUCKET = Address("bucket", "data")
BLOCKED = dict.fromkeys(("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True)
TLS_ONLY = "DenyInsecureTransport"
NO_LISTS = "BucketOwnerEnforced"
# The default region of S3. A request that creates a bucket in this region must not contain a LocationConstraint
DEFAULT_REGION = "us-east-1"
# Error codes that S3 returns while a new bucket is not visible everywhere, or while another change to the bucket is in progress
NOT_YET = ("NoSuchBucket", "OperationAborted")


def wanted(name: str, region: str, kms_key: str | None, tags: Mapping[str, str]) -> Wanted:
    properties = {
        "name": name,
        "region": region,
        "public_access": False,
        "access_lists": False,
        "tls_only": True,
        "kms_key": kms_key,  # if None, S3 encrypts with Amazon S3 managed keys (SSE-S3)
        "tags": tags,
    }
    return Wanted(BUCKET, {key: value for key, value in properties.items() if value is not None})


def owned(cloud: AwsClient, name: str) -> dict[str, str]:
    """Return the arguments that identify the bucket. S3 denies access if the bucket belongs to another account.

    Anyone can create a bucket whose name and tags another cluster will use.
    """
    return {"Bucket": name, "ExpectedBucketOwner": _account(cloud)}


@lru_cache(maxsize=1)
def _account(cloud: AwsClient) -> str:
    return str(cloud.client("sts").get_caller_identity()["Account"])


def read(cloud: AwsClient, name: str) -> list[Found]:
    """Return the bucket, if it exists. A bucket without this cluster's tag counts as adopted and is therefore not changed."""
    bucket = owned(cloud, name)
    try:
        head = cloud.s3.head_bucket(**bucket)
    except ClientError as error:
        if error_code(error) == "404":
            return []
        if error_code(error) == "403":
            raise ClusterError(f"bucket: '{name}' belongs to another account, or AWS denies access to it. Choose another name.") from error
        raise
    questions: list[Callable[[], Any]] = [
        lambda: _answer(cloud.s3.get_bucket_tagging, "TagSet", **bucket) or [],
        lambda: _answer(cloud.s3.get_public_access_block, "PublicAccessBlockConfiguration", **bucket) or {},
        lambda: _answer(cloud.s3.get_bucket_ownership_controls, "OwnershipControls", **bucket) or {"Rules": []},
        lambda: _answer(cloud.s3.get_bucket_encryption, "ServerSideEncryptionConfiguration", **bucket) or {"Rules": []},
        lambda: _statements(cloud, name),
    ]
    with ThreadPoolExecutor(len(questions)) as pool:
        tags, access, ownership, encryption, statements = pool.map(lambda question: question(), questions)
    default: dict[str, Any] = next((rule["ApplyServerSideEncryptionByDefault"] for rule in encryption["Rules"]), {})
    properties = {
        "name": name,
        "region": head.get("BucketRegion", cloud.region),
        "public_access": access != BLOCKED,
        "access_lists": [rule["ObjectOwnership"] for rule in ownership["Rules"]] != [NO_LISTS],
        "tls_only": comparable_statement(_tls_only(name, cloud.region)) in map(comparable_statement, statements),
        "kms_key": default.get("KMSMasterKeyID"),
        "tags": cloud.comparable_tags(tags),
    }
    return [Found(BUCKET, name, properties, {"tags": tag_dict(tags)}, adopted=tag_dict(tags).get(CLUSTER_TAG) != cloud.cluster)]


def _answer(call: Callable[..., Mapping[str, Any]], key: str, **arguments: Any) -> Any:
    """Return one setting of the bucket, or None if that setting is not configured."""
    try:
        return call(**arguments)[key]
    except ClientError as error:
        if error_code(error).startswith("NoSuch") or error_code(error).endswith("NotFoundError"):
            return None
        raise


def _statements(cloud: AwsClient, name: str) -> list[dict[str, Any]]:
    policy = json.loads(_answer(cloud.s3.get_bucket_policy, "Policy", **owned(cloud, name)) or "{}")
    return listed(policy.get("Statement"))


def _tls_only(name: str, region: str) -> dict[str, Any]:
    arn = partition_of(region).arn("s3", name)
    return {
        "Sid": TLS_ONLY,
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [arn, f"{arn}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    location = {} if properties["region"] == DEFAULT_REGION else {"LocationConstraint": properties["region"]}
    cloud.create(
        "s3",
        "create_bucket",
        Bucket=properties["name"],
        ObjectOwnership=NO_LISTS,
        CreateBucketConfiguration={**location, "Tags": tag_list(properties["tags"])},
    )
    found = Found(address, properties["name"], properties, {"tags": properties["tags"]})
    for name in ("public_access", *properties.keys() & {"kms_key"}, "tls_only"):
        cloud.once_allowed(partial(_update, cloud, found, properties, frozenset({name})))
    return found


def _update(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    bucket = owned(cloud, found.id)
    if "public_access" in changed:
        cloud.once_visible(cloud.s3.put_public_access_block, *NOT_YET, **bucket, PublicAccessBlockConfiguration=BLOCKED)
    if "access_lists" in changed:
        cloud.s3.put_bucket_ownership_controls(**bucket, OwnershipControls={"Rules": [{"ObjectOwnership": NO_LISTS}]})
    if "kms_key" in changed:
        default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": properties["kms_key"]}
        rules = [{"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}]
        cloud.once_visible(cloud.s3.put_bucket_encryption, *NOT_YET, **bucket, ServerSideEncryptionConfiguration={"Rules": rules})
    if "tls_only" in changed:
        # Keep the other statements in the policy
        others = [statement for statement in _statements(cloud, found.id) if statement.get("Sid") != TLS_ONLY]
        statements = [*others, _tls_only(found.id, cloud.region)]
        policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
        cloud.once_visible(cloud.s3.put_bucket_policy, *NOT_YET, **bucket, Policy=policy)
    if "tags" in changed:
        tags = {**found.attributes["tags"], **properties["tags"]}
        cloud.s3.put_bucket_tagging(**bucket, Tagging={"TagSet": tag_list(tags)})


def _delete(_cloud: AwsClient, found: Found) -> None:
    raise ClusterError(f"The bucket {found.id} holds data and is never deleted.")


KINDS = {
    BUCKET.kind: Kind(
        BUCKET.kind,
        _create,
        _delete,
        update=_update,
        updatable=frozenset({"public_access", "access_lists", "tls_only", "kms_key", "tags"}),
        advice="Choose another bucket name for this region, or set region to the bucket's region.",
    )
}
