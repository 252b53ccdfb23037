# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

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


@pytest.mark.parametrize("case", ["group", "subnet", "endpoint", "instance"])
def test_resources_of_others_end_a_deletion_at_once(cloud, run, name, case):
    run("network", cluster=name, ssh_cidrs=["203.0.113.0/24"], zones=["us-east-1a"])
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
        run("network", cluster=name, state="absent")
    assert time.monotonic() - began < 60
