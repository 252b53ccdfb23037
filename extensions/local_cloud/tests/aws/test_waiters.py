"""The waiters of the AWS SDK, whose states and errors were not chosen by the authors of the local cloud."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import WaiterError

from .conftest import TRUST_EC2, Account, wait


def test_network(account: Account) -> None:
    ec2, vpc = account.ec2, account.vpc()
    wait(ec2, "vpc_exists", VpcIds=[vpc])
    wait(ec2, "vpc_available", VpcIds=[vpc])
    subnet = account.subnets("a", vpc)[0]
    wait(ec2, "subnet_available", SubnetIds=[subnet])
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    wait(ec2, "internet_gateway_exists", InternetGatewayIds=[gateway])
    group = ec2.create_security_group(GroupName="waited-for", Description="a", VpcId=vpc)["GroupId"]
    wait(ec2, "security_group_exists", GroupIds=[group])
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    address = ec2.allocate_address()["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address)["NatGateway"]["NatGatewayId"]
    wait(ec2, "nat_gateway_available", NatGatewayIds=[nat])
    ec2.delete_nat_gateway(NatGatewayId=nat)
    wait(ec2, "nat_gateway_deleted", NatGatewayIds=[nat])


def test_instances(account: Account) -> None:
    ec2, name = account.ec2, account.name("key")
    ec2.create_key_pair(KeyName=name)
    wait(ec2, "key_pair_exists", KeyNames=[name])
    instance = account.run(account.subnets()[0])[0]["InstanceId"]
    for waiter in ("instance_exists", "instance_running", "instance_status_ok", "system_status_ok"):
        wait(ec2, waiter, InstanceIds=[instance])
    ec2.stop_instances(InstanceIds=[instance])
    wait(ec2, "instance_stopped", InstanceIds=[instance])
    ec2.terminate_instances(InstanceIds=[instance])
    wait(ec2, "instance_terminated", InstanceIds=[instance])


def test_a_waiter_gives_up_on_an_instance_that_fails(account: Account) -> None:
    account.control.fail_launches({"t3.micro": 1})
    instance = account.run(account.subnets()[0])[0]["InstanceId"]
    with pytest.raises(WaiterError, match="terminal failure state"):
        wait(account.ec2, "instance_running", InstanceIds=[instance])


def test_images_and_spot_requests(account: Account) -> None:
    wait(account.ec2, "image_exists", ImageIds=[account.image_id])
    wait(account.ec2, "image_available", ImageIds=[account.image_id])
    spot = account.run(account.subnets()[0], InstanceMarketOptions={"MarketType": "spot"})[0]["SpotInstanceRequestId"]
    wait(account.ec2, "spot_instance_request_fulfilled", SpotInstanceRequestIds=[spot])


def test_iam_and_s3(account: Account) -> None:
    iam, s3, name = account.client("iam"), account.client("s3"), account.name("waited-for")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST_EC2))
    wait(iam, "role_exists", RoleName=name)
    iam.create_instance_profile(InstanceProfileName=name)
    wait(iam, "instance_profile_exists", InstanceProfileName=name)
    s3.create_bucket(Bucket=name)
    wait(s3, "bucket_exists", Bucket=name)
    s3.delete_bucket(Bucket=name)
    wait(s3, "bucket_not_exists", Bucket=name)
