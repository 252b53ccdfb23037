"""A local cloud in this process, with hosts that each test controls, and clients of the local cloud."""

from __future__ import annotations

import base64
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from local_cloud.aws import app
from local_cloud.aws.settings import Delays, Settings
from local_cloud.credentials import Credentials
from local_cloud.host_interface import HostSpec
from local_cloud.testing import Control

TRUST_EC2: dict[str, Any] = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
DELAYS = Delays(
    nat_gateway=0.2,
    file_system=0.15,
    mount_target=0.15,
    launch_retry=0.2,
    health_check=0.05,
    forget=600,
    instance_profile=0,
    emr_service_role=0,
    scheduler_role=0,
    lambda_role=0,
    schedule_latency=0,
    schedule_change=0,
    trail=0,
)
AMI_PARAMETERS = "/aws/service/deeplearning/ami"
IMAGE_PARAMETER = f"{AMI_PARAMETERS}/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
ADMINISTRATOR = Credentials()
TOKEN = "token-of-the-tests"
NUMBERS = itertools.count(1)


class Hosts:
    """Simulated hosts. The test decides whether the hosts boot, fail to start, or stop."""

    def __init__(self) -> None:
        self.specs: dict[str, HostSpec] = {}
        self.alive: set[str] = set()
        self.rebooting: set[str] = set()
        self.sockets: Path | None = None
        """The socket of each host, or None if hosts execute nothing."""
        self.boots = threading.Event()
        self.reset()

    def reset(self) -> None:
        """Restore the defaults: hosts start without failure and boot immediately."""
        self.boots.set()
        self.failure = ""
        self.sockets = None
        self.files: dict[tuple[str, str], float] = {}
        """When files were modified, by instance and path."""

    def start(self, spec: HostSpec) -> None:
        self.specs[spec.instance_id] = spec
        if self.failure:
            raise RuntimeError(self.failure)
        self.alive.add(spec.instance_id)

    def is_booted(self, instance_id: str) -> bool:
        return self.boots.is_set() and instance_id in self.alive

    def is_alive(self, instance_id: str) -> bool:
        return instance_id in self.alive

    def is_rebooting(self, instance_id: str) -> bool:
        return instance_id in self.rebooting

    def modified(self, instance_id: str, path: str) -> float | None:
        return self.files.get((instance_id, path))

    def stop(self, instance_id: str) -> None:
        self.alive.discard(instance_id)

    remove = stop

    def console_output(self, instance_id: str, *, latest: bool = True) -> str:
        return f"console of {instance_id}\n" + ("a second line of text\nof a job\n" * 4000 if latest else "is booted\n")

    def socket(self, instance_id: str) -> Path | None:
        return self.sockets


