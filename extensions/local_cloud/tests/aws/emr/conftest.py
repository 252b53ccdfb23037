"""Roles that clusters need, and a client that creates clusters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from local_cloud.testing import wait_until

from ..conftest import Account

SERVICE_ROLE, PROFILE = "emr-service", "emr-nodes"


def trust(service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": f"{service}.amazonaws.com"}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@pytest.fixture(scope="package")
def _roles(accounts: dict[str, Account]) -> None:
    iam = accounts["us-east-1"].client("iam")
    for name, service in ((SERVICE_ROLE, "elasticmapreduce"), (PROFILE, "ec2"), ("emr-lambda", "lambda")):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(service))
    iam.create_instance_profile(InstanceProfileName=PROFILE)
    iam.add_role_to_instance_profile(InstanceProfileName=PROFILE, RoleName=PROFILE)
    iam.create_instance_profile(InstanceProfileName="emr-empty")


class Emr:
    """A client for EMR, with shortcuts for common calls."""

    def __init__(self, account: Account) -> None:
        self.account, self.client = account, account.client("emr")

    def run(self, core: int = 1, task: int = 0, instances: dict[str, Any] | None = None, **more: Any) -> str:
        """Create a cluster with a master and the given numbers of core and task nodes, and return its ID."""
        counts = {"MASTER": 1, "CORE": core, "TASK": task}
        groups = [
            {"InstanceRole": role, "InstanceType": "c4.large", "InstanceCount": count, "Name": role}
            for role, count in counts.items()
            if count
        ]
        request = {
            "Name": self.account.name("cluster"),
            "ReleaseLabel": "emr-5.8.0",
            "JobFlowRole": PROFILE,
            "ServiceRole": SERVICE_ROLE,
            "Instances": {"InstanceGroups": groups, "KeepJobFlowAliveWhenNoSteps": True, **(instances or {})},
            **more,
        }
        identifier: str = self.client.run_job_flow(**request)["JobFlowId"]
        return identifier

    def describe(self, cluster: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.describe_cluster(ClusterId=cluster)["Cluster"]
        return found

    def state(self, cluster: str) -> str:
        return str(self.describe(cluster)["Status"]["State"])

    def reached(self, cluster: str, state: str) -> dict[str, Any]:
        """Wait until the cluster is in the given state, and return the reason for the state change."""
        wait_until(lambda: self.state(cluster) == state)
        found: dict[str, Any] = self.describe(cluster)["Status"]["StateChangeReason"]
        return found

    def waiting(self, *arguments: Any, **more: Any) -> str:
        """Create a cluster, wait until its state is WAITING, and return its ID."""
        cluster = self.run(*arguments, **more)
        self.reached(cluster, "WAITING")
        return cluster

    def groups(self, cluster: str) -> dict[str, dict[str, Any]]:
        """Return the instance groups by role."""
        return {each["InstanceGroupType"]: each for each in self.client.list_instance_groups(ClusterId=cluster)["InstanceGroups"]}

    def nodes(self, cluster: str, role: str, state: str = "RUNNING") -> list[str]:
        """Return the IDs of the EC2 instances in instance groups with this role that are in the given state."""
        found = self.client.list_instances(ClusterId=cluster, InstanceGroupTypes=[role], InstanceStates=[state])["Instances"]
        return [each["Ec2InstanceId"] for each in found]

    def resize(self, cluster: str, role: str, count: int, **more: Any) -> None:
        group = self.groups(cluster)[role]["Id"]
        self.client.modify_instance_groups(InstanceGroups=[{"InstanceGroupId": group, "InstanceCount": count, **more}])


@pytest.fixture
def emr(account: Account, _roles: None) -> Emr:
    account.control.set_delays(emr_cluster=0.1)
    return Emr(account)


@pytest.fixture
def subnet(account: Account) -> str:
    """A subnet without a route to the internet."""
    return account.subnets("a")[0]


@pytest.fixture
def public_subnet(account: Account) -> str:
    ec2, vpc = account.ec2, account.vpc()
    subnet, gateway = account.subnets("a", vpc)[0], ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    return subnet


@pytest.fixture
def script(account: Account) -> str:
    """A bootstrap action in S3."""
    s3, bucket = account.client("s3"), account.name("bucket")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="bootstrap.sh", Body=b"true\n")
    return f"s3://{bucket}/bootstrap.sh"


def bootstrap(path: str, *arguments: str) -> list[dict[str, Any]]:
    return [{"Name": "Set up", "ScriptBootstrapAction": {"Path": path, "Args": list(arguments)}}]


def step(
    name: str, jar: str = "command-runner.jar", on_failure: str = "CONTINUE", arguments: tuple[str, ...] = ("true",)
) -> dict[str, Any]:
    return {"Name": name, "ActionOnFailure": on_failure, "HadoopJarStep": {"Jar": jar, "Args": list(arguments)}}
