"""Spot Instances: capacity, prices, and interruption."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.aws.ec2.instance_metadata import InstanceMetadata
from local_cloud.testing import Control, wait_until
from werkzeug.test import Client

from ..conftest import Account

TYPE, ZONE = "g5.12xlarge", "us-east-1a"


def options(instance_type: str = TYPE, **spot: Any) -> dict[str, Any]:
    return {"InstanceType": instance_type, "InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": spot}}


def test_an_instance_says_that_it_is_spot(account: Account) -> None:
    tags = [{"ResourceType": "spot-instances-request", "Tags": [{"Key": "a", "Value": "b"}]}]
    instance = account.run(account.subnets("a")[0], **options(MaxPrice="9"), TagSpecifications=tags)[0]
    assert instance["InstanceLifecycle"] == "spot"
    request = account.ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[instance["SpotInstanceRequestId"]])
    found = request["SpotInstanceRequests"][0]
    assert (found["InstanceId"], found["State"], found["Status"]["Code"]) == (instance["InstanceId"], "active", "fulfilled")
    assert (found["SpotPrice"], found["Type"], found["Tags"]) == ("9", "one-time", [{"Key": "a", "Value": "b"}])
    assert found["LaunchSpecification"]["InstanceType"] == TYPE
    lifecycle = [{"Name": "instance-lifecycle", "Values": ["spot"]}]
    spot = account.ec2.describe_instances(Filters=lifecycle, InstanceIds=[instance["InstanceId"]])["Reservations"]
    assert len(spot) == 1
    assert "InstanceLifecycle" not in account.run(account.subnets("a")[0])[0]


def test_without_a_spot_request_none_can_be_tagged(account: Account) -> None:
    """https://github.com/aws/karpenter-provider-aws/issues/5850"""
    tags = [{"ResourceType": "spot-instances-request", "Tags": [{"Key": "a", "Value": "b"}]}]
    with pytest.raises(ClientError, match="You cannot specify tags for Spot instances requests if there are no Spot instances requests"):
        account.run(account.subnets("a")[0], TagSpecifications=tags)
    with pytest.raises(ClientError, match="You cannot specify tags for Spot instances requests"):
        account.group(1, account.subnets("a"), account.template(TagSpecifications=tags))


def test_markets_have_capacity_of_their_own(account: Account, control: Control) -> None:
    subnet, rare = account.subnets("a")[0], "g5.24xlarge"
    control.set_capacity({rare: {ZONE: {"on-demand": 0, "spot": 1}}})
    with pytest.raises(ClientError, match=r"InsufficientInstanceCapacity.*We currently do not have sufficient"):
        account.run(subnet, InstanceType=rare)
    account.run(subnet, **options(rare))
    with pytest.raises(ClientError, match=r"InsufficientInstanceCapacity.*There is no Spot capacity available that matches your request\."):
        account.run(subnet, **options(rare))
    control.set_capacity({rare: {ZONE: 1}})
    account.run(subnet, InstanceType=rare)
    with pytest.raises(ValueError, match="'lunch'"):
        control.set_capacity({rare: {ZONE: {"lunch": 1}}})


@pytest.mark.parametrize(
    ("capacity", "most", "message"),
    [
        (0, None, "InsufficientInstanceCapacity - There is no Spot capacity available that matches your request."),
        (
            None,
            "0.01",
            "SpotMaxPriceTooLow - Your Spot request price of 0.01 is lower than the minimum required Spot request "
            "fulfillment price of 2.5.",
        ),
    ],
)
def test_a_group_says_why_it_got_none(account: Account, control: Control, capacity: int | None, most: str | None, message: str) -> None:
    control.set_capacity({TYPE: {ZONE: {"spot": capacity}}})
    control.set_spot_prices({TYPE: 2.5})
    template = account.template(**options(**({"MaxPrice": most} if most else {})))
    group = account.group(1, account.subnets("a"), template)
    activity = wait_until(lambda: account.activities(group))[-1]
    assert activity["StatusCode"] == "Failed"
    assert activity["StatusMessage"] == f"Could not launch Spot Instances. {message} Launching EC2 instance failed."
    control.set_capacity({TYPE: {ZONE: {"spot": None}}})
    control.set_spot_prices({TYPE: 0.005})
    wait_until(lambda: account.members(group))


