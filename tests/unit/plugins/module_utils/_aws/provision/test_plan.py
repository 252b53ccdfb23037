"""Tests of the results that check mode predicts."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, Change
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import KNOWN_AFTER_APPLY, Address, Found, Wanted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision.plan import plan_end_of_nodes, predict

VPC, SUBNET, GROUP = Address("vpc", "main"), Address("subnet", "private-a"), Address("auto_scaling_group", "workers")


def test_predictions_are_what_a_plan_leads_to():
    vpc, subnet = Found(VPC, "vpc-1", {"cidr": "10.0.0.0/16", "tags": {}}), Found(SUBNET, "subnet-1")
    plan = [
        Change(GROUP, Action.CREATE, Wanted(GROUP)),
        Change(VPC, Action.UPDATE, Wanted(VPC), after={"tags": {"team": "a"}}, found=vpc),
        Change(SUBNET, Action.DELETE, Wanted(SUBNET), found=subnet),
    ]
    assert predict(plan, [vpc, subnet]) == [
        Found(VPC, "vpc-1", {"cidr": "10.0.0.0/16", "tags": {"team": "a"}}),
        Found(GROUP, KNOWN_AFTER_APPLY),
    ]


def test_all_nodes_end_with_the_size_of_their_groups():
    group = Found(GROUP, "bert-workers", {"minimum": 0, "size": 3, "subnets": frozenset()})
    (change,) = plan_end_of_nodes([group, Found(VPC, "vpc-1")])
    assert (change.address, change.action, change.after) == (GROUP, Action.UPDATE, {"size": 0})
