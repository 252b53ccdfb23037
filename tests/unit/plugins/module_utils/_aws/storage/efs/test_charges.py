"""Tests of what AWS charges for in an EFS file system."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs.charges import DATA, THROUGHPUT, charges
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs.definition import FILE_SYSTEM


@pytest.mark.parametrize(("throughput", "expected"), [(None, []), (20, [(THROUGHPUT, 17)]), (3, []), (1, [])])
def test_data_and_provisioned_throughput_cost_money(throughput, expected):
    item = Found(FILE_SYSTEM, "f", {"provisioned_throughput": throughput}, {"size": 60 << 30})
    assert [(each.product, each.quantity) for each in charges({FILE_SYSTEM: item}, [])] == [(DATA, 60), *expected]


def test_a_new_file_system_has_no_data():
    assert [each.quantity for each in charges({FILE_SYSTEM: Found(FILE_SYSTEM, "f")}, [])] == [0]