def test_price_history(account: Account, control: Control) -> None:
    def prices(**request: Any) -> dict[tuple[str, str], float]:
        found = account.ec2.describe_spot_price_history(**request)["SpotPriceHistory"]
        assert {each["ProductDescription"] for each in found} <= {"Linux/UNIX"}
        return {(each["InstanceType"], each["AvailabilityZone"]): float(each["SpotPrice"]) for each in found}

    control.set_spot_prices({TYPE: 2.5})
    found = prices(InstanceTypes=[TYPE, "m5.large", "hpc7a.96xlarge"], ProductDescriptions=["Linux/UNIX"])
    assert found[TYPE, ZONE] == 2.5
    assert 0 < found["m5.large", ZONE] < 2.5
    assert "hpc7a.96xlarge" not in str(found)  # this type has no Spot market
    assert prices(InstanceTypes=[TYPE], AvailabilityZone="us-east-1b") == {(TYPE, "us-east-1b"): 2.5}
    assert prices(InstanceTypes=[TYPE], ProductDescriptions=["Windows"]) == {}
    pages = account.ec2.get_paginator("describe_spot_price_history").paginate(Filters=[{"Name": "availability-zone", "Values": [ZONE]}])
    everything = [each["InstanceType"] for page in pages for each in page["SpotPriceHistory"]]
    assert len(everything) == len(set(everything)) > 500
    control.set_spot_prices({TYPE: None})
    assert prices(InstanceTypes=[TYPE])[TYPE, ZONE] > 2.5
    with pytest.raises(ClientError, match="Unsupported"):
        account.run(account.subnets("a")[0], **options("hpc7a.96xlarge"))


def test_an_interrupted_instance_is_replaced(account: Account, control: Control) -> None:
    rare = "g5.48xlarge"
    group = account.group(1, account.subnets("a"), account.template(**options(rare)))
    victim = wait_until(lambda: account.members(group))[0]
    request = account.instance(victim)["SpotInstanceRequestId"]
    control.set_capacity({rare: {ZONE: {"spot": 0}}})
    control.interrupt(victim)
    wait_until(lambda: account.state(victim) == "terminated")
    instance = account.instance(victim)
    assert instance["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert instance["StateTransitionReason"].startswith("Service initiated")
    found = account.ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[request])["SpotInstanceRequests"][0]
    assert (found["State"], found["Status"]["Code"]) == ("closed", "instance-terminated-no-capacity")
    wait_until(lambda: "There is no Spot capacity" in str(account.activities(group)))
    control.set_capacity({rare: {ZONE: {"spot": 1}}})
    assert wait_until(lambda: account.members(group)) != [victim]
    ordinary = account.run(account.subnets("a")[0])[0]["InstanceId"]
    with pytest.raises(ValueError, match="is not a Spot Instance"):
        control.interrupt(ordinary)


def test_the_metadata_announces_an_interruption(account: Account, control: Control) -> None:
    victim, other = (account.run(account.subnets("a")[0], **options())[0]["InstanceId"] for _instance in range(2))

    def metadata(instance: str, item: str) -> Any:
        client = Client(InstanceMetadata(instance))
        token = client.put("/latest/api/token", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"}).text
        return client.get(f"/latest/meta-data/{item}", headers={"X-aws-ec2-metadata-token": token})

    assert metadata(victim, "instance-life-cycle").text == "spot"
    assert metadata(victim, "spot/instance-action").status_code == 404
    control.interrupt(victim, notice=3)
    notice = json.loads(metadata(victim, "spot/instance-action").text)
    assert notice == {"action": "terminate", "time": metadata(victim, "spot/termination-time").text}
    assert metadata(other, "spot/instance-action").status_code == 404
    assert account.state(victim) != "terminated"
    wait_until(lambda: account.state(victim) == "terminated")
    with pytest.raises(ValueError, match="notice: the value is not a number of seconds"):
        control.interrupt(other, notice=-1)
