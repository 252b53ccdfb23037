"""Tests that check which nodes plugins on the controller see."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.lookup.nodes import LookupModule
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.inventory_nodes import known_nodes, node_table, refuse_failed_inventory

from unit.inventories import HostVars, node

JUMP = {"ansible_ssh_args": "-o 'ProxyCommand=ssh -W %h:%p 192.0.2.1'"}
SESSION = {"ansible_ssh_args": "-o 'ProxyCommand=aws ssm'", "deeplearning_proxy_command": "aws ssm"}
NODES = {"m": node(1, deeplearning_public_ip="192.0.2.1", ansible_host="192.0.2.1"), "w2": node(2, **JUMP), "w3": node(3, **SESSION)}


def test_the_table_contains_what_the_inventory_plugin_has_found():
    table = node_table({"hostvars": HostVars({"localhost": {}, "spare": {"deeplearning_number": 4}}, NODES)})
    common = {"instance_type": "p4d.24xlarge", "user": "ubuntu"}
    names = {name: {"hostname": f"c-{n}", "private_ip": f"10.0.0.{n}", "number": n} for n, name in enumerate(NODES, 1)}
    of_node = {
        "m": {"group": "master", "jump": False, "public_ip": "192.0.2.1", "address": "192.0.2.1"},
        "w2": {"group": "workers", "jump": True, "address": "10.0.0.2"},
        "w3": {"group": "workers", "jump": False, "address": "10.0.0.3", "proxy_command": "aws ssm"},
    }
    ids = {name: {"instance_id": f"i-{n:017x}"} for n, name in enumerate(NODES, 1)}
    assert table == {name: {**common, **names[name], **of_node[name], **ids[name]} for name in NODES}


def test_values_that_a_node_has_set_do_not_count():
    hostvars = HostVars({}, NODES)
    hostvars["w2"] = {**NODES["w2"], "deeplearning_private_ip": "203.0.113.66", "deeplearning_instance_id": "i-0"}
    variables = {**hostvars["w2"], "inventory_hostname": "w2", "hostvars": hostvars}
    assert node_table(variables, ["w2"])["w2"]["private_ip"] == "10.0.0.2"
    assert known_nodes(variables)["w2"]["private_ip"] == "10.0.0.2"


@pytest.mark.parametrize("names", [["w2"], ["w3", "unknown"], []])
def test_only_some_nodes(names):
    variables = {"hostvars": HostVars({}, NODES)}
    table = node_table(variables)
    assert node_table(variables, names) == {name: table[name] for name in names if name in table}
    assert known_nodes(variables, names).keys() == {*names} & NODES.keys()


def test_a_hand_written_inventory_has_no_table():
    hosts = {name: {"deeplearning_cluster": "c", **own} for name, own in NODES.items()}
    variables = {"deeplearning_cluster": "c", "hostvars": HostVars({**hosts, "other": {"deeplearning_number": 9}})}
    assert node_table(variables) == node_table({}) == {}
    assert known_nodes(variables).keys() == NODES.keys()
    assert known_nodes(variables, ["w2", "x"]) == {"w2": {"number": 2, "hostname": "c-2", "private_ip": "10.0.0.2"}}


def test_the_lookup_returns_all_nodes_or_those_that_it_is_asked_for():
    variables = {"hostvars": HostVars({}, NODES)}
    assert [set(table) for table in LookupModule().run([], variables)] == [set(NODES)]
    assert [set(table) for table in LookupModule().run(["w2"], variables)] == [{"w2"}]
    assert LookupModule().run([], {}) == [{}]


def test_the_copy_of_an_inventory_decides_the_cluster_too():
    variables = {"deeplearning_cluster": "c", "hostvars": HostVars({"localhost": {}}, NODES)}
    refuse_failed_inventory(variables)
    with pytest.raises(AnsibleActionFail, match="deeplearning_cluster: 'other', set by a variable of the run, differs from 'c'"):
        refuse_failed_inventory({**variables, "deeplearning_cluster": "other"})
    refuse_failed_inventory({"deeplearning_cluster": "other", "hostvars": HostVars({"localhost": {}})})
