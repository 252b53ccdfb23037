"""Tests of what volumes cost. The tests of the charges for nodes have more."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.charges import Product
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.volumes import products


@pytest.mark.parametrize(
    ("volume", "size", "iops"),
    [
        (("gp2", 32, 100, None), ("gp2", 0.1, 32), []),  # EC2 tells the IOPS of a gp2 volume, which cost nothing
        (("gp3", 100, None, None), ("gp3", 0.08, 100), []),
        (("gp3", 100, 3000, 125), ("gp3", 0.08, 100), []),
        (("gp3", 100, 4000, 125), ("gp3", 0.08, 100), [("gp3", 0.005, 1000)]),
        (("io1", 10, None, None), ("piops", 0.125, 10), []),
        (("io1", 10, 64000, None), ("piops", 0.125, 10), [("piops", 0.065, 64000)]),
        (("io2", 10, 32000, None), ("io2", 0.125, 10), [("io2", 0.065, 32000)]),
        (("io2", 10, 40000, None), ("io2", 0.125, 10), [("io2", 0.065, 32000), ("io2.tier2", 0.0455, 8000)]),
    ],
)
def test_a_volume_costs_by_its_size_and_its_iops(volume, size, iops):
    """The others are the end of the usage type, the published price and the quantity."""
    assert [(product, product.published, quantity) for product, quantity in products(*volume)] == [
        (Product(name, volume[0], "AmazonEC2", f"EBS:Volume{usage}.{end}", unit), price, quantity)
        for name, usage, unit, charges in (("volume", "Usage", "GB-Mo", [size]), ("volume_iops", "P-IOPS", "IOPS-Mo", iops))
        for end, price, quantity in charges
    ]


def test_the_throughput_of_a_volume_costs_by_the_gibibyte():
    *_others, (product, quantity) = products("gp3", 100, 3000, 637)
    assert product == Product("volume_throughput", "gp3", "AmazonEC2", "EBS:VolumeP-Throughput.gp3", "GiBps-Mo")
    assert (product.published, quantity) == (40.96, 0.5)
