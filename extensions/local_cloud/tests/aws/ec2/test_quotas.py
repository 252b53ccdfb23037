"""EC2 enforces service quotas."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import Control, wait_until

from ..conftest import Account

SPOT = {"InstanceMarketOptions": {"MarketType": "spot"}}
ON_DEMAND_TEXT = (
    "You have requested more vCPU capacity than your current vCPU limit of {} allows for the instance bucket that the specified instance "
    "type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit."
)


@pytest.mark.parametrize(
    ("code", "instance_type", "others", "extra", "error"),
    [
        ("L-417A185B", "p4d.24xlarge", "m5.large", {}, "VcpuLimitExceeded"),
        ("L-DB2E81BA", "g4dn.2xlarge", "p4d.24xlarge", {}, "VcpuLimitExceeded"),
        ("L-1216C47A", "c5.2xlarge", "g5.xlarge", {}, "VcpuLimitExceeded"),
        ("L-7212CCBC", "p4d.24xlarge", "p5.48xlarge", SPOT, "MaxSpotInstanceCountExceeded"),
        ("L-C4BD4855", "p5.48xlarge", "p4d.24xlarge", SPOT, "MaxSpotInstanceCountExceeded"),
        ("L-3819A6DF", "g4dn.2xlarge", "m5.large", SPOT, "MaxSpotInstanceCountExceeded"),
        ("L-34B43A08", "r5.2xlarge", "g5.xlarge", SPOT, "MaxSpotInstanceCountExceeded"),
    ],
)
def test_vcpus(account: Account, control: Control, code: str, instance_type: str, others: str, extra: dict[str, Any], error: str) -> None:
    control.set_quotas({code: 0})
    subnet = account.subnets("b")[0]
    with pytest.raises(ClientError) as caught:
        account.run(subnet, InstanceType=instance_type, **extra)
    assert caught.value.response["Error"] == {
        "Code": error,
        "Message": ON_DEMAND_TEXT.format(0) if error == "VcpuLimitExceeded" else "Max spot instance count exceeded",
    }
    account.run(subnet, InstanceType=others, **extra)
    account.run(subnet, InstanceType=instance_type, **({} if extra else SPOT))


def test_vcpus_are_counted_in_their_region_and_given_back(elsewhere: Account, account: Account, control: Control) -> None:
    control.set_quotas({"L-1945791B": 8})
    subnet = elsewhere.subnets("a")[0]
    request = {"ImageId": elsewhere.image_id, "InstanceType": "inf1.xlarge", "SubnetId": subnet}
    first = elsewhere.ec2.run_instances(MinCount=1, MaxCount=5, **request)["Instances"]
    assert len(first) == 2
    with pytest.raises(ClientError, match=r"VcpuLimitExceeded.*limit of 8 "):
        elsewhere.run(subnet, InstanceType="inf1.xlarge")
    account.run(account.subnets("a")[0], InstanceType="inf1.2xlarge")
    elsewhere.ec2.terminate_instances(InstanceIds=[first[0]["InstanceId"]])
    elsewhere.run(subnet, InstanceType="inf1.xlarge")


def test_a_group_says_which_quota(account: Account, control: Control) -> None:
    control.set_quotas({"L-DB2E81BA": 0})
    group = account.group(1, template=account.template(InstanceType="g4dn.xlarge"))
    activity = wait_until(lambda: account.activities(group))[-1]
    assert activity["StatusMessage"] == (
        f"Could not launch On-Demand Instances. VcpuLimitExceeded - {ON_DEMAND_TEXT.format(0)} Launching EC2 instance failed."
    )
    control.set_quotas({"L-DB2E81BA": None})
    wait_until(lambda: account.members(group))


def test_addresses_vpcs_and_nat_gateways(account: Account, control: Control) -> None:
    ec2, subnets = account.ec2, account.subnets("cd")
    control.set_quotas({"L-0263D0A3": len(ec2.describe_addresses()["Addresses"]) + 1})
    allocation = ec2.allocate_address(Domain="vpc")["AllocationId"]
    with pytest.raises(ClientError, match=r"AddressLimitExceeded.*The maximum number of addresses has been reached\."):
        ec2.allocate_address(Domain="vpc")
    ec2.release_address(AllocationId=allocation)
    ec2.allocate_address(Domain="vpc")
    control.set_quotas({"L-F678F1CE": len(ec2.describe_vpcs()["Vpcs"])})
    with pytest.raises(ClientError, match=r"VpcLimitExceeded.*The maximum number of VPCs has been reached\."):
        account.vpc()
    zones = {each["SubnetId"]: each["AvailabilityZone"] for each in ec2.describe_subnets()["Subnets"]}
    alive = ec2.describe_nat_gateways(Filter=[{"Name": "state", "Values": ["pending", "available"]}])["NatGateways"]
    control.set_quotas({"L-FE5A380F": sum(zones[each["SubnetId"]] == "us-east-1c" for each in alive) + 1})
    request = {"ConnectivityType": "private", "SubnetId": subnets[0], "ClientToken": account.name("token")}
    first = ec2.create_nat_gateway(**request)["NatGateway"]["NatGatewayId"]
    assert ec2.create_nat_gateway(**request)["NatGateway"]["NatGatewayId"] == first
    with pytest.raises(ClientError, match=r"NatGatewayLimitExceeded.*The maximum number of NAT Gateways has been reached\."):
        ec2.create_nat_gateway(**{**request, "ClientToken": account.name("token")})
    ec2.create_nat_gateway(ConnectivityType="private", SubnetId=subnets[1])
