"""Lustre file systems of FSx: checks, states, and network interfaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.aws.app import AwsApi
from local_cloud.exports import served_file_systems
from local_cloud.testing import wait_until
from moto.core.base_backend import BackendDict

from ..conftest import Account, refused
from .conftest import SCRATCH, available, create, described

PERSISTENT = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}


def test_from_creation_to_deletion(account: Account) -> None:
    fsx, ec2 = account.client("fsx"), account.ec2
    vpc = account.vpc()
    subnet = account.subnets("a", vpc)[0]
    group = ec2.create_security_group(GroupName="lustre", Description="d", VpcId=vpc)["GroupId"]
    lnet = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "UserIdGroupPairs": [{"GroupId": group}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[lnet])
    tags = [{"Key": "Name", "Value": "data"}]
    created = create(account, subnet, PERSISTENT, SecurityGroupIds=[group], Tags=tags)
    identifier = created["FileSystemId"]
    assert (created["Lifecycle"], created["FileSystemTypeVersion"], created["VpcId"], created["Tags"]) == ("CREATING", "2.12", vpc, tags)
    assert created["DNSName"] == f"{identifier}.fsx.us-east-1.amazonaws.com"
    assert len(created["LustreConfiguration"]["MountName"]) == 8
    assert created["LustreConfiguration"]["PerUnitStorageThroughput"] == 125
    assert ":key/" in created["KmsKeyId"]
    interface = ec2.describe_network_interfaces(NetworkInterfaceIds=created["NetworkInterfaceIds"])["NetworkInterfaces"][0]
    assert (interface["SubnetId"], [each["GroupId"] for each in interface["Groups"]]) == (subnet, [group])
    refused(lambda: ec2.delete_subnet(SubnetId=subnet), "DependencyViolation")
    refused(lambda: ec2.delete_security_group(GroupId=group), "DependencyViolation")
    served = served_file_systems()[identifier]
    # On a busy machine, the file system may be available already.
    assert not served or described(account, identifier)["Lifecycle"] == "AVAILABLE"
    mount_name = available(account, identifier)["LustreConfiguration"]["MountName"]
    assert served_file_systems()[identifier] == {f"{created['DNSName']}@tcp:{mount_name}"}
    assert fsx.delete_file_system(FileSystemId=identifier)["Lifecycle"] == "DELETING"
    assert described(account, identifier)["Lifecycle"] == "DELETING"
    assert not served_file_systems()[identifier]
    with pytest.raises(ClientError) as caught:
        wait_until(lambda: described(account, identifier)["Lifecycle"] == "gone")
    assert caught.value.response["Error"]["Code"] == "FileSystemNotFound"
    ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_security_group(GroupId=group)


def test_a_request_is_carried_out_once(account: Account, subnet: str) -> None:
    token = {"ClientRequestToken": account.name("token")}
    first = create(account, subnet, SCRATCH, **token)["FileSystemId"]
    assert create(account, subnet, SCRATCH, **token)["FileSystemId"] == first
    assert refused(lambda: create(account, subnet, SCRATCH, 2400, **token), "IncompatibleParameterError")["Parameter"] == "StorageCapacity"


@pytest.mark.parametrize(
    ("lustre", "capacity", "extra"),
    [
        ({}, 3600, {}),
        (SCRATCH, 4800, {}),
        ({"DeploymentType": "PERSISTENT_1", "PerUnitStorageThroughput": 12}, 6000, {"StorageType": "HDD"}),
        ({"DeploymentType": "PERSISTENT_1", "PerUnitStorageThroughput": 200}, 1200, {}),
    ],
)
def test_sizes(account: Account, subnet: str, lustre: dict[str, Any], capacity: int, extra: dict[str, Any]) -> None:
    found = create(account, subnet, lustre, capacity, **extra)
    assert found["StorageCapacity"] == capacity
    assert (found["LustreConfiguration"]["MountName"] == "fsx") is (not lustre)


@pytest.mark.parametrize(
    ("lustre", "extra", "code", "words"),
    [
        (SCRATCH, {"capacity": 3600}, "BadRequest", "Invalid Lustre FS storage capacity: 3600. Must be 1200 or a multiple of 2400."),
        ({}, {"capacity": 4800}, "BadRequest", "3600"),
        ({"DeploymentType": "PERSISTENT_2"}, {}, "BadRequest", "throughput is invalid"),
        ({**PERSISTENT, "PerUnitStorageThroughput": 200}, {}, "BadRequest", "throughput is invalid"),
        ({**SCRATCH, "PerUnitStorageThroughput": 125}, {}, "BadRequest", "throughput is invalid"),
        (SCRATCH, {"StorageType": "HDD", "capacity": 6000}, "BadRequest", ""),
        ({**PERSISTENT, "ImportPath": "s3://data"}, {}, "BadRequest", "ImportPath"),
        ({**SCRATCH, "ImportPath": "s3://no-such-bucket"}, {}, "InvalidImportPath", "no-such-bucket"),
        (PERSISTENT, {"FileSystemTypeVersion": "2.10"}, "BadRequest", "2.10"),
        (PERSISTENT, {"KmsKeyId": "alias/none"}, "BadRequest", "alias/none"),
        (SCRATCH, {"KmsKeyId": "alias/aws/ebs"}, "BadRequest", "KmsKeyId"),
        (SCRATCH, {"SubnetIds": ["subnet-00000000", "subnet-00000001"]}, "BadRequest", "subnet"),
        (SCRATCH, {"SubnetIds": ["subnet-00000000"]}, "InvalidNetworkSettings", "subnet-00000000"),
        (SCRATCH, {"SecurityGroupIds": ["sg-00000000"]}, "InvalidNetworkSettings", "sg-00000000"),
    ],
)
def test_what_cannot_be_created(
    account: Account, subnet: str, lustre: dict[str, Any], extra: dict[str, Any], code: str, words: str
) -> None:
    interfaces = len(account.ec2.describe_network_interfaces()["NetworkInterfaces"])
    refused(lambda: create(account, subnet, lustre, **extra), code, words)
    assert len(account.ec2.describe_network_interfaces()["NetworkInterfaces"]) == interfaces


def test_security_groups_that_keep_lustre_out_are_refused(account: Account, subnet: str) -> None:
    vpc = account.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    group = account.ec2.create_security_group(GroupName=account.name(), Description="test", VpcId=vpc)["GroupId"]
    refused(
        lambda: create(account, subnet, SCRATCH, SecurityGroupIds=[group]), "InvalidNetworkSettings", "LNET network traffic on port 988"
    )
    rule = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "UserIdGroupPairs": [{"GroupId": group}]}
    account.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    create(account, subnet, SCRATCH, SecurityGroupIds=[group])


def test_updates(account: Account, subnet: str) -> None:
    fsx = account.client("fsx")
    identifier = create(account, subnet, PERSISTENT)["FileSystemId"]
    refused(lambda: fsx.update_file_system(FileSystemId=identifier, StorageCapacity=2400), "BadRequest", "CREATING")
    available(account, identifier)
    for bad in ({"StorageCapacity": 1200}, {"StorageCapacity": 3600}, {"LustreConfiguration": {"PerUnitStorageThroughput": 100}}):
        refused(lambda bad=bad: fsx.update_file_system(FileSystemId=identifier, **bad), "BadRequest")  # type: ignore[misc]
    change = {"PerUnitStorageThroughput": 250, "DataCompressionType": "LZ4"}
    updating = fsx.update_file_system(FileSystemId=identifier, StorageCapacity=2400, LustreConfiguration=change)["FileSystem"]
    action = updating["AdministrativeActions"][0]
    assert (updating["Lifecycle"], updating["StorageCapacity"]) == ("UPDATING", 1200)
    assert (action["AdministrativeActionType"], action["Status"]) == ("FILE_SYSTEM_UPDATE", "IN_PROGRESS")
    assert action["TargetFileSystemValues"]["StorageCapacity"] == 2400
    found = available(account, identifier)
    assert (found["StorageCapacity"], found["AdministrativeActions"][0]["Status"]) == (2400, "COMPLETED")
    assert found["LustreConfiguration"] == {**updating["LustreConfiguration"], **change}


def test_pages_and_tags(account: Account, elsewhere: Account) -> None:
    fsx, subnet = elsewhere.client("fsx"), elsewhere.subnets("a")[0]
    made = [create(elsewhere, subnet, SCRATCH) for _ in range(3)]
    first = fsx.describe_file_systems(MaxResults=2)
    rest = fsx.describe_file_systems(MaxResults=2, NextToken=first["NextToken"])
    found = [each["FileSystemId"] for each in (*first["FileSystems"], *rest["FileSystems"])]
    assert found == [each["FileSystemId"] for each in made]
    assert "NextToken" not in rest
    arn = made[0]["ResourceARN"]
    fsx.tag_resource(ResourceARN=arn, Tags=[{"Key": "a", "Value": "b"}, {"Key": "c", "Value": "d"}])
    fsx.untag_resource(ResourceARN=arn, TagKeys=["a"])
    assert fsx.list_tags_for_resource(ResourceARN=arn)["Tags"] == [{"Key": "c", "Value": "d"}]
    refused(lambda: fsx.list_tags_for_resource(ResourceARN=arn[:-4] + "0000"), "ResourceNotFound")
    refused(lambda: account.client("fsx").describe_file_systems(FileSystemIds=[found[0]]), "FileSystemNotFound")


def test_they_outlive_the_server(account: Account, subnet: str, cloud: AwsApi, tmp_path: Path) -> None:
    bucket = account.name("bucket")
    account.client("s3").create_bucket(Bucket=bucket)
    identifier = create(account, subnet, PERSISTENT)["FileSystemId"]
    available(account, identifier)
    link = {"FileSystemId": identifier, "FileSystemPath": "/data", "DataRepositoryPath": f"s3://{bucket}"}
    association = account.client("fsx").create_data_repository_association(**link)["Association"]["AssociationId"]
    cloud.save(tmp_path / "state")
    BackendDict.reset()
    cloud.load(tmp_path / "state")
    found = account.client("fsx").describe_data_repository_associations
    wait_until(lambda: found(AssociationIds=[association])["Associations"][0]["Lifecycle"] == "AVAILABLE")
    account.client("fsx").delete_file_system(FileSystemId=identifier)
    wait_until(lambda: identifier not in served_file_systems())
