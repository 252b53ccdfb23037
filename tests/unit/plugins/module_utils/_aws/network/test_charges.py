"""Tests of what AWS charges for in a network."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.charges import ENDPOINT, NAT_GATEWAY, PUBLIC_IPV4, charges
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found


def test_gateways_addresses_and_endpoints_cost_money():
    """An endpoint costs once per subnet, and a gateway endpoint, such as that for S3, costs nothing."""
    items = [
        Found(Address("vpc", "main"), "v"),
        Found(Address("nat_gateway", "a"), "n"),
        Found(Address("elastic_ip", "a"), "e"),
        Found(Address("vpc_endpoint", "s3"), "g", {"type": "Gateway"}),
        Found(Address("vpc_endpoint", "ssm"), "i", {"type": "Interface", "subnets": frozenset({"a", "b"})}),
    ]
    found = [(str(each.address), each.product, each.quantity) for each in charges({item.address: item for item in items}, [])]
    assert found == [("nat_gateway a", NAT_GATEWAY, 1), ("elastic_ip a", PUBLIC_IPV4, 1), ("vpc_endpoint ssm", ENDPOINT, 2)]
