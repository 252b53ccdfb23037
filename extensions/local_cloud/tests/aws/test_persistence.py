"""A new server continues from the saved state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from local_cloud.aws.app import AwsApi
from local_cloud.aws.context import CLOUD
from local_cloud.private_files import CloudError
from local_cloud.testing import wait_until
from moto.core.base_backend import BackendDict

from .conftest import TRUST_EC2, Account, Hosts


def save_and_load(cloud: AwsApi, folder: Path) -> None:
    """Save the state, clear the memory, and load the state."""
    cloud.save(folder / "state")
    BackendDict.reset()
    cloud.load(folder / "state")


def test_nothing_is_left_without_the_state(account: Account, cloud: AwsApi, tmp_path: Path) -> None:
    vpc = account.vpc()
    cloud.save(tmp_path / "state")
    BackendDict.reset()
    with pytest.raises(ClientError, match=r"InvalidVpcID\.NotFound"):
        account.ec2.describe_vpcs(VpcIds=[vpc])
    cloud.load(tmp_path / "state")
    assert account.ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"]


def test_groups_come_back(account: Account, cloud: AwsApi, hosts: Hosts, tmp_path: Path) -> None:
    subnets = account.subnets()
    group = account.group(2, subnets)
    wait_until(lambda: len(account.members(group)) == 2)
    members = sorted(account.members(group))
    activities = account.activities(group)
    addresses = {account.instance(each)["PrivateIpAddress"] for each in members}

    save_and_load(cloud, tmp_path)

    assert sorted(account.members(group)) == members
    assert account.activities(group) == activities
    new = account.run(subnets[0])[0]["PrivateIpAddress"]
    assert new not in addresses
    assert int(new.rpartition(".")[2]) > 3
    hosts.alive.discard(members[0])
    wait_until(lambda: members[0] not in account.members(group) and len(account.members(group)) == 2)


def test_file_systems_come_back(account: Account, cloud: AwsApi, tmp_path: Path) -> None:
    token = account.name("token")
    file_system = account.efs.create_file_system(CreationToken=token)["FileSystemId"]
    shared = account.efs.create_file_system(CreationToken=account.name("token"))["FileSystemId"]
    wait_until(lambda: account.efs.describe_file_systems(FileSystemId=shared)["FileSystems"][0]["LifeCycleState"] == "available")
    open_to_all = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["elasticfilesystem:ClientMount"]}
    # The state is saved immediately, while these changes are still pending
    account.efs.put_file_system_policy(FileSystemId=shared, Policy=json.dumps({"Version": "2012-10-17", "Statement": [open_to_all]}))
    account.efs.create_access_point(FileSystemId=shared, RootDirectory={"Path": "/a"})

    save_and_load(cloud, tmp_path)

    assert account.efs.describe_file_systems(CreationToken=token)["FileSystems"][0]["FileSystemId"] == file_system
    wait_until(lambda: account.efs.describe_file_systems(FileSystemId=file_system)["FileSystems"][0]["LifeCycleState"] == "available")
    wait_until(lambda: account.efs.describe_access_points(FileSystemId=shared)["AccessPoints"][0]["LifeCycleState"] == "available")
    assert "ClientMount" in account.efs.describe_file_system_policy(FileSystemId=shared)["Policy"]


def test_roles_keys_parameters_and_placement_groups_come_back(account: Account, cloud: AwsApi, tmp_path: Path) -> None:
    placement, role = account.name("placement"), account.name("role")
    account.ec2.create_placement_group(GroupName=placement, Strategy="cluster")
    iam = account.client("iam")
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(TRUST_EC2))
    iam.attach_role_policy(RoleName=role, PolicyArn="arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore")
    parameter = f"/{role}"
    account.client("ssm").put_parameter(Name=parameter, Value="x", Type="SecureString", Tags=[{"Key": "a", "Value": "b"}])
    key = account.client("kms").create_key(KeySpec="RSA_2048", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]

    save_and_load(cloud, tmp_path)

    assert account.ec2.describe_placement_groups(GroupNames=[placement])["PlacementGroups"]
    assert iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"][0]["PolicyName"] == "AmazonSSMManagedInstanceCore"
    assert account.client("ssm").get_parameter(Name=parameter, WithDecryption=True)["Parameter"]["Value"] == "x"
    assert account.client("kms").get_public_key(KeyId=key)["PublicKey"]


def test_limits_prices_quotas_and_reservations_come_back(account: Account, cloud: AwsApi, tmp_path: Path) -> None:
    subnet = account.subnets("a")[0]
    account.control.set_capacity({"g6.xlarge": {"us-east-1a": {"spot": 1}}})
    account.control.set_spot_prices({"g6.xlarge": 0.25})
    account.control.set_quotas({"L-2C3B7624": 192})
    block = account.control.reserve_capacity_block("p5.48xlarge", "us-east-1a", 2)
    market = {"InstanceType": "g6.xlarge", "InstanceMarketOptions": {"MarketType": "spot"}}
    spot = account.run(subnet, **market)[0]

    save_and_load(cloud, tmp_path)

    with pytest.raises(ClientError, match="There is no Spot capacity"):
        account.run(subnet, **market)
    assert account.instance(spot["InstanceId"])["SpotInstanceRequestId"] == spot["SpotInstanceRequestId"]
    price = account.ec2.describe_spot_price_history(InstanceTypes=["g6.xlarge"])["SpotPriceHistory"][0]
    assert float(price["SpotPrice"]) == 0.25
    assert account.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode="L-2C3B7624")["Quota"]["Value"] == 192
    assert account.ec2.describe_capacity_reservations(CapacityReservationIds=[block])["CapacityReservations"][0]["State"] == "active"


def test_a_state_can_be_saved_while_further_pages_wait(account: Account, cloud: AwsApi, tmp_path: Path) -> None:
    vpc = account.vpc()
    account.ec2.create_tags(Resources=[vpc, *account.subnets(vpc=vpc)], Tags=[{"Key": "pages", "Value": "two"}])
    pages = account.client("resourcegroupstaggingapi").get_resources(ResourcesPerPage=1, TagFilters=[{"Key": "pages"}])
    assert pages["PaginationToken"]
    save_and_load(cloud, tmp_path)
    assert account.ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"]


def test_a_state_of_another_version_is_refused(cloud: AwsApi, tmp_path: Path) -> None:
    """A state file from a different version could lack attributes that every iteration of the background thread needs."""
    state = tmp_path / "state.pickle"
    cloud.save(state)
    state.write_bytes(state.read_bytes().partition(b"\n")[2])
    with pytest.raises(CloudError, match="a different version"):
        cloud.load(state)


def test_hosts_that_are_down_are_started_again(
    account: Account, cloud: AwsApi, hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identifier = account.run(account.subnets()[0])[0]["InstanceId"]
    wait_until(lambda: account.state(identifier) == "running")
    monkeypatch.setattr(CLOUD.lifecycle, "poll", lambda: None)  # simulates a server that is not running

    cloud.save(tmp_path / "state")
    hosts.alive.discard(identifier)
    cloud.load(tmp_path / "state")
    wait_until(lambda: identifier in hosts.alive)
    monkeypatch.undo()
    assert account.state(identifier) == "running"
