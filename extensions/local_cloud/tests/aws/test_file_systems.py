"""EFS takes time, and has the calls that moto lacks."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import Account, until


@pytest.fixture
def file_system(account: Account) -> str:
    created = account.efs.create_file_system(CreationToken=account.name("token"), Encrypted=True, ThroughputMode="elastic")
    assert (created["LifeCycleState"], created["Encrypted"]) == ("creating", True)
    return str(created["FileSystemId"])


def code(caught: pytest.ExceptionInfo[ClientError]) -> str:
    return str(caught.value.response["Error"]["Code"])


def state(account: Account, file_system: str) -> str:
    found: list[dict[str, Any]] = account.efs.describe_file_systems(FileSystemId=file_system)["FileSystems"]
    return str(found[0]["LifeCycleState"])


def target_states(account: Account, file_system: str) -> list[str]:
    return [each["LifeCycleState"] for each in account.efs.describe_mount_targets(FileSystemId=file_system)["MountTargets"]]


def test_from_creation_to_deletion(account: Account, file_system: str) -> None:
    efs, ec2 = account.efs, account.ec2
    vpc = account.vpc()
    first, second = account.subnets("ab", vpc)
    group = ec2.create_security_group(GroupName="nfs", Description="d", VpcId=vpc)["GroupId"]
    with pytest.raises(ClientError) as caught:
        efs.create_mount_target(FileSystemId=file_system, SubnetId=first)
    assert code(caught) == "IncorrectFileSystemLifeCycleState"
    until(lambda: state(account, file_system) == "available")
    target = efs.create_mount_target(FileSystemId=file_system, SubnetId=first, SecurityGroups=[group])
    assert target["LifeCycleState"] == "creating"
    efs.create_mount_target(FileSystemId=file_system, SubnetId=second)
    until(lambda: target_states(account, file_system) == ["available"] * 2)
    with pytest.raises(ClientError) as caught:
        efs.create_mount_target(FileSystemId=file_system, SubnetId=first)
    assert code(caught) == "MountTargetConflict"
    assert efs.describe_mount_target_security_groups(MountTargetId=target["MountTargetId"])["SecurityGroups"] == [group]
    interface = ec2.describe_network_interfaces(NetworkInterfaceIds=[target["NetworkInterfaceId"]])["NetworkInterfaces"][0]
    assert (interface["PrivateIpAddress"], interface["SubnetId"]) == (target["IpAddress"], first)
    assert [each["GroupId"] for each in interface["Groups"]] == [group]
    for call in (lambda: ec2.delete_subnet(SubnetId=first), lambda: ec2.delete_security_group(GroupId=group)):
        with pytest.raises(ClientError) as caught:
            call()
        assert code(caught) == "DependencyViolation"
    with pytest.raises(ClientError) as caught:
        efs.delete_file_system(FileSystemId=file_system)
    assert code(caught) == "FileSystemInUse"
    for each in efs.describe_mount_targets(FileSystemId=file_system)["MountTargets"]:
        efs.delete_mount_target(MountTargetId=each["MountTargetId"])
    assert target_states(account, file_system) == ["deleting"] * 2
    until(lambda: target_states(account, file_system) == [])
    ec2.delete_subnet(SubnetId=first)
    ec2.delete_security_group(GroupId=group)
    efs.delete_file_system(FileSystemId=file_system)
    with pytest.raises(ClientError) as caught:
        until(lambda: state(account, file_system) == "gone")
    assert code(caught) == "FileSystemNotFound"


def test_a_creation_token_is_used_once(account: Account) -> None:
    token = account.name("token")
    first = account.efs.create_file_system(CreationToken=token)["FileSystemId"]
    with pytest.raises(ClientError) as caught:
        account.efs.create_file_system(CreationToken=token)
    assert code(caught) == "FileSystemAlreadyExists"
    assert caught.value.response["FileSystemId"] == first


def test_settings(account: Account, file_system: str) -> None:
    efs = account.efs
    assert efs.describe_backup_policy(FileSystemId=file_system)["BackupPolicy"] == {"Status": "DISABLED"}
    efs.put_backup_policy(FileSystemId=file_system, BackupPolicy={"Status": "ENABLED"})
    assert efs.describe_backup_policy(FileSystemId=file_system)["BackupPolicy"] == {"Status": "ENABLED"}
    efs.update_file_system(FileSystemId=file_system, ThroughputMode="provisioned", ProvisionedThroughputInMibps=64)
    found = efs.describe_file_systems(FileSystemId=file_system)["FileSystems"][0]
    assert (found["ThroughputMode"], found["ProvisionedThroughputInMibps"]) == ("provisioned", 64)
    policies = [{"TransitionToIA": "AFTER_30_DAYS"}]
    efs.put_lifecycle_configuration(FileSystemId=file_system, LifecyclePolicies=policies)
    assert efs.describe_lifecycle_configuration(FileSystemId=file_system)["LifecyclePolicies"] == policies


def test_tags(account: Account, file_system: str) -> None:
    account.efs.tag_resource(ResourceId=file_system, Tags=[{"Key": "Name", "Value": "data"}, {"Key": "a", "Value": "b"}])
    account.efs.untag_resource(ResourceId=file_system, TagKeys=["a"])
    found = account.efs.describe_file_systems(FileSystemId=file_system)["FileSystems"][0]
    assert (found["Name"], found["Tags"]) == ("data", [{"Key": "Name", "Value": "data"}])


def test_first_generation_tag_calls(account: Account, file_system: str) -> None:
    efs = account.efs
    efs.create_tags(FileSystemId=file_system, Tags=[{"Key": "Name", "Value": "data"}, {"Key": "a", "Value": "b"}])
    assert efs.describe_tags(FileSystemId=file_system)["Tags"] == [{"Key": "Name", "Value": "data"}, {"Key": "a", "Value": "b"}]
    efs.delete_tags(FileSystemId=file_system, TagKeys=["a"])
    assert efs.describe_tags(FileSystemId=file_system)["Tags"] == [{"Key": "Name", "Value": "data"}]
    assert efs.describe_file_systems(FileSystemId=file_system)["FileSystems"][0]["Name"] == "data"


def test_unknown_file_system(account: Account) -> None:
    for call in (
        lambda: account.efs.describe_file_systems(FileSystemId="fs-00000000"),
        lambda: account.efs.update_file_system(FileSystemId="fs-00000000", ThroughputMode="elastic"),
        lambda: account.efs.put_backup_policy(FileSystemId="fs-00000000", BackupPolicy={"Status": "ENABLED"}),
        lambda: account.efs.describe_backup_policy(FileSystemId="fs-00000000"),
        lambda: account.efs.describe_tags(FileSystemId="fs-00000000"),
        lambda: account.efs.create_tags(FileSystemId="fs-00000000", Tags=[{"Key": "a", "Value": "b"}]),
        lambda: account.efs.delete_tags(FileSystemId="fs-00000000", TagKeys=["a"]),
        lambda: account.efs.delete_file_system(FileSystemId="fs-00000000"),
    ):
        with pytest.raises(ClientError) as caught:
            call()
        assert code(caught) == "FileSystemNotFound"
