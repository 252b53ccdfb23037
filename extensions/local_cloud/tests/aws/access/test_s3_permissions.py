"""Policies for buckets are evaluated with the condition keys of S3."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from ..conftest import Account


@pytest.mark.parametrize(
    ("request_prefix", "allowed"),
    [({"Prefix": "train/"}, True), ({"Prefix": "train/a b"}, True), ({"Prefix": "other/"}, False), ({}, False)],
)
@pytest.mark.parametrize("operation", ["list_objects_v2", "list_objects"])
def test_a_listing_is_allowed_by_its_prefix(account: Account, operation: str, request_prefix: dict[str, str], allowed: bool) -> None:
    bucket = account.name("listed")
    account.client("s3").create_bucket(Bucket=bucket)
    statement = {
        "Effect": "Allow",
        "Action": "s3:ListBucket",
        "Resource": f"arn:aws:s3:::{bucket}",
        "Condition": {"StringLike": {"s3:prefix": "train/*"}},
    }
    s3 = account.user(statement).client("s3")
    if allowed:
        assert getattr(s3, operation)(Bucket=bucket, **request_prefix)["Name"] == bucket
    else:
        with pytest.raises(ClientError, match="AccessDenied"):
            getattr(s3, operation)(Bucket=bucket, **request_prefix)
