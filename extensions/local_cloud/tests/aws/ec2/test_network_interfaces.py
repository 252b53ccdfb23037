"""Network interfaces and Elastic Fabric Adapters that instance types support."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from ..conftest import Account


def interface(card: int = 0, device: int = 0, kind: str = "efa", **extra: Any) -> dict[str, Any]:
    return {"NetworkCardIndex": card, "DeviceIndex": device, "InterfaceType": kind, **extra}


P4D = [interface(card, 1 if card else 0) for card in range(4)]


def test_an_interface_may_outlive_its_instance(account: Account) -> None:
    tags = [{"ResourceType": "network-interface", "Tags": [{"Key": "cluster", "Value": "bert"}]}]
    first, second = account.run(account.subnets("a")[0], 2, TagSpecifications=tags)
    kept = first["NetworkInterfaces"][0]
    change = {"AttachmentId": kept["Attachment"]["AttachmentId"], "DeleteOnTermination": False}
    with pytest.raises(ClientError, match=r"InvalidAttachmentID\.NotFound"):
        account.ec2.modify_network_interface_attribute(
            NetworkInterfaceId=kept["NetworkInterfaceId"], Attachment={**change, "AttachmentId": "eni-attach-0"}
        )
    account.ec2.modify_network_interface_attribute(NetworkInterfaceId=kept["NetworkInterfaceId"], Attachment=change)
    both = [first["InstanceId"], second["InstanceId"]]
    account.ec2.terminate_instances(InstanceIds=both)
    wait_until(lambda: {account.state(each) for each in both} == {"terminated"})
    ids = [kept["NetworkInterfaceId"], second["NetworkInterfaces"][0]["NetworkInterfaceId"]]
    found = account.ec2.describe_network_interfaces(Filters=[{"Name": "network-interface-id", "Values": ids}])["NetworkInterfaces"]
    assert [(each["NetworkInterfaceId"], each["Status"], each["TagSet"]) for each in found] == [(ids[0], "available", tags[0]["Tags"])]


@pytest.mark.parametrize(
    ("instance_type", "adapters", "cards"),
    [
        ("p4d.24xlarge", 4, 4),
        ("p5.48xlarge", 32, 32),
        ("g5.12xlarge", 1, 1),
        ("g6e.48xlarge", 4, 4),
        ("c5n.18xlarge", 1, 1),
        ("hpc7a.96xlarge", 2, 2),
        ("m5.large", None, 1),
    ],
)
def test_types_say_what_they_have(account: Account, instance_type: str, adapters: int | None, cards: int) -> None:
    found = account.ec2.describe_instance_types(InstanceTypes=[instance_type])["InstanceTypes"][0]["NetworkInfo"]
    assert found["EfaSupported"] is (adapters is not None)
    assert found.get("EfaInfo", {}).get("MaximumEfaInterfaces") == adapters
    assert (found["MaximumNetworkCards"], len(found["NetworkCards"])) == (cards, cards)


def test_one_adapter_on_every_card(account: Account) -> None:
    subnet = account.subnets("a", size=28)[0]
    wanted = [interface(), *(interface(card, 1, "efa-only") for card in range(1, 32))]
    instance = account.ec2.run_instances(
        ImageId=account.image_id,
        InstanceType="p5.48xlarge",
        MinCount=1,
        MaxCount=1,
        NetworkInterfaces=[{**each, "SubnetId": subnet} for each in reversed(wanted)],
    )["Instances"][0]
    instance = account.instance(instance["InstanceId"])
    found = [
        (each["Attachment"]["NetworkCardIndex"], each["Attachment"]["DeviceIndex"], each["InterfaceType"], "PrivateIpAddress" in each)
        for each in instance["NetworkInterfaces"]
    ]
    assert sorted(found) == [(0, 0, "efa", True), *((card, 1, "efa-only", False) for card in range(1, 32))]
    there = [{"Name": "attachment.instance-id", "Values": [instance["InstanceId"]]}]
    assert len(account.ec2.describe_network_interfaces(Filters=there)["NetworkInterfaces"]) == 32
    primary = next(each for each in instance["NetworkInterfaces"] if each["InterfaceType"] == "efa")
    assert instance["PrivateIpAddress"] == primary["PrivateIpAddress"]
    assert account.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["AvailableIpAddressCount"] == 10
    account.ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])
    wait_until(lambda: account.state(instance["InstanceId"]) == "terminated")
    assert account.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["AvailableIpAddressCount"] == 11
    account.ec2.delete_subnet(SubnetId=subnet)


@pytest.mark.parametrize(
    ("instance_type", "interfaces", "code", "words"),
    [
        ("m5.large", [interface()], "InvalidParameterCombination", "m5.large instances do not support Elastic Fabric Adapters."),
        ("p4d.24xlarge", [*P4D, interface(4, 1)], "InvalidParameterValue", "network cards 0 to 3"),
        ("p4d.24xlarge", [*P4D, interface(3, 2)], "AttachmentLimitExceeded", "EFA interface count 5 exceeds the limit for p4d.24xlarge"),
        ("g5.12xlarge", [interface(), interface(0, 1)], "AttachmentLimitExceeded", "EFA interface count 2"),
        ("p4d.24xlarge", [interface(kind="efa-only")], "InvalidParameterCombination", "efa-only"),
        ("p4d.24xlarge", [interface(1, 1)], "InvalidParameterCombination", "primary"),
        ("p4d.24xlarge", [interface(), interface(1, 1), interface(1, 1, "interface")], "InvalidParameterValue", "unique device index"),
        ("m5.large", [interface(0, n, "interface") for n in range(4)], "AttachmentLimitExceeded", "Interface count 4"),
        (
            "p4d.24xlarge",
            [{**P4D[0], "AssociatePublicIpAddress": True}, *P4D[1:]],
            "InvalidParameterCombination",
            "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.",
        ),
    ],
)
def test_interfaces_that_a_type_cannot_have(
    account: Account, instance_type: str, interfaces: list[dict[str, Any]], code: str, words: str
) -> None:
    template = account.template(InstanceType=instance_type, NetworkInterfaces=interfaces)
    with pytest.raises(ClientError) as caught:
        account.ec2.run_instances(MinCount=1, MaxCount=1, LaunchTemplate={"LaunchTemplateName": template})
    assert caught.value.response["Error"]["Code"] == code
    assert words in caught.value.response["Error"]["Message"]
    with pytest.raises(ClientError, match="You must use a valid fully-formed launch template") as caught:
        account.group(0, template=template)
    assert words in str(caught.value)


def test_public_addresses_are_for_instances_with_one_interface(account: Account) -> None:
    subnet = account.subnets("a")[0]
    account.ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
    for interfaces, public in (
        ([interface(AssociatePublicIpAddress=True)], True),
        ([interface(AssociatePublicIpAddress=False)], False),
        ([{**each, "AssociatePublicIpAddress": False} for each in P4D], False),
        (P4D, False),
    ):
        instance = account.ec2.run_instances(
            ImageId=account.image_id,
            InstanceType="p4d.24xlarge",
            MinCount=1,
            MaxCount=1,
            NetworkInterfaces=[{**each, "SubnetId": subnet} for each in interfaces],
        )["Instances"][0]
        assert ("PublicIpAddress" in account.instance(instance["InstanceId"])) is public


def test_a_launch_into_a_subnet_that_is_nearly_full_leaves_nothing(account: Account) -> None:
    subnet = account.subnets("a", size=28)[0]
    account.run(subnet, 9)
    with pytest.raises(ClientError, match="InsufficientFreeAddressesInSubnet"):
        account.run(subnet, 3)
    there = [{"Name": "subnet-id", "Values": [subnet]}]
    assert sum(len(each["Instances"]) for each in account.ec2.describe_instances(Filters=there)["Reservations"]) == 9
