"""Policies for buckets are evaluated with the condition keys of S3."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError
from local_cloud.credentials import Credentials

from ..conftest import Account


@pytest.mark.parametrize(
    ("request_prefix", "allowed"),
    [({"Prefix": "train/"}, True), ({"Prefix": "train/a b"}, True), ({"Prefix": "other/"}, False), ({}, False)],
)
@pytest.mark.parametrize("operation", ["list_objects_v2", "list_objects"])
def test_a_listing_is_allowed_by_its_prefix(account: Account, operation: str, request_prefix: dict[str, str], allowed: bool) -> None:
    bucket, name, iam = account.name("listed"), account.name("reader"), account.client("iam")
    account.client("s3").create_bucket(Bucket=bucket)
    iam.create_user(UserName=name)
    statement = {
        "Effect": "Allow",
        "Action": "s3:ListBucket",
        "Resource": f"arn:aws:s3:::{bucket}",
        "Condition": {"StringLike": {"s3:prefix": "train/*"}},
    }
    iam.put_user_policy(UserName=name, PolicyName="list", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    made = iam.create_access_key(UserName=name)["AccessKey"]
    s3 = Account(account.url, keys=Credentials(made["AccessKeyId"], made["SecretAccessKey"])).client("s3")
    if allowed:
        assert getattr(s3, operation)(Bucket=bucket, **request_prefix)["Name"] == bucket
    else:
        with pytest.raises(ClientError, match="AccessDenied"):
            getattr(s3, operation)(Bucket=bucket, **request_prefix)
