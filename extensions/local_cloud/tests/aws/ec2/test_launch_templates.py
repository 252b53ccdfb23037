"""Groups launch instances with all settings of a launch template version."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from ..conftest import Account, Hosts, encoded


def launched(account: Account, version: str, template: str, **extra: Any) -> dict[str, Any]:
    group = account.group(1, LaunchTemplate={"LaunchTemplateName": template, "Version": version}, **extra)
    identifier = wait_until(lambda: account.members(group))[0]
    return account.instance(identifier)


def profile(account: Account) -> str:
    name = account.name("profile")
    account.client("iam").create_instance_profile(InstanceProfileName=name)
    return name


def test_the_template_decides_how_an_instance_is_placed_and_reached(account: Account, hosts: Hosts) -> None:
    vpc = account.vpc()
    subnets = account.subnets(vpc=vpc)
    groups = [account.ec2.create_security_group(GroupName=name, Description="d", VpcId=vpc)["GroupId"] for name in ("one", "two")]
    placement = account.name("placement")
    account.ec2.create_placement_group(GroupName=placement, Strategy="cluster")
    template = account.template(
        Placement={"GroupName": placement},
        NetworkInterfaces=[
            {"DeviceIndex": 0, "NetworkCardIndex": 0, "Groups": groups, "InterfaceType": "efa"},
            {"DeviceIndex": 1, "NetworkCardIndex": 1, "Groups": groups, "InterfaceType": "efa"},
            {"DeviceIndex": 1, "NetworkCardIndex": 2, "Groups": groups, "InterfaceType": "efa"},
        ],
    )
    instance = launched(account, "$Latest", template, VPCZoneIdentifier=",".join(subnets))
    assert instance["SubnetId"] in subnets
    assert sorted(each["GroupId"] for each in instance["SecurityGroups"]) == sorted(groups)
    assert instance["Placement"]["GroupName"] == placement
    attachments = [each["Attachment"] for each in instance["NetworkInterfaces"]]
    assert sorted((each["NetworkCardIndex"], each["DeviceIndex"]) for each in attachments) == [(0, 0), (1, 1), (2, 1)]
    assert {each["InterfaceType"] for each in instance["NetworkInterfaces"]} == {"efa"}
    with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.InUse"):
        account.ec2.delete_placement_group(GroupName=placement)


def test_the_template_decides_what_an_instance_is(account: Account, hosts: Hosts) -> None:
    key = account.name("key")
    account.ec2.create_key_pair(KeyName=key)
    role = profile(account)
    metadata = {"HttpTokens": "required", "HttpPutResponseHopLimit": 2, "InstanceMetadataTags": "enabled"}
    tag = {"Key": "from", "Value": "template"}
    template = account.template(
        KeyName=key,
        UserData=encoded("#cloud-config\n"),
        IamInstanceProfile={"Name": role},
        MetadataOptions=metadata,
        EbsOptimized=True,
        TagSpecifications=[{"ResourceType": "instance", "Tags": [tag]}],
    )
    instance = launched(account, "$Latest", template)
    assert instance["EbsOptimized"] is True
    assert instance["KeyName"] == key
    assert instance["IamInstanceProfile"]["Arn"].endswith(f"instance-profile/{role}")
    assert metadata.items() <= instance["MetadataOptions"].items()
    assert tag in instance["Tags"]
    assert hosts.specs[instance["InstanceId"]].user_data == b"#cloud-config\n"
    assert len(hosts.specs[instance["InstanceId"]].public_keys) == 1


def test_the_template_decides_what_the_volume_is(account: Account) -> None:
    key = account.client("kms").create_key()["KeyMetadata"]["Arn"]
    tags = [{"Key": "from", "Value": "template"}]
    disk = {"VolumeSize": 80, "VolumeType": "gp3", "Encrypted": True, "KmsKeyId": key, "Iops": 4000, "Throughput": 250}
    template = account.template(
        BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": disk}], TagSpecifications=[{"ResourceType": "volume", "Tags": tags}]
    )
    (mapping,) = launched(account, "$Latest", template)["BlockDeviceMappings"]
    assert mapping["DeviceName"] == "/dev/sda1"
    volume = account.ec2.describe_volumes(VolumeIds=[mapping["Ebs"]["VolumeId"]])["Volumes"][0]
    assert (volume["Size"], volume["Encrypted"], volume["VolumeType"]) == (80, True, "gp3")
    assert (volume["KmsKeyId"], volume["Iops"], volume["Throughput"]) == (key, 4000, 250)
    assert volume["Tags"] == tags


def test_volumes_with_provisioned_iops(account: Account) -> None:
    disk = {"VolumeSize": 80, "VolumeType": "io2"}
    subnet = account.subnets("a")[0]
    (instance,) = account.run(subnet, BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": {**disk, "Iops": 4000}}])
    volumes = account.ec2.describe_volumes(VolumeIds=[instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]])["Volumes"]
    assert [(volume["VolumeType"], volume["Iops"]) for volume in volumes] == [("io2", 4000)]
    with pytest.raises(ClientError, match=r"MissingParameter.*iops must be specified for io2"):
        account.run(subnet, BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": disk}])


def test_the_chosen_version_is_used(account: Account, hosts: Hosts) -> None:
    template = account.template(UserData=encoded("first"))
    data = {"ImageId": account.image_id, "InstanceType": "t3.micro", "UserData": encoded("second")}
    account.ec2.create_launch_template_version(LaunchTemplateName=template, LaunchTemplateData=data)
    account.ec2.create_launch_template_version(
        LaunchTemplateName=template, SourceVersion="2", LaunchTemplateData={"UserData": encoded("third")}
    )
    found = {version: launched(account, version, template) for version in ("$Latest", "$Default", "2")}
    types = {version: instance["InstanceType"] for version, instance in found.items()}
    assert types == {"$Latest": "t3.micro", "$Default": "p4d.24xlarge", "2": "t3.micro"}
    texts = {version: hosts.specs[instance["InstanceId"]].user_data for version, instance in found.items()}
    assert texts == {"$Latest": b"third", "$Default": b"first", "2": b"second"}
    group = next(each["Value"] for each in found["$Latest"]["Tags"] if each["Key"] == "aws:autoscaling:groupName")
    described = account.described(group)
    assert described is not None
    assert described["LaunchTemplate"]["Version"] == "$Latest"
    assert described["Instances"][0]["LaunchTemplate"]["Version"] == "3"
    account.ec2.modify_launch_template(LaunchTemplateName=template, DefaultVersion="2")
    assert launched(account, "$Default", template)["InstanceType"] == "t3.micro"


def test_versions_can_be_read_back_and_deleted(account: Account) -> None:
    template = account.template()
    for _ in range(2):
        account.ec2.create_launch_template_version(
            LaunchTemplateName=template, LaunchTemplateData={"ImageId": account.image_id, "UserData": encoded("x")}
        )
    result = account.ec2.delete_launch_template_versions(LaunchTemplateName=template, Versions=["2", "1"])
    assert [each["VersionNumber"] for each in result["SuccessfullyDeletedLaunchTemplateVersions"]] == [2]
    assert [each["VersionNumber"] for each in result["UnsuccessfullyDeletedLaunchTemplateVersions"]] == [1]
    found = account.ec2.describe_launch_template_versions(LaunchTemplateName=template)["LaunchTemplateVersions"]
    assert [each["VersionNumber"] for each in found] == [1, 3]
    assert found[1]["LaunchTemplateData"]["UserData"] == encoded("x")
    with pytest.raises(ClientError, match=r"InvalidLaunchTemplateId\.VersionNotFound"):
        account.ec2.describe_launch_template_versions(LaunchTemplateName=template, Versions=["2"])
    new = account.ec2.create_launch_template_version(LaunchTemplateName=template, LaunchTemplateData={"ImageId": account.image_id})
    assert new["LaunchTemplateVersion"]["VersionNumber"] == 4


def test_nested_data_is_read_back_as_it_was_given(account: Account) -> None:
    data = {
        "ImageId": account.image_id,
        "InstanceType": "p5.48xlarge",
        "InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {"MaxPrice": "12.500000", "SpotInstanceType": "one-time"}},
        "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}},
        "Placement": {"GroupName": "together", "Tenancy": "default"},
        "NetworkInterfaces": [
            {"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "efa", "Groups": ["sg-1"], "DeleteOnTermination": True},
            {"DeviceIndex": 1, "NetworkCardIndex": 1, "InterfaceType": "efa-only", "Groups": ["sg-1", "sg-2"], "DeleteOnTermination": True},
        ],
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/sda1",
                "Ebs": {
                    "VolumeSize": 80,
                    "VolumeType": "gp3",
                    "Iops": 4000,
                    "Throughput": 250,
                    "Encrypted": True,
                    "KmsKeyId": "alias/ours",
                    "DeleteOnTermination": True,
                },
            }
        ],
        "EbsOptimized": True,
    }
    name = account.name("template")
    account.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
    found = account.ec2.describe_launch_template_versions(LaunchTemplateName=name)["LaunchTemplateVersions"]
    assert [each["LaunchTemplateData"] for each in found] == [data]


def test_many_templates_and_versions(account: Account) -> None:
    names = [account.template() for _ in range(17)]
    found = {each["LaunchTemplateName"] for each in account.ec2.describe_launch_templates()["LaunchTemplates"]}
    assert found.issuperset(names)
    for _ in range(16):
        account.ec2.create_launch_template_version(LaunchTemplateName=names[0], LaunchTemplateData={"InstanceType": "t3.micro"})
    assert len(account.ec2.describe_launch_template_versions(LaunchTemplateName=names[0])["LaunchTemplateVersions"]) == 17
    with pytest.raises(ClientError, match=r"InvalidLaunchTemplateId\.NotFound"):
        account.ec2.describe_launch_templates(LaunchTemplateIds=["lt-00000000000000000"])


def test_own_tags_stay_out_of_the_data(account: Account) -> None:
    name = account.name("template")
    created = account.ec2.create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData={"ImageId": account.image_id},
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": [{"Key": "a", "Value": "b"}]}],
    )["LaunchTemplate"]
    assert created["Tags"] == [{"Key": "a", "Value": "b"}]
    version = account.ec2.describe_launch_template_versions(LaunchTemplateName=name)["LaunchTemplateVersions"][0]
    assert version["LaunchTemplateData"] == {"ImageId": account.image_id}
    account.ec2.create_tags(Resources=[created["LaunchTemplateId"]], Tags=[{"Key": "c", "Value": "d"}])
    found = account.ec2.describe_launch_templates(Filters=[{"Name": "tag:c", "Values": ["d"]}])["LaunchTemplates"]
    assert [each["LaunchTemplateName"] for each in found] == [name]
    assert {"Key": "c", "Value": "d"} in found[0]["Tags"]


def test_an_instance_from_a_template(account: Account) -> None:
    template = account.template(
        InstanceType="t3.micro", TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "1"}]}]
    )
    instance = account.ec2.run_instances(
        MinCount=1,
        MaxCount=1,
        LaunchTemplate={"LaunchTemplateName": template},
        SubnetId=account.subnets()[0],
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "b", "Value": "2"}]}],
    )["Instances"][0]
    tags = {each["Key"]: each["Value"] for each in instance["Tags"]}
    assert (instance["InstanceType"], tags["a"], tags["b"]) == ("t3.micro", "1", "2")
