"""The states of instances follow the states of their hosts."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from ..conftest import Account, Hosts, encoded, refused

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFKEhLHiVfhRWNJYeZi4tXrVTy8AzsGCvvTABqlPVUPR someone"


def test_pending_until_the_host_has_booted(account: Account, hosts: Hosts) -> None:
    hosts.boots.clear()
    instance = account.run(account.subnets()[0])[0]
    assert instance["State"] == {"Code": 0, "Name": "pending"}
    wait_until(lambda: instance["InstanceId"] in hosts.alive)
    assert account.state(instance["InstanceId"]) == "pending"
    hosts.boots.set()
    wait_until(lambda: account.state(instance["InstanceId"]) == "running")


def test_the_host_gets_what_the_instance_has(account: Account, hosts: Hosts) -> None:
    vpc = account.vpc()
    key = account.name("key")
    account.ec2.import_key_pair(KeyName=key, PublicKeyMaterial=KEY.encode())
    identifier = account.run(account.subnets(vpc=vpc)[0], KeyName=key, UserData="#cloud-config\n")[0]["InstanceId"]
    wait_until(lambda: account.state(identifier) == "running")
    instance, spec = account.instance(identifier), hosts.specs[identifier]
    assert (spec.network, spec.network_cidr, spec.private_ip) == (vpc, "10.7.0.0/16", instance["PrivateIpAddress"])
    assert spec.hostname == "ip-" + instance["PrivateIpAddress"].replace(".", "-")
    assert spec.user_data == b"#cloud-config\n"
    assert spec.public_keys == (KEY,)
    assert (spec.zone, spec.region, spec.instance_type, spec.public_ip) == ("us-east-1a", "us-east-1", "t3.micro", None)


def test_binary_user_data(account: Account, hosts: Hosts) -> None:
    data = b"\x1f\x8b\x00\xff"
    identifier = account.run(account.subnets()[0], UserData=data)[0]["InstanceId"]
    wait_until(lambda: identifier in hosts.specs)
    assert hosts.specs[identifier].user_data == data


def test_a_host_that_does_not_start(account: Account, hosts: Hosts) -> None:
    hosts.failure = "no space left"
    identifier = account.run(account.subnets()[0])[0]["InstanceId"]
    wait_until(lambda: account.state(identifier) == "terminated")
    reason = account.instance(identifier)["StateReason"]
    assert reason == {"Code": "Server.InternalError", "Message": "Server.InternalError: no space left"}


def test_a_host_that_is_lost(account: Account, hosts: Hosts) -> None:
    identifier = account.run(account.subnets()[0])[0]["InstanceId"]
    wait_until(lambda: account.state(identifier) == "running")
    hosts.alive.discard(identifier)
    wait_until(lambda: account.state(identifier) == "terminated")
    assert account.instance(identifier)["StateReason"]["Code"] == "Server.InternalError"


def test_termination_gives_everything_back(account: Account, hosts: Hosts) -> None:
    vpc = account.vpc()
    subnet = account.subnets("a", vpc, size=28)[0]
    free = account.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["AvailableIpAddressCount"]
    identifiers = [each["InstanceId"] for each in account.run(subnet, free)]
    with pytest.raises(ClientError, match="InsufficientFreeAddressesInSubnet"):
        account.run(subnet)
    result = account.ec2.terminate_instances(InstanceIds=identifiers)["TerminatingInstances"]
    assert {each["CurrentState"]["Name"] for each in result} <= {"shutting-down", "terminated"}
    wait_until(lambda: {account.state(each) for each in identifiers} == {"terminated"})
    assert not hosts.alive.intersection(identifiers)
    assert "PrivateIpAddress" not in account.instance(identifiers[0])
    assert account.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["AvailableIpAddressCount"] == free
    volumes = account.ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": identifiers}])["Volumes"]
    assert volumes == []
    account.ec2.delete_subnet(SubnetId=subnet)
    account.ec2.delete_vpc(VpcId=vpc)


def test_stop_and_start(account: Account, hosts: Hosts) -> None:
    identifier = account.run(account.subnets()[0])[0]["InstanceId"]
    wait_until(lambda: account.state(identifier) == "running")
    account.ec2.stop_instances(InstanceIds=[identifier])
    wait_until(lambda: account.state(identifier) == "stopped")
    assert identifier not in hosts.alive
    account.ec2.start_instances(InstanceIds=[identifier])
    wait_until(lambda: account.state(identifier) == "running")
    assert identifier in hosts.alive


def test_a_rebooting_instance_is_not_lost(account: Account, hosts: Hosts) -> None:
    identifier = account.run(account.subnets()[0])[0]["InstanceId"]
    wait_until(lambda: account.state(identifier) == "running")
    account.ec2.reboot_instances(InstanceIds=[identifier])
    wait_until(lambda: identifier in hosts.alive)
    assert account.state(identifier) == "running"


def test_an_instance_that_reboots_itself_keeps_its_state_and_address(account: Account, hosts: Hosts) -> None:
    identifier = account.run(account.subnets()[0])[0]["InstanceId"]
    wait_until(lambda: account.state(identifier) == "running")
    before = account.instance(identifier)["PrivateIpAddress"]
    hosts.rebooting.add(identifier)
    hosts.alive.discard(identifier)
    wait_until(lambda: identifier in hosts.alive)
    assert account.state(identifier) == "running"
    assert account.instance(identifier)["PrivateIpAddress"] == before


def test_console_output_is_the_hosts(account: Account) -> None:
    identifier = account.run(account.subnets()[0])[0]["InstanceId"]
    kernel = "[   14.203871] nvidia-nvlink: Nvlink Core is being initialized, major device number 236\r\n"
    boot = account.ec2.get_console_output(InstanceId=identifier)["Output"]
    assert boot == f"console of {identifier}\r\nis b{kernel}ooted\r\n"
    latest = account.ec2.get_console_output(InstanceId=identifier, Latest=True)["Output"]
    assert len(latest) == 64 * 1024
    assert latest.endswith("a job\r\n")
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        account.ec2.get_console_output(InstanceId="i-00000000000000000")


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ({"KeyName": "no-such-key"}, "InvalidKeyPair.NotFound"),
        ({"ImageId": "ami-00000000000000000"}, "InvalidAMIID.NotFound"),
        ({"InstanceType": "p4d.23xlarge"}, "InvalidParameterValue"),
        ({"SecurityGroupIds": ["sg-00000000000000000"]}, "InvalidGroup.NotFound"),
        ({"IamInstanceProfile": {"Name": "no-such-profile"}}, "InvalidParameterValue"),
        ({"Placement": {"GroupName": "no-such-group"}}, "InvalidPlacementGroup.Unknown"),
        ({"LaunchTemplate": {"LaunchTemplateId": "lt-00000000000000000"}}, "InvalidLaunchTemplateId.NotFound"),
    ],
)
def test_what_does_not_exist_is_refused(account: Account, extra: dict[str, object], code: str) -> None:
    with pytest.raises(ClientError) as caught:
        account.run(account.subnets()[0], **extra)
    assert caught.value.response["Error"]["Code"] == code


def test_a_type_that_the_zone_does_not_offer(account: Account) -> None:
    with pytest.raises(ClientError, match=r"Unsupported.*p4d.24xlarge.*us-east-1e"):
        account.run(account.subnets("e")[0], InstanceType="p4d.24xlarge")


def test_filters_by_tag_and_state(account: Account) -> None:
    subnet = account.subnets()[0]
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": account.name("team")}]}]
    wanted = account.run(subnet, TagSpecifications=tags)[0]["InstanceId"]
    account.run(subnet)
    wait_until(lambda: account.state(wanted) == "running")
    filters = [
        {"Name": "tag:team", "Values": [tags[0]["Tags"][0]["Value"]]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    found = account.ec2.describe_instances(Filters=filters)["Reservations"]
    assert [each["InstanceId"] for one in found for each in one["Instances"]] == [wanted]


def test_user_data_can_be_read_back(account: Account) -> None:
    identifier = account.run(account.subnets()[0], UserData="hello")[0]["InstanceId"]
    answer = account.ec2.describe_instance_attribute(InstanceId=identifier, Attribute="userData")
    assert answer["UserData"]["Value"] == encoded("hello")


def test_user_data_is_limited(account: Account) -> None:
    subnet = account.subnets()[0]
    account.run(subnet, UserData="x" * 16384)
    refused(lambda: account.run(subnet, UserData="x" * 16385), "InvalidParameterValue", "limited to 16384 bytes")
    template = account.template(UserData=encoded("x" * 16385))
    refused(lambda: account.group(0, [subnet], template), "ValidationError", "limited to 16384 bytes")


def test_a_new_instance_profile_is_visible_late(account: Account) -> None:
    account.control.set_delays(instance_profile=0.5)
    name, subnet, iam = account.name("profile"), account.subnets()[0], account.client("iam")
    profile = {"IamInstanceProfile": {"Name": name}}
    template = account.template(**profile)
    iam.create_instance_profile(InstanceProfileName=name)
    refused(lambda: account.run(subnet, **profile), "InvalidParameterValue", "Invalid IAM Instance Profile name")
    refused(lambda: account.group(0, [subnet], template), "ValidationError", "Invalid IAM Instance Profile name")
    account.control.set_delays(instance_profile=0)
    account.run(subnet, **profile)
    account.group(0, [subnet], template)
