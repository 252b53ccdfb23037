"""Resources in use cannot be deleted. The deletion of a resource also deletes its tags."""

from __future__ import annotations

from local_cloud.testing import wait_until

from ..conftest import Account, refused
from .conftest import Network


def endpoint_state(account: Account, identifier: str) -> str:
    found = account.ec2.describe_vpc_endpoints(Filters=[{"Name": "vpc-endpoint-id", "Values": [identifier]}])["VpcEndpoints"]
    return str(found[0]["State"]) if found else "gone"


def test_a_vpc_goes_last(account: Account, network: Network) -> None:
    ec2 = account.ec2
    account.control.set_delays(nat_gateway=2)
    group = ec2.create_security_group(GroupName="one", Description="d", VpcId=network.vpc)["GroupId"]
    endpoint = ec2.create_vpc_endpoint(VpcId=network.vpc, ServiceName="com.amazonaws.us-east-1.s3", VpcEndpointType="Gateway")
    table = ec2.create_route_table(VpcId=network.vpc)["RouteTable"]["RouteTableId"]
    delete_vpc = lambda: ec2.delete_vpc(VpcId=network.vpc)  # noqa: E731
    for removal in (
        lambda: ec2.delete_subnet(SubnetId=network.subnet),
        lambda: ec2.delete_security_group(GroupId=group),
        lambda: ec2.delete_route_table(RouteTableId=table),
        lambda: ec2.detach_internet_gateway(InternetGatewayId=network.gateway, VpcId=network.vpc),
        lambda: ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint["VpcEndpoint"]["VpcEndpointId"]]),
    ):
        refused(delete_vpc, "DependencyViolation")
        removal()
    refused(delete_vpc, "DependencyViolation")  # the endpoint is being deleted
    wait_until(lambda: endpoint_state(account, endpoint["VpcEndpoint"]["VpcEndpointId"]) == "gone")
    delete_vpc()
    refused(lambda: ec2.describe_vpcs(VpcIds=[network.vpc]), "InvalidVpcID.NotFound")


def test_security_groups_in_use(account: Account, network: Network) -> None:
    ec2 = account.ec2
    used, source = (ec2.create_security_group(GroupName=name, Description="d", VpcId=network.vpc)["GroupId"] for name in ("used", "source"))
    permission = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "UserIdGroupPairs": [{"GroupId": source}]}
    ec2.authorize_security_group_ingress(GroupId=used, IpPermissions=[permission])
    refused(lambda: ec2.delete_security_group(GroupId=source), "DependencyViolation")
    instance = account.run(network.subnet, SecurityGroupIds=[used])[0]["InstanceId"]
    refused(lambda: ec2.delete_security_group(GroupId=used), "DependencyViolation")
    ec2.terminate_instances(InstanceIds=[instance])
    wait_until(lambda: account.state(instance) == "terminated")
    ec2.delete_security_group(GroupId=used)
    ec2.delete_security_group(GroupId=source)
    filters = [{"Name": "vpc-id", "Values": [network.vpc]}]
    default = ec2.describe_security_groups(Filters=filters)["SecurityGroups"][0]["GroupId"]
    refused(lambda: ec2.delete_security_group(GroupId=default), "CannotDelete")


def test_tags_go_with_what_they_are_on(account: Account, network: Network) -> None:
    account.ec2.create_tags(Resources=[network.subnet], Tags=[{"Key": "a", "Value": "b"}])
    account.ec2.delete_subnet(SubnetId=network.subnet)
    assert account.ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [network.subnet]}])["Tags"] == []


def test_an_associated_address_is_not_released(account: Account, network: Network) -> None:
    ec2 = account.ec2
    instance = account.run(network.subnet)[0]["InstanceId"]
    wait_until(lambda: account.state(instance) == "running")
    address = ec2.allocate_address(Domain="vpc")
    ec2.associate_address(InstanceId=instance, AllocationId=address["AllocationId"])
    assert account.instance(instance)["PublicIpAddress"] == address["PublicIp"]
    refused(lambda: ec2.release_address(AllocationId=address["AllocationId"]), "InvalidIPAddress.InUse")
    ec2.terminate_instances(InstanceIds=[instance])
    wait_until(lambda: account.state(instance) == "terminated")
    ec2.release_address(AllocationId=address["AllocationId"])
