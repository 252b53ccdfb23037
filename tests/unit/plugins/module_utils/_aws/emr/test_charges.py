"""Tests of what AWS charges for in an EMR cluster."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.charges import charges
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.definition import CLUSTER
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found

ALL = {"volumes": {"MASTER": [], "CORE": [], "TASK": []}}


def test_instances_cost_twice_and_absent_groups_nothing():
    """AWS charges for the instance and for EMR on it. Task nodes have the type of the master unless the definition sets another."""
    properties = {"master_instance_type": "m5.xlarge", "core_instance_type": "c5.xlarge", "core_count": 2, "task_count": 3, **ALL}
    made = charges({CLUSTER: Found(CLUSTER, "j", properties)}, [])
    assert [(each.product.name, each.product.variant, each.quantity) for each in made] == [
        ("instance", "m5.xlarge", 1),
        ("emr", "m5.xlarge", 1),
        ("instance", "c5.xlarge", 2),
        ("emr", "c5.xlarge", 2),
        ("instance", "m5.xlarge", 3),
        ("emr", "m5.xlarge", 3),
    ]
    alone = charges({CLUSTER: Found(CLUSTER, "j", {"master_instance_type": "m5.xlarge", "core_count": 0, "task_count": 0, **ALL})}, [])
    assert [each.quantity for each in alone] == [1, 1]
    assert list(charges({}, [])) == []
