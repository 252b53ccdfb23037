"""Permissions that S3 calls require. Source: Amazon S3 User Guide, "Required permissions for Amazon S3 API operations"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from urllib.parse import parse_qs, unquote

from moto.s3.models import s3_backends

from ..context import ACCOUNT
from ..policies import Permission
from ..requests.calls import Call, Environ, read_body
from . import dependent_actions
from .identities import PARTITION

ACTIONS = {
    "CompleteMultipartUpload": "PutObject",
    "CopyObject": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "DeleteBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketTagging": "PutBucketTagging",
    "DeleteObjects": "DeleteObject",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "ListBuckets": "ListAllMyBuckets",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "ListParts": "ListMultipartUploadParts",
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
    "UploadPart": "PutObject",
    "UploadPartCopy": "PutObject",
}
# For a bucket with its own KMS key. S3 decrypts the parts of an upload to assemble them. Source: Amazon S3 User Guide, "Using server-side
# encryption with AWS KMS keys (SSE-KMS)"
KEY_ACTIONS = {
    "CompleteMultipartUpload": "Decrypt",
    "CopyObject": "GenerateDataKey",
    "CreateMultipartUpload": "GenerateDataKey",
    "GetObject": "Decrypt",
    "PutObject": "GenerateDataKey",
    "UploadPart": "Decrypt",
}
# Requests for these actions have the condition key s3:prefix if they contain a prefix.
LISTINGS = ("ListObjects", "ListObjectsV2", "ListObjectVersions")
KEY = re.compile(rb"<Key>([^<]*)</Key>")


def find(call: Call, environ: Environ) -> list[Permission] | None:
    """Return the permissions that a call requires, or None for an unknown call."""
    if not call.action.isalnum():
        return None
    return list(_permissions(call, environ))


def _permissions(call: Call, environ: Environ) -> Iterator[Permission]:
    path = unquote(str(environ["REQUEST_URI"]).partition("?")[0]).lstrip("/")
    bucket, _, key = path.partition("/")
    names = [path if key else bucket or "*"]
    if call.action == "DeleteObjects":
        names = [f"{bucket}/{found.decode()}" for found in KEY.findall(read_body(environ))]
    for name in names:
        yield _question(ACTIONS.get(call.action, call.action), name, _prefix(environ) if call.action in LISTINGS else {})
    if source := unquote(str(environ.get("HTTP_X_AMZ_COPY_SOURCE", ""))).lstrip("/").partition("?")[0]:
        yield _question("GetObject", source)
    if environ.get("HTTP_X_AMZ_TAGGING"):
        yield _question("PutObjectTagging", names[0])
    if call.action == "CreateBucket" and b"<Tag>" in read_body(environ):
        yield _question("TagResource", bucket)
    if call.action in KEY_ACTIONS:
        yield from dependent_actions.key_permissions(call.region, _key_of(bucket), "s3", KEY_ACTIONS[call.action])


def _prefix(environ: Environ) -> dict[str, str]:
    found = parse_qs(str(environ.get("QUERY_STRING", "")), keep_blank_values=True).get("prefix")
    return {"s3:prefix": found[0]} if found else {}


def _question(action: str, name: str, context: Mapping[str, str] = MappingProxyType({})) -> Permission:
    return Permission(f"s3:{action}", f"arn:{PARTITION}:s3:::{name}", {"s3:resourceaccount": owner(name.partition("/")[0]), **context})


def _key_of(name: str) -> str | None:
    """Return the bucket's own KMS key, or None if the bucket does not have its own key."""
    bucket = next((backend.buckets[name] for _account, _region, backend in s3_backends.iter_backends() if name in backend.buckets), None)
    rule = ((bucket.encryption if bucket else None) or {}).get("Rule") or {}
    return (rule.get("ApplyServerSideEncryptionByDefault") or {}).get("KMSMasterKeyID")


def owner(bucket: str) -> str:
    """Return the account that owns a bucket, or the caller's account for a bucket that does not exist."""
    for account, partitions in list(s3_backends.items()):
        if any(bucket in backend.buckets for backend in list(partitions.values())):
            return str(account)
    return ACCOUNT
