"""New resources take time to reach IAM: calls that name them are denied for a while, and only those calls are repeated."""

from __future__ import annotations

import permissions
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws import client

from .conftest import ModuleFailed

DENIED = {"code": "AccessDenied", "status": 403, "message": "is not authorized"}


@pytest.mark.parametrize(
    ("service", "action"),
    [
        ("iam", "PutRolePolicy"),
        ("iam", "AddRoleToInstanceProfile"),
        ("autoscaling", "CreateAutoScalingGroup"),
        ("autoscaling", "SuspendProcesses"),
        ("ec2", "ModifyVpcAttribute"),
        ("ec2", "AttachInternetGateway"),
        ("ec2", "AuthorizeSecurityGroupIngress"),
        ("ec2", "CreateRoute"),
        ("elasticfilesystem", "CreateMountTarget"),
    ],
)
def test_what_names_something_new_is_denied_for_a_while(cloud, run, definition, service, action):
    """While the tags of a new resource are not visible, API calls that depend on them are denied, instead of failing with "not found"."""
    cloud.control.set_faults([{**DENIED, "service": service, "action": action, "times": 2}])
    assert run("cluster", **definition)["changed"]


def test_what_names_nothing_new_is_denied_at_once(cloud, run, definition):
    run("cluster", **definition)
    cloud.control.set_faults([{**DENIED, "service": "iam", "action": "PutRolePolicy"}])
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed, match="AccessDenied"):
        run("cluster", **definition, read_buckets=["another"])
    assert [call["action"] for call in cloud.control.calls()].count("PutRolePolicy") == 1


@pytest.mark.parametrize("action", ["PutPublicAccessBlock", "PutBucketPolicy"])
def test_a_new_bucket_is_denied_for_a_while(cloud, run, name, action):
    cloud.control.set_faults([{**DENIED, "service": "s3", "action": action, "times": 1}])
    bucket = {"cluster": name, "bucket": f"{name}-bucket"}
    assert run("dataset_bucket", **bucket)["changed"]
    assert not run("dataset_bucket", **bucket)["changed"]


def test_a_new_key_is_denied_for_a_while_and_another_is_not(cloud, run, name):
    denied = {"service": "ssm", "action": "PutParameter", "code": "AccessDeniedException", "status": 400}
    cloud.control.set_faults([{**denied, "times": 1}])
    assert run("ssh_authority", cluster=name, create_kms_key=True)["changed"]
    cloud.control.set_faults([denied])
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed, match="AccessDenied"):
        run("ssh_authority", cluster=name, create_kms_key=True, rotate=True)
    assert [call["action"] for call in cloud.control.calls()].count("PutParameter") == 1


def test_nodes_are_launched_in_security_groups_of_others_that_the_policies_name(cloud, run, definition, landlord, monkeypatch):
    owner = landlord()
    group = owner.group("database-clients")
    options = {**definition, **owner.options(), "additional_security_group_ids": [group], "capacity_timeout": 30}

    def be(*adopted):
        for name, value in permissions.operator(cloud, "provision", f"{definition['cluster']}*", adopted).items():
            if name.startswith("AWS_"):
                monkeypatch.setenv(name, value)

    be()
    monkeypatch.setattr(client, "DENIED_TIMEOUT", 0)
    cloud.control.set_delays(tag_visibility=0)
    with pytest.raises(ModuleFailed, match=r"You are not authorized to use launch template: lt-\w+\. Auto Scaling checks ec2:RunInstances"):
        run("cluster", **options)
    be(f"arn:aws:ec2:us-east-1:123456789012:security-group/{group}")
    assert run("cluster", **options)["changed"]
