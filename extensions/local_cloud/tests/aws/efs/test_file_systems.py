"""EFS file systems and mount targets: states, settings, and tags."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.exports import served_file_systems
from local_cloud.testing import wait_until
from moto.moto_api._internal import mock_random

from ..conftest import Account


@pytest.fixture
def vpc(account: Account) -> str:
    return account.vpc()


@pytest.fixture
def subnets(account: Account, vpc: str) -> list[str]:
    return account.subnets("ab", vpc)


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


def test_from_creation_to_deletion(account: Account, vpc: str, subnets: list[str], file_system: str) -> None:
    efs, ec2 = account.efs, account.ec2
    first, second = subnets
    with pytest.raises(ClientError) as caught:
        efs.create_mount_target(FileSystemId=file_system, SubnetId=first)
    assert code(caught) == "IncorrectFileSystemLifeCycleState"
    group = ec2.create_security_group(GroupName="nfs", Description="d", VpcId=vpc)["GroupId"]
    wait_until(lambda: state(account, file_system) == "available")
    target = efs.create_mount_target(FileSystemId=file_system, SubnetId=first, SecurityGroups=[group])
    assert target["LifeCycleState"] == "creating"
    efs.create_mount_target(FileSystemId=file_system, SubnetId=second)
    wait_until(lambda: target_states(account, file_system) == ["available"] * 2)
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
    wait_until(lambda: target_states(account, file_system) == [])
    ec2.delete_subnet(SubnetId=first)
    ec2.delete_security_group(GroupId=group)
    efs.delete_file_system(FileSystemId=file_system)
    with pytest.raises(ClientError) as caught:
        wait_until(lambda: state(account, file_system) == "gone")
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
    policies = [{"TransitionToIA": "AFTER_30_DAYS"}]
    efs.put_lifecycle_configuration(FileSystemId=file_system, LifecyclePolicies=policies)
    assert efs.describe_lifecycle_configuration(FileSystemId=file_system)["LifecyclePolicies"] == policies


def throughput(account: Account, file_system: str) -> tuple[str, float | None]:
    found = account.efs.describe_file_systems(FileSystemId=file_system)["FileSystems"][0]
    return found["ThroughputMode"], found.get("ProvisionedThroughputInMibps")


def test_throughput_changes_at_times(account: Account, file_system: str) -> None:
    efs = account.efs

    def update(mode: str, provisioned: float | None = None) -> str:
        wait_until(lambda: state(account, file_system) == "available")
        extra = {"ProvisionedThroughputInMibps": provisioned} if provisioned else {}
        updated = efs.update_file_system(FileSystemId=file_system, ThroughputMode=mode, **extra)
        return str(updated["LifeCycleState"])

    with pytest.raises(ClientError) as caught:
        efs.update_file_system(FileSystemId=file_system, ThroughputMode="bursting")
    assert code(caught) == "IncorrectFileSystemLifeCycleState"
    assert update("provisioned", 64) == "updating"
    assert throughput(account, file_system) == ("provisioned", 64)
    assert update("provisioned", 128) == "updating"
    for mode, provisioned in (("elastic", None), ("provisioned", 100)):
        with pytest.raises(ClientError) as caught:
            update(mode, provisioned)
        assert code(caught) == "TooManyRequests"
        assert "Wait until" in str(caught.value)
    assert throughput(account, file_system) == ("provisioned", 128)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ThroughputMode": "elastic", "PerformanceMode": "maxIO"}, "BadRequest"),
        ({"ThroughputMode": "provisioned"}, "BadRequest"),
        ({"ThroughputMode": "bursting", "ProvisionedThroughputInMibps": 64}, "BadRequest"),
        ({"ThroughputMode": "provisioned", "ProvisionedThroughputInMibps": 5000}, "ThroughputLimitExceeded"),
        ({"Encrypted": True, "KmsKeyId": "alias/none"}, "BadRequest"),
        ({"KmsKeyId": "alias/aws/elasticfilesystem"}, "BadRequest"),
        ({"AvailabilityZoneName": "us-east-1z"}, "UnsupportedAvailabilityZone"),
        ({"AvailabilityZoneName": "us-east-1a", "PerformanceMode": "maxIO"}, "BadRequest"),
    ],
)
def test_settings_that_do_not_go_together(account: Account, settings: dict[str, Any], expected: str) -> None:
    token = account.name("token")
    with pytest.raises(ClientError) as caught:
        account.efs.create_file_system(CreationToken=token, **settings)
    assert code(caught) == expected
    assert account.efs.describe_file_systems(CreationToken=token)["FileSystems"] == []


def test_keys(account: Account) -> None:
    kms = account.client("kms")
    key, alias = kms.create_key()["KeyMetadata"], f"alias/{account.name('key')}"
    kms.create_alias(AliasName=alias, TargetKeyId=key["KeyId"])
    for name in (key["KeyId"], key["Arn"], alias):
        made = account.efs.create_file_system(CreationToken=account.name("token"), Encrypted=True, KmsKeyId=name)
        assert made["KmsKeyId"] == key["Arn"]
    default = account.efs.create_file_system(CreationToken=account.name("token"), Encrypted=True)["KmsKeyId"]
    assert kms.describe_key(KeyId=default)["KeyMetadata"]["Arn"] == default
    kms.disable_key(KeyId=key["KeyId"])
    with pytest.raises(ClientError) as caught:
        account.efs.create_file_system(CreationToken=account.name("token"), Encrypted=True, KmsKeyId=alias)
    assert "[error=NotFoundException]" in str(caught.value)


def test_places_of_mount_targets(account: Account, subnets: list[str], file_system: str) -> None:
    efs, (here, there) = account.efs, subnets
    elsewhere = account.subnets("b")[0]
    created = efs.create_file_system(CreationToken=account.name("token"), AvailabilityZoneName="us-east-1a")
    one_zone = created["FileSystemId"]
    assert (created["AvailabilityZoneName"], efs.describe_backup_policy(FileSystemId=one_zone)["BackupPolicy"]["Status"]) == (
        "us-east-1a",
        "ENABLED",
    )
    wait_until(lambda: state(account, file_system) == state(account, one_zone) == "available")
    for place in (file_system, one_zone):
        efs.create_mount_target(FileSystemId=place, SubnetId=here)
    for place, subnet, expected in (
        (one_zone, there, "AvailabilityZonesMismatch"),
        (one_zone, "subnet-00000000", "SubnetNotFound"),
        (file_system, elsewhere, "MountTargetConflict"),
    ):
        with pytest.raises(ClientError) as caught:
            efs.create_mount_target(FileSystemId=place, SubnetId=subnet)
        assert code(caught) == expected


def test_short_ids_of_old_file_systems(account: Account, subnets: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """IDs of file systems created before 2021 have eight digits."""
    with monkeypatch.context() as patch:
        patch.setattr(mock_random, "get_random_hex", lambda *_: "1a2b3c4d")
        identifier = account.efs.create_file_system(CreationToken=account.name("token"))["FileSystemId"]
    assert identifier == "fs-1a2b3c4d"
    wait_until(lambda: state(account, identifier) == "available")
    account.efs.create_mount_target(FileSystemId=identifier, SubnetId=subnets[0])
    wait_until(lambda: target_states(account, identifier) == ["available"])
    assert f"{identifier}.efs.us-east-1.amazonaws.com" in served_file_systems()[identifier]


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
