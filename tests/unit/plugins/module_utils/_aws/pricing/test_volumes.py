"""Tests of what volumes cost. The tests of the charges for nodes have more."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.volumes import products


def test_the_iops_that_ec2_tells_of_a_gp2_volume_cost_nothing():
    assert [(product.name, quantity) for product, quantity in products("gp2", 32, 100, None)] == [("volume", 32)]
