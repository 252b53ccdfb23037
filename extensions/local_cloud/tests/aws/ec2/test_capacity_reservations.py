"""Capacity Reservations and Capacity Blocks reserve capacity."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import Control, wait_until

from ..conftest import Account

TYPE, ZONE = "p4d.24xlarge", "us-east-1a"
GROUP = {"CapacityReservationResourceGroupArn": "arn:aws:resource-groups:us-east-1:123456789012:group/ours"}


def reserve(account: Account, count: int = 2, match: str = "targeted", **extra: Any) -> str:
    request = {"InstanceType": TYPE, "InstancePlatform": "Linux/UNIX", "AvailabilityZone": ZONE, "InstanceCount": count, **extra}
    created = account.ec2.create_capacity_reservation(InstanceMatchCriteria=match, **request)["CapacityReservation"]
    assert created["State"] == "active"
    return str(created["CapacityReservationId"])


def described(account: Account, identifier: str) -> dict[str, Any]:
    found: dict[str, Any] = account.ec2.describe_capacity_reservations(CapacityReservationIds=[identifier])["CapacityReservations"][0]
    return found


def available(account: Account, identifier: str) -> int:
    return int(described(account, identifier)["AvailableInstanceCount"])


def into(identifier: str, market: str | None = None) -> dict[str, Any]:
    """Return launch data that targets a reservation."""
    data: dict[str, Any] = {
        "InstanceType": TYPE,
        "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": identifier}},
    }
    return {**data, "InstanceMarketOptions": {"MarketType": market}} if market else data


def test_a_reservation_is_used_up_and_given_back(account: Account, control: Control) -> None:
    subnet, identifier = account.subnets("a")[0], reserve(account)
    control.set_capacity({TYPE: {ZONE: 0}})
    first = account.run(subnet, 2, **into(identifier))[0]
    assert first["CapacityReservationId"] == identifier
    assert first["CapacityReservationSpecification"]["CapacityReservationTarget"]["CapacityReservationId"] == identifier
    assert available(account, identifier) == 0
    with pytest.raises(ClientError, match=r"ReservationCapacityExceeded.*sufficient compatible and available capacity"):
        account.run(subnet, **into(identifier))
    account.ec2.terminate_instances(InstanceIds=[first["InstanceId"]])
    assert available(account, identifier) == 1
    with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
        account.run(subnet, InstanceType=TYPE)
    second = account.run(subnet, **into(identifier))[0]
    inside = [
        {"Name": "capacity-reservation-id", "Values": [identifier]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    found = [each for one in account.ec2.describe_instances(Filters=inside)["Reservations"] for each in one["Instances"]]
    assert second["InstanceId"] in [each["InstanceId"] for each in found]
    assert len(found) == 2


@pytest.mark.parametrize(
    ("zone", "extra", "code"),
    [
        ("a", {"InstanceType": "g5.xlarge"}, "ReservationCapacityExceeded"),
        ("b", {}, "ReservationCapacityExceeded"),
        ("a", {"InstanceMarketOptions": {"MarketType": "spot"}}, "InvalidParameterCombination"),
        ("a", {"InstanceMarketOptions": {"MarketType": "capacity-block"}}, "InvalidParameterCombination"),
        ("a", into("cr-00000000000000000"), "InvalidCapacityReservationId.NotFound"),
        ("a", {"CapacityReservationSpecification": {"CapacityReservationTarget": GROUP}}, "UnsupportedOperation"),
    ],
)
def test_launches_that_do_not_fit(account: Account, zone: str, extra: dict[str, Any], code: str) -> None:
    identifier = reserve(account)
    with pytest.raises(ClientError) as caught:
        account.run(account.subnets(zone)[0], **{**into(identifier), **extra})
    assert caught.value.response["Error"]["Code"] == code
    assert available(account, identifier) == 2


def test_a_reservation_is_described_by_its_id(account: Account) -> None:
    identifier, other = reserve(account), reserve(account)
    described = account.ec2.describe_capacity_reservations(CapacityReservationIds=[identifier])["CapacityReservations"]
    assert [each["CapacityReservationId"] for each in described] == [identifier] != [other]
    by_state = account.ec2.describe_capacity_reservations(Filters=[{"Name": "state", "Values": ["active"]}])["CapacityReservations"]
    assert {identifier, other} <= {each["CapacityReservationId"] for each in by_state}


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"Filters": [{"Name": "capacity-reservation-id", "Values": ["cr-00000000000000000"]}]}, "InvalidParameterValue"),
        ({"Filters": [{"Name": "tag:Name", "Values": ["mine"]}]}, "InvalidParameterValue"),
        ({"CapacityReservationIds": ["cr-00000000000000000"]}, "InvalidCapacityReservationId.NotFound"),
        ({"CapacityReservationIds": ["my-reservation"]}, "InvalidCapacityReservationId.Malformed"),
    ],
)
def test_what_names_no_reservation_is_refused(account: Account, request_: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as caught:
        account.ec2.describe_capacity_reservations(**request_)
    assert caught.value.response["Error"]["Code"] == code


@pytest.mark.parametrize(("preference", "used"), [(None, True), ("open", True), ("capacity-reservations-only", True), ("none", False)])
def test_open_reservations_take_what_fits(account: Account, control: Control, preference: str | None, used: bool) -> None:
    zone = f"us-east-1{'abcd'[[None, 'open', 'capacity-reservations-only', 'none'].index(preference)]}"
    identifier = reserve(account, 1, "open", AvailabilityZone=zone, InstanceType="g5.12xlarge")
    data: dict[str, Any] = {"InstanceType": "g5.12xlarge"}
    if preference:
        data["CapacityReservationSpecification"] = {"CapacityReservationPreference": preference}
    instance = account.run(account.subnets(zone[-1])[0], **data)[0]
    assert (instance.get("CapacityReservationId") == identifier) is used
    assert available(account, identifier) == (0 if used else 1)
    if preference == "capacity-reservations-only":
        with pytest.raises(ClientError, match="ReservationCapacityExceeded"):
            account.run(account.subnets(zone[-1])[0], **data)
    account.ec2.cancel_capacity_reservation(CapacityReservationId=identifier)


def test_a_group_launches_into_its_reservation(account: Account, control: Control) -> None:
    identifier = reserve(account, 1)
    control.set_capacity({TYPE: {ZONE: 0}})
    group = account.group(2, account.subnets("ab"), account.template(**into(identifier)))
    member = wait_until(lambda: account.members(group))[0]
    assert account.instance(member)["CapacityReservationId"] == identifier
    activity = wait_until(lambda: [each for each in account.activities(group) if each["StatusCode"] == "Failed"])[0]
    assert activity["StatusMessage"] == (
        "Could not launch On-Demand Instances. ReservationCapacityExceeded - The requested reservation does not have sufficient "
        "compatible and available capacity for this request. Launching EC2 instance failed."
    )
    control.set_capacity({TYPE: {ZONE: None}})
    account.ec2.modify_capacity_reservation(CapacityReservationId=identifier, InstanceCount=2)
    wait_until(lambda: len(account.members(group)) == 2)


def test_describe_modify_and_cancel(account: Account) -> None:
    name, later = account.name("reservation"), datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "name", "Value": name}]}]
    token = account.name("token")
    identifier = reserve(account, TagSpecifications=tags, ClientToken=token)
    assert reserve(account, TagSpecifications=tags, ClientToken=token) == identifier
    other = reserve(account, InstanceType="g5.xlarge", AvailabilityZone="us-east-1b")

    def found(**filters: str) -> list[str]:
        wanted = [{"Name": key.replace("_", "-"), "Values": [value]} for key, value in filters.items()]
        return [
            each["CapacityReservationId"] for each in account.ec2.describe_capacity_reservations(Filters=wanted)["CapacityReservations"]
        ]

    assert [each["Value"] for each in described(account, identifier)["Tags"]] == [name]
    for filters in ({"instance_type": "g5.xlarge"}, {"availability_zone": "us-east-1b"}):
        assert other in found(state="active", **filters)
        assert identifier not in found(**filters)
    account.ec2.modify_capacity_reservation(CapacityReservationId=identifier, InstanceCount=5, EndDateType="limited", EndDate=later)
    changed = described(account, identifier)
    assert (changed["TotalInstanceCount"], changed["EndDateType"], changed["EndDate"]) == (5, "limited", later)
    account.ec2.create_tags(Resources=[identifier], Tags=[{"Key": "later", "Value": "too"}])
    assert described(account, identifier)["Tags"] == [{"Key": "name", "Value": name}, {"Key": "later", "Value": "too"}]
    account.ec2.modify_capacity_reservation(CapacityReservationId=identifier, EndDateType="unlimited")
    assert "EndDate" not in described(account, identifier)
    instance = account.run(account.subnets("a")[0], **into(identifier))[0]["InstanceId"]
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        account.ec2.modify_capacity_reservation(CapacityReservationId=identifier, InstanceCount=0)
    account.ec2.cancel_capacity_reservation(CapacityReservationId=identifier)
    assert (described(account, identifier)["State"], available(account, identifier)) == ("cancelled", 0)
    assert account.state(instance) in ("pending", "running")
    for call in (account.ec2.cancel_capacity_reservation, account.ec2.modify_capacity_reservation):
        with pytest.raises(ClientError, match=r"InvalidCapacityReservationId\.NotFound"):
            call(CapacityReservationId="cr-00000000000000000")


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ({"InstanceType": "p4d.23xlarge"}, "InvalidParameterValue"),
        ({"AvailabilityZone": "us-east-1e"}, "Unsupported"),
        ({"EndDateType": "limited"}, "MissingParameter"),
        ({"EndDate": datetime(2040, 1, 1, tzinfo=UTC)}, "InvalidParameterCombination"),
        ({"InstanceCount": 9}, "InsufficientInstanceCapacity"),
    ],
)
def test_what_cannot_be_reserved(account: Account, control: Control, extra: dict[str, Any], code: str) -> None:
    control.set_capacity({TYPE: {ZONE: 8}})
    with pytest.raises(ClientError) as caught:
        reserve(account, **extra)
    assert caught.value.response["Error"]["Code"] == code


def test_a_capacity_block_is_bought_and_waited_for(account: Account) -> None:
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    request = {"InstanceType": "p5.48xlarge", "InstanceCount": 2, "CapacityDurationHours": 48}
    offers = account.ec2.describe_capacity_block_offerings(StartDateRange=start, **request)["CapacityBlockOfferings"]
    offer = offers[0]
    assert (offer["StartDate"], offer["EndDate"] - offer["StartDate"]) == (start, timedelta(hours=48))
    assert float(offer["UpfrontFee"]) > 0
    assert account.ec2.describe_capacity_block_offerings(EndDateRange=start - timedelta(days=2), **request)["CapacityBlockOfferings"] == []
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "a", "Value": "b"}]}]
    bought = account.ec2.purchase_capacity_block(
        CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX", TagSpecifications=tags
    )["CapacityReservation"]
    assert (bought["ReservationType"], bought["State"], bought["InstanceMatchCriteria"]) == ("capacity-block", "scheduled", "targeted")
    assert (bought["StartDate"], bought["EndDateType"], bought["Tags"]) == (start, "limited", [{"Key": "a", "Value": "b"}])
    identifier = bought["CapacityReservationId"]
    subnet = account.subnets(offer["AvailabilityZone"][-1])[0]
    with pytest.raises(ClientError, match=r"InvalidCapacityReservationState\.PendingActivation.*not active yet"):
        account.run(subnet, **{**into(identifier, "capacity-block"), "InstanceType": "p5.48xlarge"})
    with pytest.raises(ClientError, match="UnsupportedOperation"):
        account.ec2.cancel_capacity_reservation(CapacityReservationId=identifier)
    with pytest.raises(ClientError, match="InvalidCapacityBlockOfferingIdNotFound"):
        account.ec2.purchase_capacity_block(CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX")
    with pytest.raises(ClientError, match="Unsupported"):
        account.ec2.describe_capacity_block_offerings(**{**request, "InstanceType": "m5.large"})


def test_an_active_capacity_block(account: Account, control: Control) -> None:
    block = control.reserve_capacity_block(TYPE, ZONE, 1, tags={"a": "b"})
    control.set_capacity({TYPE: {ZONE: 0}})
    control.set_quotas({"L-417A185B": 0})  # this quota does not apply to Capacity Blocks
    subnet = account.subnets("a")[0]
    for data in (into(block), {"InstanceType": TYPE, "InstanceMarketOptions": {"MarketType": "capacity-block"}}):
        with pytest.raises(ClientError, match="InvalidParameterCombination"):
            account.run(subnet, **data)
    group = account.group(1, [subnet], account.template(**into(block, "capacity-block")))
    member = wait_until(lambda: account.members(group))[0]
    instance = account.instance(member)
    assert (instance["InstanceLifecycle"], instance["CapacityReservationId"]) == ("capacity-block", block)
    assert (described(account, block)["State"], available(account, block)) == ("active", 0)


def test_instances_end_before_their_capacity_block(account: Account, control: Control) -> None:
    control.set_delays(block_end=3600)
    block = control.reserve_capacity_block(TYPE, ZONE, 1, duration=3601.5)
    instance = account.run(account.subnets("a")[0], **into(block, "capacity-block"))[0]["InstanceId"]
    wait_until(lambda: account.state(instance) == "terminated")
    assert (described(account, block)["State"], available(account, block)) == ("active", 0)
    with pytest.raises(ClientError, match="ReservationCapacityExceeded"):
        account.run(account.subnets("a")[0], **into(block, "capacity-block"))


def test_a_capacity_block_ends_with_its_instances(account: Account, control: Control) -> None:
    control.set_delays(block_end=0)
    block = control.reserve_capacity_block(TYPE, ZONE, 1, duration=0.5)
    instance = account.run(account.subnets("a")[0], **into(block, "capacity-block"))[0]["InstanceId"]
    wait_until(lambda: account.state(instance) == "terminated")
    assert described(account, block)["State"] == "expired"
    with pytest.raises(ClientError, match="ReservationCapacityExceeded"):
        account.run(account.subnets("a")[0], **into(block, "capacity-block"))
