"""VPC endpoints: validation of requests, network interfaces, routes, and delayed deletion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from local_cloud.aws.app import AwsApi
from local_cloud.testing import wait_until
from moto.core.base_backend import BackendDict

from ..conftest import Account, refused

SSM = "com.amazonaws.us-east-1.ssm"
S3 = "com.amazonaws.us-east-1.s3"


@pytest.fixture
def vpc(account: Account) -> str:
    """A VPC that supports private DNS."""
    vpc = account.vpc()
    account.ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    return vpc


def interface_endpoint(account: Account, vpc: str, subnets: list[str], **extra: Any) -> dict[str, Any]:
    request = {"VpcId": vpc, "ServiceName": SSM, "VpcEndpointType": "Interface", "SubnetIds": subnets, **extra}
    created: dict[str, Any] = account.ec2.create_vpc_endpoint(**request)["VpcEndpoint"]
    return created


def gateway_endpoint(account: Account, vpc: str, tables: list[str], **extra: Any) -> dict[str, Any]:
    created: dict[str, Any] = account.ec2.create_vpc_endpoint(VpcId=vpc, ServiceName=S3, RouteTableIds=tables, **extra)["VpcEndpoint"]
    return created


def described(account: Account, identifier: str) -> dict[str, Any] | None:
    filters = [{"Name": "vpc-endpoint-id", "Values": [identifier]}]
    found: list[dict[str, Any]] = account.ec2.describe_vpc_endpoints(Filters=filters)["VpcEndpoints"]
    return found[0] if found else None


def state(account: Account, identifier: str) -> str:
    return str((described(account, identifier) or {"State": "gone"})["State"])


def interfaces(account: Account, vpc: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = account.ec2.describe_network_interfaces(Filters=[{"Name": "vpc-id", "Values": [vpc]}])[
        "NetworkInterfaces"
    ]
    return found


def routes(account: Account, table: str) -> list[tuple[str, str]]:
    found = account.ec2.describe_route_tables(RouteTableIds=[table])["RouteTables"][0]["Routes"]
    return [(each["DestinationPrefixListId"], each["GatewayId"]) for each in found if "DestinationPrefixListId" in each]


def test_interfaces_from_creation_to_deletion(account: Account, vpc: str) -> None:
    ec2 = account.ec2
    first, second = account.subnets("ab", vpc)
    one, two = (ec2.create_security_group(GroupName=name, Description="d", VpcId=vpc)["GroupId"] for name in ("one", "two"))
    tags = [{"ResourceType": "vpc-endpoint", "Tags": [{"Key": "a", "Value": "b"}]}]
    token = {"ClientToken": account.name("token")}
    created = interface_endpoint(account, vpc, [first], SecurityGroupIds=[one], TagSpecifications=tags, **token)
    identifier = created["VpcEndpointId"]
    assert interface_endpoint(account, vpc, [first], SecurityGroupIds=[one], **token)["VpcEndpointId"] == identifier
    assert (created["State"], created["PrivateDnsEnabled"], created["Tags"]) == ("pending", True, tags[0]["Tags"])
    names = [each["DnsName"] for each in created["DnsEntries"]]
    assert (names[0].startswith(identifier), names[1]) == (True, "ssm.us-east-1.amazonaws.com")
    wait_until(lambda: state(account, identifier) == "available")
    ec2.modify_vpc_endpoint(VpcEndpointId=identifier, AddSubnetIds=[second], AddSecurityGroupIds=[two], RemoveSecurityGroupIds=[one])
    found = described(account, identifier) or {}
    assert found["SubnetIds"] == [first, second]
    assert [each["GroupId"] for each in found["Groups"]] == [two]
    there = interfaces(account, vpc)
    assert sorted(each["NetworkInterfaceId"] for each in there) == sorted(found["NetworkInterfaceIds"])
    assert {(each["SubnetId"], each["InterfaceType"], each["Groups"][0]["GroupId"]) for each in there} == {
        (first, "vpc_endpoint", two),
        (second, "vpc_endpoint", two),
    }
    ec2.delete_security_group(GroupId=one)
    ec2.modify_vpc_endpoint(VpcEndpointId=identifier, RemoveSubnetIds=[first])
    refused(lambda: ec2.delete_subnet(SubnetId=first), "DependencyViolation")
    wait_until(lambda: len(interfaces(account, vpc)) == 1)
    ec2.delete_subnet(SubnetId=first)
    assert ec2.delete_vpc_endpoints(VpcEndpointIds=[identifier])["Unsuccessful"] == []
    assert state(account, identifier) == "deleting"
    wait_until(lambda: state(account, identifier) == "gone")
    refused(lambda: ec2.delete_subnet(SubnetId=second), "DependencyViolation")
    refused(lambda: ec2.delete_security_group(GroupId=two), "DependencyViolation")
    wait_until(lambda: interfaces(account, vpc) == [])
    ec2.delete_subnet(SubnetId=second)
    ec2.delete_security_group(GroupId=two)
    error = ec2.delete_vpc_endpoints(VpcEndpointIds=[identifier])["Unsuccessful"][0]
    assert (error["ResourceId"], error["Error"]["Code"]) == (identifier, "InvalidVpcEndpoint.NotFound")
    refused(lambda: ec2.modify_vpc_endpoint(VpcEndpointId=identifier, ResetPolicy=True), "InvalidVpcEndpointId.NotFound")


def test_private_dns(account: Account) -> None:
    ec2, vpc = account.ec2, account.vpc()
    text = f"requires both enableDnsSupport and enableDnsHostnames VPC attributes set to true for {vpc}"
    refused(lambda: interface_endpoint(account, vpc, []), "InvalidParameter", text)
    without = interface_endpoint(account, vpc, [], PrivateDnsEnabled=False)["VpcEndpointId"]
    refused(lambda: ec2.modify_vpc_endpoint(VpcEndpointId=without, PrivateDnsEnabled=True), "InvalidParameter", text)
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    ec2.modify_vpc_endpoint(VpcEndpointId=without, PrivateDnsEnabled=True)
    text = f"there is already a conflicting DNS domain for ssm.us-east-1.amazonaws.com in the VPC {vpc}"
    refused(lambda: interface_endpoint(account, vpc, []), "InvalidParameter", text)
    ec2.modify_vpc_endpoint(VpcEndpointId=without, PrivateDnsEnabled=False)
    interface_endpoint(account, vpc, [])
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsSupport={"Value": False})
    request = {"ServiceName": "com.amazonaws.us-east-1.logs"}
    refused(lambda: interface_endpoint(account, vpc, [], **request), "InvalidParameter", "enableDnsSupport")


def test_gateways(account: Account, vpc: str) -> None:
    ec2 = account.ec2
    one, two = (ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"] for _ in range(2))
    created = gateway_endpoint(account, vpc, [one])
    identifier = created["VpcEndpointId"]
    assert (created["State"], created["VpcEndpointType"], created["PrivateDnsEnabled"]) == ("available", "Gateway", False)
    lists = ec2.describe_managed_prefix_lists(Filters=[{"Name": "prefix-list-name", "Values": [S3]}])["PrefixLists"]
    route = (lists[0]["PrefixListId"], identifier)
    assert (routes(account, one), routes(account, two)) == ([route], [])
    refused(lambda: gateway_endpoint(account, vpc, [two, one]), "RouteAlreadyExists", one)
    ec2.modify_vpc_endpoint(VpcEndpointId=identifier, AddRouteTableIds=[two], RemoveRouteTableIds=[one])
    assert (routes(account, one), routes(account, two)) == ([], [route])
    assert (described(account, identifier) or {})["RouteTableIds"] == [two]
    ec2.modify_vpc_endpoint(VpcEndpointId=identifier, AddRouteTableIds=[one])
    ec2.delete_route_table(RouteTableId=one)
    ec2.delete_vpc_endpoints(VpcEndpointIds=[identifier])
    assert routes(account, two) == []
    assert state(account, identifier) in ("deleting", "gone")
    wait_until(lambda: state(account, identifier) == "gone")


def test_what_cannot_be_created(account: Account, vpc: str) -> None:
    first, same_zone = account.subnets("aa", vpc)
    foreign = account.subnets("b")[0]
    group = account.ec2.create_security_group(GroupName="one", Description="d", VpcId=account.vpc())["GroupId"]
    table = account.ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"][0]["RouteTableId"]
    for subnets, extra, code, words in (
        ([first, same_zone], {}, "DuplicateSubnetsInSameZone", same_zone),
        ([foreign], {}, "InvalidParameter", foreign),
        (["subnet-00000000"], {}, "InvalidSubnetID.NotFound", "subnet-00000000"),
        ([first], {"SecurityGroupIds": [group]}, "InvalidGroup.NotFound", group),
        ([first], {"ServiceName": "com.amazonaws.us-east-1.nothing"}, "InvalidServiceName", "nothing"),
        ([first], {"ServiceName": SSM, "VpcEndpointType": "Gateway"}, "InvalidParameter", "Gateway"),
        ([], {"ServiceName": SSM, "VpcEndpointType": "Gateway"}, "InvalidParameter", "available service types ([Interface])"),
        ([first], {"RouteTableIds": [table]}, "InvalidParameter", "Route table"),
        ([first], {"VpcId": "vpc-00000000"}, "InvalidVpcID.NotFound", "vpc-00000000"),
    ):
        refused(lambda: interface_endpoint(account, vpc, subnets, **extra), code, words)  # noqa: B023
    assert interfaces(account, vpc) == []
    filters = [{"Name": "vpc-id", "Values": [vpc]}]
    assert account.ec2.describe_vpc_endpoints(Filters=filters)["VpcEndpoints"] == []


def test_services(account: Account) -> None:
    found = account.ec2.describe_vpc_endpoint_services(ServiceNames=[S3])["ServiceDetails"]
    assert {each["ServiceType"][0]["ServiceType"] for each in found} == {"Interface", "Gateway"}
    assert "us-east-1a" in found[0]["AvailabilityZones"]
    filters = [{"Name": "service-type", "Values": ["Interface"]}, {"Name": "service-name", "Values": [SSM]}]
    found = account.ec2.describe_vpc_endpoint_services(Filters=filters)["ServiceDetails"]
    assert [(each["ServiceName"], each["PrivateDnsName"]) for each in found] == [(SSM, "ssm.us-east-1.amazonaws.com")]
    unknown = ["com.amazonaws.us-east-1.nothing"]
    refused(lambda: account.ec2.describe_vpc_endpoint_services(ServiceNames=unknown), "InvalidServiceName", unknown[0])


def test_they_outlive_the_server(account: Account, vpc: str, cloud: AwsApi, tmp_path: Path) -> None:
    kept, deleted = (interface_endpoint(account, vpc, [subnet], PrivateDnsEnabled=False) for subnet in account.subnets("ab", vpc))
    account.ec2.delete_vpc_endpoints(VpcEndpointIds=[deleted["VpcEndpointId"]])
    cloud.save(tmp_path / "state")
    BackendDict.reset()
    cloud.load(tmp_path / "state")
    wait_until(lambda: state(account, kept["VpcEndpointId"]) == "available")
    wait_until(lambda: [each["NetworkInterfaceId"] for each in interfaces(account, vpc)] == kept["NetworkInterfaceIds"])
    assert state(account, deleted["VpcEndpointId"]) == "gone"


def test_an_endpoint_of_vpc_lattice_has_no_service(account: Account, vpc: str) -> None:
    configuration = "arn:aws:vpc-lattice:us-east-1:123456789012:resourceconfiguration/rcfg-0123456789abcdef0"
    request = {"VpcEndpointType": "Resource", "ResourceConfigurationArn": configuration}
    created = account.ec2.create_vpc_endpoint(VpcId=vpc, **request)["VpcEndpoint"]["VpcEndpointId"]
    found = described(account, created)
    assert found
    assert {name: found[name] for name in request} == request
    assert not {"ServiceName", "ServiceNetworkArn"} & found.keys()
    account.ec2.delete_vpc_endpoints(VpcEndpointIds=[created])
    assert state(account, created) == "gone"
