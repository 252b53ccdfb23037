# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a network consists of, by the rules of AWS that no simulator checks."""

from __future__ import annotations

import re

from ansible_collections.deeplearning.cluster.plugins.module_utils._network import definition
from ansible_collections.deeplearning.cluster.plugins.module_utils._plan.resources import Address, Ref

SUBNETS = {"private-a": "10.0.0.0/19", "public-a": "10.0.128.0/19", "private-b": "10.0.32.0/19", "public-b": "10.0.160.0/19"}
RESOURCES = {
    item.address: item
    for item in definition.wanted("10.0.0.0/16", SUBNETS, ["203.0.113.0/24"], "us-east-1", lambda address: {"Name": f"demo-{address.key}"})
}


def test_descriptions_keep_to_the_characters_of_security_groups():
    groups = [item.properties["description"] for item in RESOURCES.values() if item.address.kind == "security_group"]
    assert len(groups) == 3
    assert all(re.fullmatch(r"[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{1,255}", text) for text in groups)


def test_nodes_reach_each_other_on_all_protocols_both_ways_as_efa_needs():
    nodes = RESOURCES[definition.NODES_GROUP].properties
    assert ("-1", -1, -1, "self") in nodes["ingress"]
    assert ("-1", -1, -1, "self") in nodes["egress"]


def test_only_named_ranges_reach_the_master_and_only_nodes_the_storage():
    assert RESOURCES[definition.SSH_GROUP].properties["ingress"] == {("tcp", 22, 22, "203.0.113.0/24")}
    assert RESOURCES[definition.STORAGE_GROUP].properties["ingress"] == {("tcp", 2049, 2049, Ref(definition.NODES_GROUP))}


def test_routes_of_both_sides():
    public, private = RESOURCES[definition.PUBLIC_ROUTES].properties, RESOURCES[definition.PRIVATE_ROUTES].properties
    assert public["routes"] == {("0.0.0.0/0", Ref(definition.INTERNET_GATEWAY))}
    assert private["routes"] == {("0.0.0.0/0", Ref(definition.NAT_GATEWAY))}
    assert private["subnets"] == {Ref(Address("subnet", "private-a")), Ref(Address("subnet", "private-b"))}


def test_the_nat_gateway_comes_after_the_internet_gateway():
    assert definition.INTERNET_GATEWAY in RESOURCES[definition.NAT_GATEWAY].after


def test_the_nat_gateway_stays_in_its_subnet_as_long_as_that_is_there():
    def nat_subnet(before):
        items = definition.wanted("10.0.0.0/16", SUBNETS, [], "us-east-1", lambda _: {}, nat_subnet=before)
        return next(item.properties["subnet"].address.key for item in items if item.address == definition.NAT_GATEWAY)

    assert (nat_subnet(None), nat_subnet("public-b"), nat_subnet("public-c")) == ("public-a", "public-b", "public-a")
