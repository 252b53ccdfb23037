"""NAT gateways take time to become available and to be deleted."""

from __future__ import annotations

from local_cloud.testing import wait_until

from ..conftest import Account, refused
from .conftest import Network


def nat_state(account: Account, identifier: str) -> str:
    return str(account.ec2.describe_nat_gateways(NatGatewayIds=[identifier])["NatGateways"][0]["State"])


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


def test_a_regional_nat_gateway_is_in_no_subnet(account: Account, network: Network) -> None:
    created = account.ec2.create_nat_gateway(AvailabilityMode="regional", VpcId=network.vpc)["NatGateway"]
    found = account.ec2.describe_nat_gateways(NatGatewayIds=[created["NatGatewayId"]])["NatGateways"][0]
    assert (found["VpcId"], found["AvailabilityMode"], "SubnetId" in found) == (network.vpc, "regional", False)
    account.ec2.delete_nat_gateway(NatGatewayId=created["NatGatewayId"])
    assert nat_state(account, created["NatGatewayId"]) == "deleted"
