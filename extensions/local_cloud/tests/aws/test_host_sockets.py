"""Hosts reach their metadata, the credentials of their role, and the AWS API through their sockets."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from local_cloud.aws import app
from local_cloud.aws.ec2.instance_metadata import InstanceMetadata
from local_cloud.aws.emr.node_tasks import NodeTasks
from local_cloud.host_interface import NoHosts
from local_cloud.host_sockets import API_ADDRESS, METADATA_ADDRESS, HostSockets, host_application
from local_cloud.testing import wait_until
from werkzeug.test import Client

from .conftest import TRUST_EC2, Account

TTL = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}


class Host:
    """An instance with a role, and the application behind its socket."""

    def __init__(self, account: Account, cloud: app.AwsApi) -> None:
        self.bucket, role = account.name("data"), account.name("role")
        account.client("s3").create_bucket(Bucket=self.bucket)
        account.client("s3").create_bucket(Bucket=f"{self.bucket}-other")
        self.iam = account.client("iam")
        self.iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(TRUST_EC2))
        statements = [
            {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": f"arn:aws:s3:::{self.bucket}"},
            {"Effect": "Allow", "Action": "s3:GetObject", "Resource": [f"arn:aws:s3:::{self.bucket}/*"]},
        ]
        policy = {"Version": "2012-10-17", "Statement": statements}
        self.iam.put_role_policy(RoleName=role, PolicyName="data", PolicyDocument=json.dumps(policy))
        self.iam.create_instance_profile(InstanceProfileName=role)
        self.iam.add_role_to_instance_profile(InstanceProfileName=role, RoleName=role)
        (instance,) = account.run(account.subnets()[0], IamInstanceProfile={"Name": role})
        self.id, self.role, self.ip = instance["InstanceId"], role, instance["PrivateIpAddress"]
        self.client = Client(host_application(InstanceMetadata(self.id), cloud, NodeTasks(self.id)))

    def ask(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Any:
        return self.client.open(path, method=method, headers={"Host": METADATA_ADDRESS, **(headers or {})})

    def metadata(self, path: str) -> Any:
        token = self.ask("/latest/api/token", "PUT", TTL).text
        return self.ask(path, headers={"X-aws-ec2-metadata-token": token})

    def credentials(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.metadata(f"/latest/meta-data/iam/security-credentials/{self.role}").text)
        return found


@pytest.fixture(scope="module")
def host(running_cloud: tuple[app.AwsApi, str], accounts: dict[str, Account]) -> Host:
    return Host(accounts["us-east-1"], running_cloud[0])


@pytest.mark.parametrize(
    "changes",
    [{"Action": "sts:AssumeRoleWithSAML"}, {"Principal": {"Service": "lambda.amazonaws.com"}}, {"Effect": "Deny"}],
)
def test_a_role_that_ec2_may_not_assume_has_no_credentials(host: Host, changes: dict[str, Any]) -> None:
    changed = copy.deepcopy(TRUST_EC2)
    changed["Statement"][0].update(changes)
    try:
        host.iam.update_assume_role_policy(RoleName=host.role, PolicyDocument=json.dumps(changed))
        assert (host.credentials()["Code"], "AccessKeyId" in host.credentials()) == ("AssumeRoleUnauthorizedAccess", False)
    finally:
        host.iam.update_assume_role_policy(RoleName=host.role, PolicyDocument=json.dumps(TRUST_EC2))
    assert host.credentials()["Code"] == "Success"


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/latest/meta-data/instance-id", lambda host: host.id),
        ("/latest/meta-data/local-ipv4", lambda host: host.ip),
        ("/latest/meta-data/placement/region", lambda host: "us-east-1"),
        ("/latest/meta-data/placement/", lambda host: "availability-zone\nregion"),
        ("/latest/meta-data/iam/security-credentials/", lambda host: host.role),
    ],
)
def test_a_host_learns_about_itself(host: Host, path: str, wanted: Callable[[Host], str]) -> None:
    assert host.metadata(path).text == wanted(host)


def test_metadata_needs_a_token(host: Host) -> None:
    assert host.ask("/latest/meta-data/instance-id").status_code == 401
    assert host.ask("/latest/api/token", "PUT").status_code == 400
    assert host.metadata("/latest/meta-data/no-such-thing").status_code == 404
    assert json.loads(host.metadata("/latest/dynamic/instance-identity/document").text)["instanceId"] == host.id


def test_a_host_does_not_control_the_cloud(host: Host) -> None:
    api = {"Host": API_ADDRESS}
    assert host.client.get("/_local_cloud/health", headers=api).status_code == 404
    assert host.client.get("/", headers={"Host": "127.0.0.1"}).status_code == 403


def test_credentials_are_the_role_s_and_stay_for_a_while(host: Host, account: Account) -> None:
    found = host.credentials()
    assert found == host.credentials()
    session = boto3.Session(found["AccessKeyId"], found["SecretAccessKey"], found["Token"], "us-east-1")
    identity = session.client("sts", endpoint_url=account.url).get_caller_identity()["Arn"]
    assert identity.endswith(f":assumed-role/{host.role}/{host.id}")


def test_s3_answers_a_host_as_its_role_allows(host: Host, account: Account) -> None:
    found = host.credentials()
    s3 = boto3.Session(found["AccessKeyId"], found["SecretAccessKey"], found["Token"], "us-east-1").client("s3", endpoint_url=account.url)
    account.client("s3").put_object(Bucket=host.bucket, Key="folder/file", Body=b"content")
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=host.bucket)["Contents"]] == ["folder/file"]
    assert s3.get_object(Bucket=host.bucket, Key="folder/file")["Body"].read() == b"content"
    s3.head_object(Bucket=host.bucket, Key="folder/file")
    for call in (
        lambda: s3.put_object(Bucket=host.bucket, Key="folder/other", Body=b""),
        lambda: s3.delete_object(Bucket=host.bucket, Key="folder/file"),
        lambda: s3.list_objects_v2(Bucket=f"{host.bucket}-other"),
        s3.list_buckets,
    ):
        with pytest.raises(ClientError, match="AccessDenied"):
            call()


class Sockets(NoHosts):
    """Hosts with socket paths that are too long for the kernel."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder / ("long" * 30)
        self._folder.mkdir()

    def socket(self, instance_id: str) -> Path | None:
        return self._folder / instance_id


@pytest.fixture
def sockets(cloud: app.AwsApi, tmp_path: Path) -> Iterator[tuple[Sockets, HostSockets]]:
    runtime = Sockets(tmp_path)
    sockets = HostSockets(runtime, cloud)
    yield runtime, sockets
    sockets.close()


def test_a_socket_is_open_while_its_instance_is(account: Account, sockets: tuple[Sockets, HostSockets]) -> None:
    (instance,) = account.run(account.subnets()[0])
    path = sockets[0].socket(instance["InstanceId"])
    wait_until(lambda: path.exists() and instance["InstanceId"] in sockets[1].open)
    account.ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])
    wait_until(lambda: instance["InstanceId"] not in sockets[1].open)
