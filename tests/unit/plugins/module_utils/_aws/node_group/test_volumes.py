"""Tests that root volumes are derived from the image and the options."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import volumes


def disk(**changes):
    options = {"root_volume_type": "gp3", "root_volume_size": 100, "root_volume_iops": None, "root_volume_throughput": None}
    return {**options, **{f"root_volume_{name}": value for name, value in changes.items()}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (disk(), ""),
        (disk(type="gp2"), ""),
        (disk(iops=6000, throughput=1000), ""),
        (disk(type="io2", iops=64000), ""),
        (disk(size=8, iops=3000), ""),
        (disk(type="io1"), "root_volume_iops: missing. Specify a number from 100 to 64000"),
        (disk(iops=100), "root_volume_iops: 100 is out of range. Specify a number from 3000 to 80000 for gp3 volumes"),
        (disk(type="gp2", iops=3000), "root_volume_iops: 3000 is not supported for gp2 volumes"),
        (disk(type="io1", iops=6000), "root_volume_iops: 6000 is too high for a volume of 100 GiB. Specify at most 50 IOPS per GiB"),
        (disk(type="io2", iops=1000, throughput=500), "root_volume_throughput: 500 is not supported for io2 volumes"),
        (disk(throughput=2500, iops=16000), "root_volume_throughput: 2500 is out of range"),
        (disk(throughput=1000), "root_volume_throughput: 1000 MiB/s requires at least 4000 IOPS"),
        (disk(type="gp2", size=20000), "root_volume_size: 20000 GiB is too large for gp2 volumes. Specify at most 16384"),
    ],
)
def test_root_volumes(options, message):
    found = " ".join(volumes.findings(options))
    assert bool(found) == bool(message)
    assert message in found
