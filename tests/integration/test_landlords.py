"""Resources that AWS services or other people add to the VPC of a cluster."""

from __future__ import annotations

import time

import permissions
import pytest

from .clusters import steps
from .conftest import ModuleFailed


def _vpc(cloud, name):
    tagged = [{"Name": "tag:deeplearning:cluster", "Values": [name]}]
    return cloud.client("ec2").describe_vpcs(Filters=tagged)["Vpcs"][0]["VpcId"]


def _of_guardduty(cloud, vpc):
    ec2, managed = cloud.client("ec2"), [{"Name": "tag-key", "Values": ["GuardDutyManaged"]}, {"Name": "vpc-id", "Values": [vpc]}]
    endpoints = ec2.describe_vpc_endpoints(Filters=managed)["VpcEndpoints"]
    groups = ec2.describe_security_groups(Filters=managed)["SecurityGroups"]
    return [item["ServiceName"] for item in endpoints if item["State"] == "available"], [item["GroupName"] for item in groups]


def test_what_guardduty_adds_is_deleted_with_the_vpc(cloud, run, definition, name, monkeypatch):
    cloud.control.enable_guardduty()
    run("cluster", **definition)
    vpc = _vpc(cloud, name)
    assert _of_guardduty(cloud, vpc) == (["com.amazonaws.us-east-1.guardduty-data"], [f"GuardDutyManagedSecurityGroup-{vpc}"])
    assert not run("cluster", **definition)["changed"]
    for variable, value in permissions.operator(cloud, "destroy", f"{name}*").items():
        if variable.startswith("AWS_"):
            monkeypatch.setenv(variable, value)
    predicted = run("cluster", cluster=name, state="absent", delete_data=True, check=True)
    gone = run("cluster", cluster=name, state="absent", delete_data=True)
    assert steps(predicted) == steps(gone)
    assert {kind.split()[0] for _action, kind in steps(gone)} >= {"guardduty_endpoint", "guardduty_security_group", "vpc"}


def test_what_guardduty_adds_to_an_adopted_vpc_stays(cloud, run, definition, landlord):
    owner = landlord()
    cloud.control.enable_guardduty()
    run("cluster", **definition, **owner.options())
    run("cluster", cluster=definition["cluster"], state="absent", delete_data=True)
    assert _of_guardduty(cloud, owner.vpc)[1] == [f"GuardDutyManagedSecurityGroup-{owner.vpc}"]


def test_the_tag_of_guardduty_does_not_make_resources_its_own(cloud, run, name):
    ec2, tags = cloud.client("ec2"), {"GuardDutyManaged": "true"}
    options = {"cluster": name, "ssh_cidrs": ["203.0.113.0/24"], "zones": ["us-east-1a"], "tags": tags}
    vpc = run("cluster", components=["network"], **options)["resources"]["vpc"]["main"]
    theirs = [{"ResourceType": "security-group", "Tags": [{"Key": "GuardDutyManaged", "Value": "false"}]}]
    group = ec2.create_security_group(GroupName="theirs", Description="theirs", VpcId=vpc, TagSpecifications=theirs)["GroupId"]
    with pytest.raises(ModuleFailed, match=f"do not belong to the cluster: security group theirs .{group}.. Delete these"):
        run("cluster", components=["network"], cluster=name, state="absent")
    ec2.delete_security_group(GroupId=group)
    assert "guardduty" not in str(steps(run("cluster", components=["network"], cluster=name, state="absent")))


@pytest.mark.parametrize("case", ["group", "subnet", "endpoint", "instance"])
def test_resources_of_others_end_a_deletion_at_once(cloud, run, name, case):
    run("cluster", components=["network"], cluster=name, ssh_cidrs=["203.0.113.0/24"], zones=["us-east-1a"])
    ec2, vpc = cloud.client("ec2"), _vpc(cloud, name)
    private = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "tag:deeplearning:key", "Values": ["private-us-east-1a"]}]
    if case == "group":
        other = ec2.create_security_group(GroupName="theirs", Description="theirs", VpcId=vpc)["GroupId"]
    elif case == "subnet":
        other = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.240.0/24")["Subnet"]["SubnetId"]
    elif case == "endpoint":
        (subnet,) = ec2.describe_subnets(Filters=private)["Subnets"]
        request = {"VpcEndpointType": "Interface", "ServiceName": "com.amazonaws.us-east-1.logs", "SubnetIds": [subnet["SubnetId"]]}
        other = ec2.create_vpc_endpoint(VpcId=vpc, **request)["VpcEndpoint"]["VpcEndpointId"]
    else:
        (subnet,) = ec2.describe_subnets(Filters=private)["Subnets"]
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        request = {"ImageId": image, "InstanceType": "c5.large", "SubnetId": subnet["SubnetId"], "MinCount": 1, "MaxCount": 1}
        other = ec2.run_instances(**request)["Instances"][0]["InstanceId"]
    began = time.monotonic()
    told = rf"contains resources that do not belong to the cluster: .*{other}.*\. Delete these resources, then run again"
    with pytest.raises(ModuleFailed, match=told):
        run("cluster", components=["network"], cluster=name, state="absent")
    assert time.monotonic() - began < 60


LATTICE = {
    "VpcEndpointType": "Resource",
    "ResourceConfigurationArn": "arn:aws:vpc-lattice:us-east-1:123456789012:resourceconfiguration/rcfg-0123456789abcdef0",
}


def test_endpoints_without_a_service_do_not_hide_what_is_in_the_way(cloud, run, name):
    network = run("cluster", components=["network"], cluster=name, ssh_cidrs=["203.0.113.0/24"], zones=["us-east-1a"])["resources"]
    ec2 = cloud.client("ec2")
    vpc, (subnet,) = network["vpc"]["main"], [id_ for key, id_ in network["subnet"].items() if key.startswith("private-")]
    elsewhere = ec2.create_vpc(CidrBlock="10.21.0.0/16")["Vpc"]["VpcId"]
    ec2.create_vpc_endpoint(VpcId=elsewhere, **LATTICE)
    ec2.create_network_interface(SubnetId=subnet, Groups=[network["security_group"]["nodes"]])
    interface = ec2.describe_network_interfaces(Filters=[{"Name": "group-id", "Values": [network["security_group"]["nodes"]]}])
    interface_id = interface["NetworkInterfaces"][0]["NetworkInterfaceId"]
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    request = {"ImageId": image, "InstanceType": "c5.large", "MinCount": 1, "MaxCount": 1}
    instance = ec2.run_instances(**request, NetworkInterfaces=[{"NetworkInterfaceId": interface_id, "DeviceIndex": 0}])["Instances"][0]
    with pytest.raises(ModuleFailed, match=rf"do not belong to the cluster: .*{instance['InstanceId']}"):
        run("cluster", components=["network"], cluster=name, state="absent")
    ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])
    endpoint = ec2.create_vpc_endpoint(VpcId=vpc, **LATTICE)["VpcEndpoint"]["VpcEndpointId"]
    with pytest.raises(ModuleFailed, match=rf"endpoint {endpoint} of {LATTICE['ResourceConfigurationArn']}"):
        run("cluster", components=["network"], cluster=name, state="absent")


def test_endpoints_without_a_service_do_not_concern_the_cluster(run, definition, landlord):
    owner = landlord(internet=False)
    owner.ec2.create_vpc_endpoint(VpcId=owner.vpc, **LATTICE)
    warnings = run("cluster", **definition, **owner.options(interface_endpoints=["ssm"]), check=True)["warnings"]
    assert "no endpoint for s3, ec2, autoscaling" in str(warnings)
