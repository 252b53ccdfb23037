"""Tests of the table that lists the number of GPUs for each instance type."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.gpu_counts import gpu_count, has_nvlinks
from moto.ec2.models.instance_types import INSTANCE_TYPES

COUNTS = {
    name: sum(each.get("Count", 0) for each in description.get("GpuInfo", {}).get("Gpus", []) if each["Manufacturer"] == "NVIDIA")
    for name, description in INSTANCE_TYPES.items()
}
# For types with a fraction of a GPU, EC2 reports no GPU.
OFFERED = {name: count for name, count in COUNTS.items() if count}


def test_the_table_is_what_ec2_says():
    assert OFFERED
    assert {name: gpu_count(name) for name in OFFERED} == OFFERED


@pytest.mark.parametrize("name", ["c5.large", "trn1.32xlarge", "g6f.xlarge", "p99.48xlarge", ""])
def test_other_types_are_unknown(name):
    assert gpu_count(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("p5.48xlarge", True),
        ("p3.8xlarge", True),
        ("p3.2xlarge", False),
        ("p5.4xlarge", False),
        ("g5.48xlarge", False),
        ("p99.48xlarge", None),
    ],
)
def test_types_with_nvlinks(name, expected):
    assert has_nvlinks(name) is expected
