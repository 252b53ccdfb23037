"""Tests of what AWS charges for in a Lustre file system."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre.charges import charges
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre.definition import LUSTRE


@pytest.mark.parametrize(
    ("deployment", "throughput", "variant", "published"),
    [
        ("PERSISTENT_2", 250, "PERSISTENT_2 250", 0.21),
        ("PERSISTENT_1", 50, "PERSISTENT_1 50", 0.14),
        ("SCRATCH_2", None, "SCRATCH 200", 0.14),
        ("PERSISTENT_3", 77, "PERSISTENT_3 77", None),
    ],
)
def test_the_price_depends_on_deployment_and_throughput(deployment, throughput, variant, published):
    item = Found(LUSTRE, "f", {"deployment": deployment, "throughput": throughput, "capacity": 2400})
    (charge,) = charges({LUSTRE: item}, [])
    assert (charge.quantity, charge.product.variant, charge.product.published) == (2400, variant, published)
    assert dict(charge.product.attributes)["throughputCapacity"] == variant.split()[-1]
