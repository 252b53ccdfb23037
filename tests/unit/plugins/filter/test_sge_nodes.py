"""Tests of the list of SGE's nodes."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.deeplearning.cluster.plugins.filter.sge_nodes import sge_nodes


def host(number, **variables):
    common = {"deeplearning_number": number, "deeplearning_hostname": f"w{number}", "deeplearning_private_ip": f"10.0.0.{number}"}
    return {**common, **variables}


def test_nodes_are_in_the_order_of_their_numbers_with_what_they_reported():
    hosts = [host(2, found={"cpus": 4, "gpus": 2, "missing_packages": []}), host(1), host(3, found={"unreachable": True})]
    assert sge_nodes(hosts, "found") == [
        {"name": "w1", "address": "10.0.0.1"},
        {"name": "w2", "address": "10.0.0.2", "cpus": 4, "gpus": 2},
        {"name": "w3", "address": "10.0.0.3"},
    ]


def test_impossible_hardware_is_ignored():
    assert sge_nodes([host(1, found={"cpus": 10**30, "gpus": 1})], "found") == [{"name": "w1", "address": "10.0.0.1"}]


def test_a_host_without_variables_is_refused():
    with pytest.raises(AnsibleFilterError):
        sge_nodes([{}], "found")
