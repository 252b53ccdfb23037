"""A cluster in one region of each partition. The names of services depend on the partition."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import definition as emr

from .clusters import steps
from .conftest import KEY_NAME

PARTITIONS = {"us-gov-west-1": "aws-us-gov", "cn-north-1": "aws-cn", "eusc-de-east-1": "aws-eusc"}


@pytest.mark.parametrize("region", PARTITIONS)
def test_a_cluster_in_each_partition(cloud, run, definition, region):
    cloud.client("ec2", region).create_key_pair(KeyName=KEY_NAME)
    definition |= {"region": region, "zones": [f"{region}a"], "interface_endpoints": ["ssm"], "lustre": True}
    predicted = run("cluster", **definition, check=True)
    applied = run("cluster", **definition)
    assert steps(predicted) == steps(applied)
    assert not run("cluster", **definition)["changed"]
    role = cloud.client("iam", region).get_role(RoleName=f"{definition['cluster']}-nodes-{region}")["Role"]
    assert role["Arn"].split(":")[1] == PARTITIONS[region]
    run("cluster", region=region, cluster=definition["cluster"], state="absent", delete_data=True)


@pytest.mark.parametrize("region", PARTITIONS)
def test_an_authority_with_its_own_key_in_each_partition(run, name, region):
    authority = {"cluster": name, "region": region, "create_kms_key": True}
    assert run("ssh_authority", **authority)["changed"]
    assert not run("ssh_authority", **authority)["changed"]


@pytest.mark.parametrize("region", PARTITIONS)
def test_emr_may_assume_its_role_in_each_partition(cloud, name, region):
    iam = cloud.client("iam", region)
    for service in ("ec2", "elasticmapreduce"):
        trust = emr.trust_policy(service, region)
        iam.create_role(RoleName=f"{name}-{service}", AssumeRolePolicyDocument=json.dumps(trust))
