"""S3 buckets: tags and policies."""

from __future__ import annotations

import json

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from ..conftest import Account, client_of, refused


def test_a_bucket_has_the_tags_it_was_created_with(account: Account) -> None:
    s3, name = account.client("s3"), account.name("tagged")
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"Tags": tags})
    assert s3.get_bucket_tagging(Bucket=name)["TagSet"] == tags


def test_a_policy_against_plain_http_lets_calls_in(account: Account) -> None:
    s3, name = account.client("s3"), account.name("policy")
    s3.create_bucket(Bucket=name)
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{name}/*"}
    plain = {**deny, "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
    s3.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [plain]}))
    s3.put_object(Bucket=name, Key="a", Body=b"")
    s3.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [deny]}))
    with pytest.raises(ClientError, match=r"403|AccessDenied"):
        s3.get_object(Bucket=name, Key="a")


def test_a_request_can_require_the_owner_of_a_bucket(account: Account) -> None:
    s3, mine, theirs = account.client("s3"), account.name("mine"), account.name("theirs")
    s3.create_bucket(Bucket=mine)
    client_of(account, "898082745236", "s3").create_bucket(Bucket=theirs)
    own = account.client("sts").get_caller_identity()["Account"]
    for name, owner in ((mine, own), (theirs, "898082745236")):
        s3.head_bucket(Bucket=name, ExpectedBucketOwner=owner)
        s3.put_object(Bucket=name, Key="a", Body=b"", ExpectedBucketOwner=owner)
    for name, owner in ((mine, "898082745236"), (theirs, own)):
        with pytest.raises(ClientError, match="403"):
            s3.head_bucket(Bucket=name, ExpectedBucketOwner=owner)
        with pytest.raises(ClientError, match="AccessDenied"):
            s3.get_bucket_tagging(Bucket=name, ExpectedBucketOwner=owner)
        with pytest.raises(ClientError, match="AccessDenied"):
            s3.put_object(Bucket=name, Key="a", Body=b"", ExpectedBucketOwner=owner)


def test_there_are_no_directory_buckets(account: Account) -> None:
    s3, name = account.client("s3"), account.name("bucket") + "--use1-az4--x-s3"
    refused(lambda: s3.list_objects_v2(Bucket=name), "NoSuchBucket", "CreateSession")
    plain = account.session.client("s3", endpoint_url=account.url, config=Config(s3={"disable_s3_express_session_auth": True}))
    refused(lambda: plain.create_bucket(Bucket=name), "InvalidBucketName")


def test_s3_returns_the_resources_of_a_policy_in_another_order(account):
    client, name = account.client("s3"), account.name("bucket")
    client.create_bucket(Bucket=name)
    resources = [f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"]
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": resources}
    client.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    (found,) = json.loads(client.get_bucket_policy(Bucket=name)["Policy"])["Statement"]
    assert found["Resource"] == resources[::-1]
