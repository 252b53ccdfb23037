"""S3 buckets: tags in CreateBucket requests, and policies that require TLS. The local endpoint represents an endpoint with TLS."""

from __future__ import annotations

import json
from typing import Any

import xmltodict
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket
from moto.s3.responses import S3Response

from ..override import override

moto_put = S3Response._bucket_response_put


@override(S3Response)
def _bucket_response_put(self: S3Response, request: Any, bucket_name: str, querystring: dict[str, Any]) -> Any:
    answer = moto_put(self, request, bucket_name, querystring)
    if not querystring and self.body:
        tags = (xmltodict.parse(self.body, force_list=("Tag",)).get("CreateBucketConfiguration") or {}).get("Tags") or {}
        if tags:
            self.backend.put_bucket_tagging(bucket_name, {tag["Key"]: tag["Value"] for tag in tags["Tag"]})
    return answer


@override(FakeBucket)
def get_permission(self: FakeBucket, action: str, resource: str) -> PermissionResult:
    statements = json.loads(self.policy)["Statement"] if self.policy else []
    statements = statements if isinstance(statements, list) else [statements]
    policy = {"Statement": [each for each in statements if not _is_about_plain_http(each)]}
    return IAMPolicy(json.dumps(policy)).is_action_permitted(action, resource)


def _is_about_plain_http(statement: dict[str, Any]) -> bool:
    return str(statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport")).lower() == "false"
