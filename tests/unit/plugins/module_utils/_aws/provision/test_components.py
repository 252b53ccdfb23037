"""Tests that check which components a module reads."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.component import EMR
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision.components import (
    ALL_COMPONENTS,
    billed_name,
    components_to_read,
    register,
)


def test_a_module_reads_its_own_component_or_those_of_the_cluster():
    register(EMR)
    assert components_to_read(frozenset({EMR.name})) == (EMR,)
    assert components_to_read(frozenset({ALL_COMPONENTS[0].name})) == ALL_COMPONENTS
    assert components_to_read(frozenset()) == ALL_COMPONENTS, "cluster_info manages nothing and reads everything"


@pytest.mark.parametrize(
    ("kind", "key", "name"),
    [
        ("nat_gateway", "main", "NAT gateway main"),
        ("vpc_endpoint", "ecr", "interface endpoint ecr"),
        ("vpc_endpoint", "s3", ""),
        ("subnet", "public", ""),
    ],
)
def test_resources_that_cost_money_without_nodes_have_a_name_for_users(kind, key, name):
    assert billed_name(Address(kind, key)) == name
