"""NAT gateways take time, rules compare as on AWS, and nothing that is in use can be deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from ..conftest import Account


def refused(call: Callable[[], Any], code: str) -> None:
    with pytest.raises(ClientError) as caught:
        call()
    assert caught.value.response["Error"]["Code"] == code


class Network:
    """A VPC with an internet gateway and one subnet."""

    def __init__(self, account: Account) -> None:
        ec2 = account.ec2
        self.vpc = account.vpc()
        self.subnet = account.subnets("a", self.vpc)[0]
        self.gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=self.gateway, VpcId=self.vpc)


@pytest.fixture
def network(account: Account) -> Network:
    return Network(account)


def nat_state(account: Account, identifier: str) -> str:
    return str(account.ec2.describe_nat_gateways(NatGatewayIds=[identifier])["NatGateways"][0]["State"])


def endpoint_state(account: Account, identifier: str) -> str:
    found = account.ec2.describe_vpc_endpoints(Filters=[{"Name": "vpc-endpoint-id", "Values": [identifier]}])["VpcEndpoints"]
    return str(found[0]["State"]) if found else "gone"


def test_nat_gateway(account: Account, network: Network) -> None:
    ec2 = account.ec2
    address = ec2.allocate_address(Domain="vpc")
    tags = [{"ResourceType": "natgateway", "Tags": [{"Key": "a", "Value": account.name()}]}]
    request = {"SubnetId": network.subnet, "AllocationId": address["AllocationId"], "ClientToken": account.name("token")}
    created = ec2.create_nat_gateway(**request, TagSpecifications=tags)["NatGateway"]
    identifier = created["NatGatewayId"]
    assert (created["State"], created["Tags"]) == ("pending", tags[0]["Tags"])
    assert ec2.create_nat_gateway(**request)["NatGateway"]["NatGatewayId"] == identifier
    wait_until(lambda: nat_state(account, identifier) == "available")
    described = ec2.describe_nat_gateways(Filters=[{"Name": "tag:a", "Values": [tags[0]["Tags"][0]["Value"]]}])["NatGateways"]
    assert [each["NatGatewayId"] for each in described] == [identifier]
    place = described[0]["NatGatewayAddresses"][0]
    assert (place["PublicIp"], place["AllocationId"]) == (address["PublicIp"], address["AllocationId"])
    assert place["PrivateIp"].startswith("10.7.0.")
    refused(lambda: ec2.release_address(AllocationId=address["AllocationId"]), "InvalidIPAddress.InUse")
    refused(lambda: ec2.delete_subnet(SubnetId=network.subnet), "DependencyViolation")
    refused(lambda: ec2.delete_network_interface(NetworkInterfaceId=place["NetworkInterfaceId"]), "InvalidNetworkInterface.InUse")
    refused(lambda: ec2.detach_internet_gateway(InternetGatewayId=network.gateway, VpcId=network.vpc), "DependencyViolation")
    refused(lambda: ec2.create_nat_gateway(SubnetId=network.subnet, AllocationId=address["AllocationId"]), "Resource.AlreadyAssociated")
    ec2.delete_nat_gateway(NatGatewayId=identifier)
    assert nat_state(account, identifier) == "deleting"
    refused(lambda: ec2.release_address(AllocationId=address["AllocationId"]), "InvalidIPAddress.InUse")
    wait_until(lambda: nat_state(account, identifier) == "deleted")
    ec2.release_address(AllocationId=address["AllocationId"])
    ec2.delete_subnet(SubnetId=network.subnet)


def test_nat_gateway_without_a_way_out(account: Account) -> None:
    address = account.ec2.allocate_address(Domain="vpc")["AllocationId"]
    created = account.ec2.create_nat_gateway(SubnetId=account.subnets("a")[0], AllocationId=address)["NatGateway"]
    wait_until(lambda: nat_state(account, created["NatGatewayId"]) == "failed")
    found = account.ec2.describe_nat_gateways(NatGatewayIds=[created["NatGatewayId"]])["NatGateways"][0]
    assert found["FailureCode"] == "Gateway.NotAttached"
    account.ec2.release_address(AllocationId=address)


def test_private_nat_gateways_one_per_zone(account: Account) -> None:
    gateways = [
        account.ec2.create_nat_gateway(SubnetId=subnet, ConnectivityType="private")["NatGateway"] for subnet in account.subnets("ab")
    ]
    for gateway in gateways:
        wait_until(lambda gateway=gateway: nat_state(account, gateway["NatGatewayId"]) == "available")  # type: ignore[misc]
    assert [gateway["ConnectivityType"] for gateway in gateways] == ["private", "private"]
    assert all(not address.get("PublicIp") for gateway in gateways for address in gateway["NatGatewayAddresses"])


def test_unknown_nat_gateway(account: Account) -> None:
    refused(lambda: account.ec2.describe_nat_gateways(NatGatewayIds=["nat-00000000000000000"]), "NatGatewayNotFound")
    refused(lambda: account.ec2.delete_nat_gateway(NatGatewayId="nat-00000000000000000"), "NatGatewayNotFound")


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
    refused(delete_vpc, "DependencyViolation")  # the endpoint is deleting
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


def test_rules_are_the_same_whatever_their_description(account: Account, network: Network) -> None:
    ec2 = account.ec2
    group = ec2.create_security_group(GroupName="one", Description="d", VpcId=network.vpc)["GroupId"]

    def permissions(description: str) -> list[list[dict[str, Any]]]:
        return [
            [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group, "Description": description}]}],
            [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": description}]}],
        ]

    for permission in permissions("first"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=permission)
    for permission in permissions("second"):
        refused(
            lambda permission=permission: ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=permission),  # type: ignore[misc]
            "InvalidPermission.Duplicate",
        )
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=permissions("out")[0])
    found = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    described = {each["IpProtocol"]: each for each in found}
    assert described["-1"]["UserIdGroupPairs"][0]["GroupId"] == group
    assert described["tcp"]["IpRanges"] == [{"CidrIp": "10.0.0.0/8", "Description": "first"}]
    for permission in permissions("third"):
        ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=permission)
    assert ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"] == []


def test_rule_descriptions(account: Account, network: Network) -> None:
    ec2 = account.ec2
    group = ec2.create_security_group(GroupName="one", Description="d", VpcId=network.vpc)["GroupId"]

    def permissions(description: str) -> list[dict[str, Any]]:
        return [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": description}]}]

    for direction, key in (("ingress", "IpPermissions"), ("egress", "IpPermissionsEgress")):
        getattr(ec2, f"authorize_security_group_{direction}")(GroupId=group, IpPermissions=permissions("before"))
        update = getattr(ec2, f"update_security_group_rule_descriptions_{direction}")
        assert update(GroupId=group, IpPermissions=permissions("after"))["Return"] is True
        found = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0][key]
        assert [each["IpRanges"] for each in found if each["IpProtocol"] == "tcp"] == [permissions("after")[0]["IpRanges"]]


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
