"""An account with the default roles of EMR, a bucket with a bootstrap action, and the options of a cluster."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import resources

from .conftest import FAST, KEY_NAME

ROLE, PROFILE = "EMR_DefaultRole", "EMR_EC2_DefaultRole"
QUICK = {**FAST, "emr_cluster": 0.05}


@pytest.fixture(autouse=True)
def quick(cloud, _fresh, monkeypatch):
    cloud.control.set_delays(**QUICK)
    monkeypatch.setattr(resources, "PAUSE", 0.05)


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


@pytest.fixture
def emr(name, bucket):
    """The options of an EMR cluster with three nodes."""
    return {
        "cluster": name,
        "emr_release_label": "emr-7.9.0",
        "emr_instance_type": "c5.xlarge",
        "emr_core_count": 2,
        "emr_key_name": KEY_NAME,
        "emr_log_uri": f"s3://{bucket}/logs",
        "emr_bootstrap_actions": [{"path": f"s3://{bucket}/mount.sh", "args": ["fs-0123", "us-east-1"]}],
    }


def make_role(cloud, name, service):
    statement = {"Effect": "Allow", "Principal": {"Service": f"{service}.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    cloud.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(document))