class Account:
    """Clients for one region, and methods that create and describe the resources that most tests need."""

    def __init__(self, url: str, region: str = "us-east-1", keys: Credentials = ADMINISTRATOR, token: str | None = None) -> None:
        self.url, self.region = url, region
        self.control = Control(url, TOKEN)
        self.session = boto3.Session(keys.access_key_id, keys.secret_access_key, token, region_name=region)
        self.ec2 = self.client("ec2")
        self.groups = self.client("autoscaling")
        self.efs = self.client("efs")

    def client(self, service: str, attempts: int = 1) -> Any:
        return self.session.client(
            service, endpoint_url=self.url, config=Config(retries={"total_max_attempts": attempts, "mode": "standard"})
        )

    @cached_property
    def image_id(self) -> str:
        value: str = self.client("ssm").get_parameter(Name=IMAGE_PARAMETER)["Parameter"]["Value"]
        return value

    def name(self, kind: str = "test") -> str:
        """Return a name that no other test uses."""
        return f"{kind}-{next(NUMBERS)}"

    def user(self, *statements: dict[str, Any]) -> Account:
        """Return the clients of a new user with a policy that has these statements."""
        iam, name = self.client("iam"), self.name("user")
        iam.create_user(UserName=name)
        policy = {"Version": "2012-10-17", "Statement": list(statements)}
        iam.put_user_policy(UserName=name, PolicyName="policy", PolicyDocument=json.dumps(policy))
        made = iam.create_access_key(UserName=name)["AccessKey"]
        return Account(self.url, self.region, Credentials(made["AccessKeyId"], made["SecretAccessKey"]))

    def vpc(self) -> str:
        identifier: str = self.ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
        return identifier

    def subnets(self, zones: str = "ab", vpc: str = "", size: int = 24) -> list[str]:
        vpc = vpc or self.vpc()
        return [
            self.ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.7.{number}.0/{size}", AvailabilityZone=self.region + zone)["Subnet"][
                "SubnetId"
            ]
            for number, zone in enumerate(zones)
        ]

    def run(self, subnet: str, count: int = 1, **extra: Any) -> list[dict[str, Any]]:
        request = {"ImageId": self.image_id, "InstanceType": "t3.micro", "SubnetId": subnet, **extra}
        instances: list[dict[str, Any]] = self.ec2.run_instances(MinCount=count, MaxCount=count, **request)["Instances"]
        return instances

    def instance(self, identifier: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ec2.describe_instances(InstanceIds=[identifier])["Reservations"][0]["Instances"][0]
        return found

    def state(self, identifier: str) -> str:
        return str(self.instance(identifier)["State"]["Name"])

    def template(self, **data: Any) -> str:
        name = self.name("template")
        data = {"ImageId": self.image_id, "InstanceType": "p4d.24xlarge", **data}
        self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        return name

    def group(self, desired: int = 1, subnets: list[str] | None = None, template: str = "", **extra: Any) -> str:
        """Create an Auto Scaling group and return its name. `extra` contains additional parameters of CreateAutoScalingGroup."""
        name = self.name("group")
        self.groups.create_auto_scaling_group(
            **{
                "AutoScalingGroupName": name,
                "MinSize": 0,
                "MaxSize": 20,
                "DesiredCapacity": desired,
                "LaunchTemplate": {"LaunchTemplateName": template or self.template(), "Version": "$Latest"},
                "VPCZoneIdentifier": ",".join(subnets or self.subnets()),
                **extra,
            }
        )
        return name

    def described(self, group: str) -> dict[str, Any] | None:
        found: list[dict[str, Any]] = self.groups.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
        return found[0] if found else None

    def members(self, group: str, state: str = "InService") -> list[str]:
        described = self.described(group) or {"Instances": []}
        return [each["InstanceId"] for each in described["Instances"] if each["LifecycleState"] == state]

    def activities(self, group: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.groups.describe_scaling_activities(AutoScalingGroupName=group)["Activities"]
        return found


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def refused(call: Callable[[], Any], code: str, words: str = "") -> dict[str, Any]:
    """Return the response to a call. Fail the test unless the call fails with this error code, and with these words in the message."""
    with pytest.raises(ClientError) as caught:
        call()
    assert (caught.value.response["Error"]["Code"], words in str(caught.value)) == (code, True), caught.value
    response: dict[str, Any] = caught.value.response
    return response


def client_of(account: Account, other: str, service: str) -> Any:
    """Return a client that uses a role in another account."""
    role = f"arn:aws:iam::{other}:role/release"
    given = account.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    session = boto3.Session(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], region_name=account.region)
    return session.client(service, endpoint_url=account.url)


def wait(client: Any, waiter: str, **arguments: Any) -> None:
    """Wait with a waiter of the AWS SDK, but poll faster."""
    client.get_waiter(waiter).wait(WaiterConfig={"Delay": 0.1, "MaxAttempts": 600}, **arguments)


@pytest.fixture(scope="package")
def hosts() -> Hosts:
    return Hosts()


@pytest.fixture(scope="package")
def running_cloud(hosts: Hosts) -> Iterator[tuple[app.AwsApi, str]]:
    settings = Settings(public_prefix="127.83.0.0/16", tick=0.03, delays=DELAYS, administrator=ADMINISTRATOR, control_token=TOKEN)
    cloud = app.create(hosts, settings)
    server = app.serve(cloud)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield cloud, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    cloud.close()


@pytest.fixture
def cloud(running_cloud: tuple[app.AwsApi, str], hosts: Hosts) -> Iterator[app.AwsApi]:
    """The local cloud, which is reset after the test."""
    yield running_cloud[0]
    hosts.reset()
    running_cloud[0].restore()


@pytest.fixture(scope="package")
def accounts(running_cloud: tuple[app.AwsApi, str]) -> dict[str, Account]:
    return {region: Account(running_cloud[1], region) for region in ("us-east-1", "eu-west-1")}


@pytest.fixture
def account(cloud: app.AwsApi, accounts: dict[str, Account]) -> Account:
    return accounts["us-east-1"]


@pytest.fixture
def elsewhere(cloud: app.AwsApi, accounts: dict[str, Account]) -> Account:
    """The account in another region."""
    return accounts["eu-west-1"]


@pytest.fixture
def control(account: Account) -> Control:
    return account.control


@pytest.fixture
def key(account: Account) -> dict[str, Any]:
    created: dict[str, Any] = account.client("kms").create_key()["KeyMetadata"]
    return created
