"""Availability Zones, and a Local Zone that offers fewer services."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from local_cloud.aws.ec2.availability_zones import DALLAS
from local_cloud.testing import wait_until

from ..conftest import Account


def test_zones_of_all_types(account: Account) -> None:
    zones = {each["ZoneName"]: each for each in account.ec2.describe_availability_zones()["AvailabilityZones"]}
    local = zones.pop(DALLAS.name)
    assert (local["ZoneType"], local["OptInStatus"], local["GroupName"]) == ("local-zone", "opted-in", "us-east-1-dfw-2")
    assert {each["ZoneType"] for each in zones.values()} == {"availability-zone"}
    assert {each["OptInStatus"] for each in zones.values()} == {"opt-in-not-required"}
    filters = [{"Name": "zone-type", "Values": ["availability-zone"]}]
    described = account.ec2.describe_availability_zones(Filters=filters)["AvailabilityZones"]
    assert {each["ZoneName"] for each in described} == set(zones)


def test_a_local_zone_has_subnets_but_no_file_systems(account: Account) -> None:
    defaults = account.ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
    assert DALLAS.name not in {each["AvailabilityZone"] for each in defaults}
    vpc = account.vpc()
    block = account.ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["CidrBlock"]
    subnet = account.ec2.create_subnet(VpcId=vpc, CidrBlock=block, AvailabilityZone=DALLAS.name)["Subnet"]
    assert subnet["AvailabilityZone"] == DALLAS.name
    identifier = account.efs.create_file_system(CreationToken=account.name("token"))["FileSystemId"]
    wait_until(lambda: account.efs.describe_file_systems(FileSystemId=identifier)["FileSystems"][0]["LifeCycleState"] == "available")
    with pytest.raises(ClientError) as caught:
        account.efs.create_mount_target(FileSystemId=identifier, SubnetId=subnet["SubnetId"])
    assert caught.value.response["Error"]["Code"] == "UnsupportedAvailabilityZone"
    account.ec2.delete_subnet(SubnetId=subnet["SubnetId"])  # moto treats the first subnet of a zone as its default subnet
