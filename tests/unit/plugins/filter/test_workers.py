"""Tests of the list of workers in the cluster metadata."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.deeplearning.cluster.plugins.filter.workers import workers
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.inventory_nodes import node_table

from unit.inventories import HostVars, node

NODES = {"c-2": node(2), "c-1": node(1)}
WORKERS = [{"number": n, "name": f"c-{n}", "address": f"10.0.0.{n}"} for n in (1, 2)]


def test_the_workers_come_from_variables_of_hosts_or_from_the_inventory():
    assert workers(NODES.values()) == WORKERS
    assert workers(node_table({"hostvars": HostVars({}, NODES)}).values()) == WORKERS


def test_a_missing_variable_has_its_name():
    with pytest.raises(AnsibleFilterError, match="deeplearning_hostname: the variable is not set for a host"):
        workers([{"deeplearning_number": 1}])
