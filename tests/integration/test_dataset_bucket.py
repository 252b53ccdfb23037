"""The bucket for data sets: the bucket is private from its creation, drift is corrected, and other owners' buckets stay unchanged."""

from __future__ import annotations

import json

import boto3
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import AwsClient
from botocore.exceptions import ClientError

from .conftest import ModuleFailed

KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
BLOCKED = {"BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True}


@pytest.fixture
def s3(cloud):
    return cloud.client("s3")


@pytest.fixture
def options(name):
    return {"cluster": name, "bucket": f"{name}-data"}


def statements(s3, bucket):
    return json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]


def test_life_of_a_bucket(cloud, run, s3, name, options):
    bucket = options["bucket"]
    predicted = run("dataset_bucket", check=True, **options)
    assert predicted["changed"]
    with pytest.raises(ClientError):
        s3.head_bucket(Bucket=bucket)
    made = run("dataset_bucket", **options)
    assert made["changes"] == predicted["changes"]
    assert made["diff"] == predicted["diff"]
    assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"] == BLOCKED
    assert s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    tags = {tag["Key"]: tag["Value"] for tag in s3.get_bucket_tagging(Bucket=bucket)["TagSet"]}
    assert tags == {
        "deeplearning:cluster": name,
        "deeplearning:component": "data",
        "deeplearning:key": "data",
        "Name": bucket,
    }
    (statement,) = statements(s3, bucket)
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    cloud.control.forget_calls()
    again = run("dataset_bucket", **options)
    assert not again["changed"]
    assert all(call["read_only"] for call in cloud.control.calls())


def test_what_was_changed_by_hand_is_put_right_and_what_was_added_stays(run, s3, options):
    bucket = options["bucket"]
    run("dataset_bucket", **options)
    theirs = {
        "Sid": "Theirs",
        "Effect": "Allow",
        "Principal": {"AWS": "123456789012"},
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [theirs]}))
    s3.delete_public_access_block(Bucket=bucket)
    changed = run("dataset_bucket", **options, kms_key_id=KEY, tags={"team": "speech"})
    assert set(changed["changes"][0]["after"]) == {"public_access", "tls_only", "kms_key", "tags"}
    assert {statement["Sid"] for statement in statements(s3, bucket)} == {"Theirs", "DenyInsecureTransport"}
    assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"] == BLOCKED
    rule = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
    assert {"Key": "team", "Value": "speech"} in s3.get_bucket_tagging(Bucket=bucket)["TagSet"]
    assert not run("dataset_bucket", **options)["changed"], "without the option, the bucket keeps its key"


def test_a_run_that_was_killed_in_the_middle_is_finished_by_the_next(cloud, run, s3, options, monkeypatch):
    monkeypatch.setattr(AwsClient, "once_allowed", lambda _self, call: call())
    cloud.control.set_faults([{"action": "PutPublicAccessBlock", "code": "AccessDenied", "status": 403}])
    with pytest.raises(ModuleFailed):
        run("dataset_bucket", **options)
    cloud.control.set_faults([])
    assert set(run("dataset_bucket", **options)["changes"][0]["after"]) == {"public_access", "tls_only"}


def test_somebody_else_s_bucket_is_used_as_it_is(cloud, run, s3, options):
    s3.create_bucket(Bucket=options["bucket"])
    cloud.control.forget_calls()
    result = run("dataset_bucket", **options)
    assert (result["changed"], result["adopted"]) == (False, True)
    assert all(call["read_only"] for call in cloud.control.calls())


def test_a_bucket_of_another_account_is_refused(cloud, run, options):
    """Anyone can create a bucket with the name and the tag that a cluster will use."""
    role = "arn:aws:iam::898082745236:role/anyone"
    given = cloud.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    session = boto3.Session(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], region_name="us-east-1")
    tags = [{"Key": "deeplearning:cluster", "Value": options["cluster"]}]
    session.client("s3", endpoint_url=cloud.environment["AWS_ENDPOINT_URL"]).create_bucket(
        Bucket=options["bucket"], CreateBucketConfiguration={"Tags": tags}
    )
    with pytest.raises(ModuleFailed, match=rf"bucket: '{options['bucket']}' belongs to another account, or AWS denies access to it"):
        run("dataset_bucket", **options)


def test_every_request_names_the_owner(cloud, run, options, monkeypatch):
    sent = []
    connect = AwsClient._connect

    def record(model, params, **_event):
        sent.append((model.name, params["headers"]))

    def recorded(self, service, config):
        client = connect(self, service, config)
        client.meta.events.register("before-call.s3", record)
        return client

    monkeypatch.setattr(AwsClient, "_connect", recorded)
    run("dataset_bucket", **options)
    run("dataset_bucket", **options, kms_key_id=KEY, tags={"team": "speech"})
    assert {name for name, headers in sent if "x-amz-expected-bucket-owner" not in headers} == {"CreateBucket"}
    assert {"HeadBucket", "GetBucketTagging", "PutBucketPolicy", "PutBucketTagging", "PutBucketEncryption"} <= {
        name for name, _headers in sent
    }


def test_elsewhere_and_badly_named(run, cloud, options):
    run("dataset_bucket", **{**options, "region": "eu-west-1"})
    head = cloud.client("s3", "eu-west-1").get_bucket_location(Bucket=options["bucket"])
    assert head["LocationConstraint"] == "eu-west-1"
    with pytest.raises(ModuleFailed, match="cannot be changed to 'us-east-1'"):
        run("dataset_bucket", **options)
    with pytest.raises(ModuleFailed, match="bucket: 's3://data' is not a valid bucket name"):
        run("dataset_bucket", **{**options, "bucket": "s3://data"})
