"""Tests of the traffic that adopted routes and security groups allow, in all forms in which AWS describes them."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import adopted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators.network import ALL_TCP

LOCAL = {"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local", "State": "active"}
DEFAULT = {"DestinationCidrBlock": "0.0.0.0/0", "State": "active"}
NFS = ("tcp", 2049, 2049)


@pytest.mark.parametrize(
    ("route", "out", "internet"),
    [
        ({}, False, False),
        ({**DEFAULT, "NatGatewayId": "nat-1"}, True, False),
        ({**DEFAULT, "TransitGatewayId": "tgw-1"}, True, False),
        ({**DEFAULT, "GatewayId": "vgw-1"}, True, False),
        ({**DEFAULT, "InstanceId": "i-1", "NetworkInterfaceId": "eni-1"}, True, False),
        ({**DEFAULT, "GatewayId": "igw-1"}, False, True),
        ({**DEFAULT, "GatewayId": "vpce-firewall"}, True, True),
        ({**DEFAULT, "NatGatewayId": "nat-1", "State": "blackhole"}, False, False),
        ({**DEFAULT, "VpcPeeringConnectionId": "pcx-1"}, False, False),
        ({"DestinationCidrBlock": "192.168.0.0/16", "TransitGatewayId": "tgw-1", "State": "active"}, False, False),
        ({"DestinationPrefixListId": "pl-1", "TransitGatewayId": "tgw-1", "State": "active"}, True, False),
        ({"DestinationPrefixListId": "pl-63a5400a", "GatewayId": "vpce-1", "State": "active"}, False, False),
        ({"DestinationIpv6CidrBlock": "::/0", "EgressOnlyInternetGatewayId": "eigw-1", "State": "active"}, False, False),
    ],
)
def test_where_routes_lead(route, out, internet):
    table = {"RouteTableId": "rtb-1", "Routes": [LOCAL, *([route] if route else [])]}
    assert (adopted.leads_out(table), adopted.leads_to_the_internet(table)) == (out, internet)


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ({"VpcPeeringConnectionId": "pcx-1"}, True),
        ({"TransitGatewayId": "tgw-1"}, True),
        ({"CoreNetworkArn": "arn:aws:networkmanager::123456789012:core-network/core-network-1"}, True),
        ({"GatewayId": "vgw-1"}, True),
        ({"GatewayId": "vpce-firewall"}, True),
        ({"InstanceId": "i-1", "NetworkInterfaceId": "eni-1"}, True),
        ({"NatGatewayId": "nat-1"}, False),
        ({"GatewayId": "igw-1"}, False),
        ({"TransitGatewayId": "tgw-1", "DestinationCidrBlock": "0.0.0.0/0"}, True),
        ({"TransitGatewayId": "tgw-1", "DestinationCidrBlock": "10.8.0.0/16"}, False),
        ({"TransitGatewayId": "tgw-1", "DestinationCidrBlock": None, "DestinationPrefixListId": "pl-1"}, True),
        ({"GatewayId": "vpce-1", "DestinationCidrBlock": None, "DestinationPrefixListId": "pl-63a5400a"}, False),
        ({"VpcPeeringConnectionId": "pcx-1", "State": "blackhole"}, False),
    ],
)
def test_routes_to_another_network(route, expected):
    described = {"State": "active", "DestinationCidrBlock": "10.9.0.0/16", **route}
    table = {"RouteTableId": "rtb-1", "Routes": [LOCAL, {name: value for name, value in described.items() if value}]}
    assert adopted.leads_to(table, "10.9.1.4") is expected


def test_a_route_table_that_another_account_does_not_show_is_trusted():
    class AwsClient:
        def retrieve_once(self, *_arguments, **_more):
            return []

    table = adopted.route_table(AwsClient(), "vpc-shared", "subnet-shared")
    assert adopted.leads_out(table)
    assert adopted.leads_to_the_internet(table)
    assert adopted.leads_to(table, "10.9.1.4")


@pytest.mark.parametrize(
    ("rule", "ports", "lets_in"),
    [
        (("tcp", 2049, 2049, "sg-nodes"), NFS, True),
        (("tcp", 2000, 3000, "sg-nodes"), NFS, True),
        (("-1", -1, -1, "sg-nodes"), NFS, True),
        (("udp", 2049, 2049, "sg-nodes"), NFS, False),
        (("tcp", 2050, 2100, "sg-nodes"), NFS, False),
        (("tcp", 2049, 2049, "sg-others"), NFS, False),
        (("tcp", 2049, 2049, "10.0.0.0/16"), NFS, True),
        (("tcp", 2049, 2049, "10.0.0.0/24"), NFS, False),
        (("tcp", 2049, 2049, "::/0"), NFS, False),
        (("tcp", 2049, 2049, "pl-1"), NFS, True),
        (("tcp", 0, 65535, "sg-nodes"), ALL_TCP, True),
        (("tcp", 1024, 65535, "sg-nodes"), ALL_TCP, False),
    ],
)
def test_what_rules_let_in(rule, ports, lets_in):
    assert adopted.lets_in([rule], ports, {"sg-nodes"}, ["10.0.0.0/24", "10.0.1.0/24"]) == lets_in


def test_rules_may_share_what_they_let_in():
    several = [("tcp", 2049, 2049, "10.0.0.0/24"), ("-1", -1, -1, "10.0.1.0/24")]
    assert adopted.lets_in(several, NFS, set(), ["10.0.0.0/24", "10.0.1.0/24"])
