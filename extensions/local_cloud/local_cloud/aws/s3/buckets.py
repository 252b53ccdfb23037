"""S3 buckets: tags in CreateBucket requests, expected owners, and policies that require TLS. The local endpoint counts as one with TLS."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import xmltodict
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.exceptions import InvalidBucketName, S3AccessDeniedError
from moto.s3.models import FakeBucket, S3Backend, s3_backends
from moto.s3.responses import S3Response

from ..context import CLOUD
from ..override import override
from ..policies import as_stored

# The end of the names of directory buckets, which general purpose buckets cannot have.
DIRECTORY_BUCKET = "--x-s3"

moto_put = S3Response._bucket_response_put
moto_bucket = S3Response._bucket_response
moto_key = S3Response._key_response
moto_bucket_init = FakeBucket.__init__
accepted_policy = S3Backend.put_bucket_policy


@override(S3Response)
def _bucket_response(self: S3Response, request: Any, full_url: str) -> Any:
    _check_owner(self, request, full_url)
    return moto_bucket(self, request, full_url)


@override(S3Response)
def _key_response(self: S3Response, request: Any, full_url: str) -> Any:
    _check_owner(self, request, full_url)
    return moto_key(self, request, full_url)


def _check_owner(response: S3Response, request: Any, full_url: str) -> None:
    """Raise S3AccessDeniedError if the bucket does not belong to the account that the header ExpectedBucketOwner of the request names."""
    expected = request.headers.get("x-amz-expected-bucket-owner")
    _partition, owner = s3_backends.bucket_accounts.get(response.parse_bucket_name_from_url(request, full_url), ("", expected))
    if expected and owner != expected:
        raise S3AccessDeniedError


@override(S3Response)
def _bucket_response_put(self: S3Response, request: Any, bucket_name: str, querystring: dict[str, Any]) -> Any:
    if not querystring and bucket_name.endswith(DIRECTORY_BUCKET):
        raise InvalidBucketName
    answer = moto_put(self, request, bucket_name, querystring)
    if not querystring and self.body:
        tags = (xmltodict.parse(self.body, force_list=("Tag",)).get("CreateBucketConfiguration") or {}).get("Tags") or {}
        if tags:
            self.backend.put_bucket_tagging(bucket_name, {tag["Key"]: tag["Value"] for tag in tags["Tag"]})
    return answer


@override(S3Backend)
def put_bucket_policy(self: S3Backend, bucket_name: str, policy: bytes) -> None:
    accepted_policy(self, bucket_name, as_stored(policy.decode()).encode())


@override(FakeBucket)
def __init__(self: FakeBucket, *args: Any, **kwargs: Any) -> None:
    moto_bucket_init(self, *args, **kwargs)
    self.creation_date = CLOUD.utcnow().replace(tzinfo=UTC)


@override(FakeBucket)
def get_permission(self: FakeBucket, action: str, resource: str) -> PermissionResult:
    statements = json.loads(self.policy)["Statement"] if self.policy else []
    statements = statements if isinstance(statements, list) else [statements]
    policy = {"Statement": [each for each in statements if not _is_about_plain_http(each)]}
    return IAMPolicy(json.dumps(policy)).is_action_permitted(action, resource)


def _is_about_plain_http(statement: dict[str, Any]) -> bool:
    return str(statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport")).lower() == "false"
