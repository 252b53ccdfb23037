"""An account with the default roles of EMR, and a bucket with a bootstrap action."""

from __future__ import annotations

import json

import pytest

ROLE, PROFILE = "EMR_DefaultRole", "EMR_EC2_DefaultRole"


@pytest.fixture(scope="module")
def bucket(cloud):
    """A bucket with a bootstrap action, and the roles of EMR."""
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="emr-tests")
    s3.put_object(Bucket="emr-tests", Key="mount.sh", Body=b"true\n")
    make_role(cloud, ROLE, "elasticmapreduce")
    make_role(cloud, PROFILE, "ec2")
    cloud.client("iam").create_instance_profile(InstanceProfileName=PROFILE)
    cloud.client("iam").add_role_to_instance_profile(InstanceProfileName=PROFILE, RoleName=PROFILE)
    return "emr-tests"


def make_role(cloud, name, service):
    statement = {"Effect": "Allow", "Principal": {"Service": f"{service}.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    cloud.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(document))
