"""Tests that the parts of a network follow AWS rules that no simulator checks."""

from __future__ import annotations

import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import definition
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Ref

SUBNETS = {"private-a": "10.0.0.0/19", "public-a": "10.0.128.0/19", "private-b": "10.0.32.0/19", "public-b": "10.0.160.0/19"}
PRIVATE_SUBNETS = {key: cidr for key, cidr in SUBNETS.items() if key.startswith("private")}
ENDPOINTS = {"ssm": "com.amazonaws.us-east-1.ssm", "logs": "com.amazonaws.us-east-1.logs"}
SERVER_RULES = {("tcp", 988, 988, "10.0.0.0/19"), ("tcp", 1018, 1023, "10.0.0.0/19")}


def tags(address):
    return {"Name": f"demo-{address.key}"}


def own_network(subnets=None, **more):
    return {
        item.address: item for item in definition.own_network("10.0.0.0/16", subnets or SUBNETS, "com.amazonaws.us-east-1.s3", tags, **more)
    }


def access(endpoints=None, server_rules=()):
    items = definition.access(["a", "b"], server_rules, ["203.0.113.0/24"], endpoints or {}, tags)
    return {item.address: item.properties for item in items}


def of_kind(resources, kind):
    return {address.key for address in resources if address.kind == kind}


def test_descriptions_keep_to_the_characters_of_security_groups():
    groups = [properties["description"] for address, properties in access(ENDPOINTS).items() if address.kind == "security_group"]
    assert len(groups) == 4
    assert all(re.fullmatch(r"[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{1,255}", text) for text in groups)


def test_nodes_reach_each_other_on_all_protocols_both_ways_as_efa_needs():
    nodes = access()[definition.NODES_GROUP]
    assert ("-1", -1, -1, "self") in nodes["ingress"]
    assert ("-1", -1, -1, "self") in nodes["egress"]


def test_only_named_ranges_reach_the_master_and_only_nodes_the_storage():
    nodes = Ref(definition.NODES_GROUP)
    assert access()[definition.SSH_GROUP]["ingress"] == {("tcp", 22, 22, "203.0.113.0/24")}
    assert access()[definition.STORAGE_GROUP]["ingress"] == {("tcp", 2049, 2049, nodes)}
    assert access(server_rules=SERVER_RULES)[definition.STORAGE_GROUP]["ingress"] == {
        ("tcp", 2049, 2049, nodes),
        ("tcp", 988, 988, nodes),
        ("tcp", 988, 988, "self"),
        ("tcp", 1018, 1023, nodes),
        ("tcp", 1018, 1023, "self"),
    }


def test_servers_of_storage_reach_the_nodes_where_there_are_any():
    nodes = access(server_rules=SERVER_RULES)[definition.NODES_GROUP]["ingress"]
    assert nodes == {("-1", -1, -1, "self"), ("tcp", 988, 988, "10.0.0.0/19"), ("tcp", 1018, 1023, "10.0.0.0/19")}
    assert access()[definition.NODES_GROUP]["ingress"] == {("-1", -1, -1, "self")}


def test_only_nodes_reach_the_interface_endpoints_of_every_zone():
    resources = access(ENDPOINTS)
    assert definition.ENDPOINTS_GROUP not in access()
    assert resources[definition.ENDPOINTS_GROUP]["ingress"] == {("tcp", 443, 443, Ref(definition.NODES_GROUP))}
    endpoint = resources[Address("vpc_endpoint", "ssm")]
    assert endpoint["subnets"] == {Ref(Address("subnet", "private-a")), Ref(Address("subnet", "private-b"))}
    assert (endpoint["type"], endpoint["service"], endpoint["private_dns"]) == ("Interface", ENDPOINTS["ssm"], True)


@pytest.mark.parametrize(
    ("subnets", "nat", "gateways", "addresses", "tables", "internet"),
    [
        (SUBNETS, "single", {"main"}, {"nat"}, {"public", "private"}, True),
        (SUBNETS, "per_zone", {"a", "b"}, {"nat-a", "nat-b"}, {"public", "private-a", "private-b"}, True),
        (SUBNETS, "none", set(), set(), {"public", "private"}, True),
        (PRIVATE_SUBNETS, "none", set(), set(), {"private"}, False),
    ],
)
def test_ways_to_the_internet(subnets, nat, gateways, addresses, tables, internet):
    resources = own_network(subnets, nat=nat)
    assert of_kind(resources, "nat_gateway") == gateways
    assert of_kind(resources, "elastic_ip") == addresses
    assert of_kind(resources, "route_table") == tables
    assert bool(of_kind(resources, "internet_gateway")) == internet
    s3 = resources[definition.S3_ENDPOINT].properties
    assert s3["route_tables"] == {Ref(Address("route_table", key)) for key in tables}, "every subnet has a separate route to S3"
    assert all(definition.INTERNET_GATEWAY in resources[Address("nat_gateway", key)].after for key in gateways)


def test_instances_of_the_vpc_have_names_and_find_others_by_name():
    vpc = own_network()[definition.VPC].properties
    assert (vpc["dns_support"], vpc["dns_hostnames"]) == (True, True)


def test_routes_of_both_sides():
    resources = own_network()
    public, private = resources[definition.PUBLIC_ROUTES].properties, resources[definition.PRIVATE_ROUTES].properties
    assert public["routes"] == {("0.0.0.0/0", Ref(definition.INTERNET_GATEWAY))}
    assert private["routes"] == {("0.0.0.0/0", Ref(definition.NAT_GATEWAY))}
    assert private["subnets"] == {Ref(Address("subnet", "private-a")), Ref(Address("subnet", "private-b"))}


def test_a_zone_with_a_gateway_of_its_own_goes_by_that():
    resources = own_network(nat="per_zone")
    routes = resources[Address("route_table", "private-b")].properties
    assert routes["routes"] == {("0.0.0.0/0", Ref(Address("nat_gateway", "b")))}
    assert routes["subnets"] == {Ref(Address("subnet", "private-b"))}
    assert resources[Address("nat_gateway", "b")].properties["subnet"] == Ref(Address("subnet", "public-b"))


@pytest.mark.parametrize(("before", "after"), [(None, "public-a"), ("public-b", "public-b"), ("public-c", "public-a")])
def test_the_nat_gateway_stays_in_its_subnet_as_long_as_that_is_there(before, after):
    gateway = own_network(nat_subnet=before)[definition.NAT_GATEWAY]
    assert gateway.properties["subnet"] == Ref(Address("subnet", after))
