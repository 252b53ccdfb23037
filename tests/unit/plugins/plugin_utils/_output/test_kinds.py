"""Tests of the names of resource kinds."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output.kinds import kind_name


@pytest.mark.parametrize(
    ("kind", "count", "name"),
    [
        ("nat_gateway", 1, "NAT gateway"),
        ("vpc_endpoint", 2, "VPC endpoints"),
        ("file_system_policy", 2, "file system policies"),
        ("nodes", 2, "nodes"),
    ],
)
def test_kind_name(kind, count, name):
    assert kind_name(kind, count) == name
