"""Tests that check which changes to a cluster are refused, and what happens to the steps of a cluster when it is replaced."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.component import EMR
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.definition import CLUSTER, step
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, Change
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found, Wanted

RELEASE = ({"release_label": "emr-5.8.0"}, {"release_label": "emr-7.9.0"})
SIZE = ({"core_count": 2}, {"core_count": 3})
STEP = Found(step("prepare"), "s-1")


def cluster(*, protected=False):
    return Found(CLUSTER, "j-1", {"termination_protection": protected})


def update(before, after, *, protected=False):
    return Change(CLUSTER, Action.UPDATE, Wanted(CLUSTER), before, after, cluster(protected=protected))


def delete(*, protected=False):
    return Change(CLUSTER, Action.DELETE, Wanted(CLUSTER), found=cluster(protected=protected))


def refuse(change, **options):
    EMR.refuse(Request(None, {"emr_replace": False, "emr_termination_protection": None, **options}), [change], [])


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (update(*SIZE), {}),
        (update(*SIZE, protected=True), {}),
        (update(*RELEASE), {"emr_replace": True}),
        (update(*RELEASE, protected=True), {"emr_replace": True, "emr_termination_protection": False}),
        (delete(), {}),
        (delete(protected=True), {"emr_termination_protection": False}),
        (Change(CLUSTER, Action.CREATE, Wanted(CLUSTER), after=RELEASE[1]), {}),
    ],
)
def test_changes_that_are_made(change, options):
    refuse(change, **options)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (update(*RELEASE), {}, "EMR cluster j-1 .* release_label is 'emr-5.8.0', not 'emr-7.9.0'. .* set emr_replace: true"),
        (update({"core_count": 2}, {"core_count": 0}), {}, "core_count is 2, not 0. Restore the former values"),
        (update(*RELEASE, protected=True), {"emr_replace": True}, "emr_termination_protection: EMR cluster j-1 is protected"),
        (delete(protected=True), {}, "emr_termination_protection: EMR cluster j-1 is protected"),
        (delete(protected=True), {"emr_termination_protection": True}, "To allow its termination, set this option to false"),
    ],
)
def test_changes_that_are_refused(change, options, message):
    with pytest.raises(ClusterError, match=message):
        refuse(change, **options)


def test_a_new_cluster_runs_all_steps():
    found = [cluster(), STEP]
    assert EMR.predict(None, [update(*RELEASE)], found) == [cluster()]
    assert EMR.predict(None, [update(*SIZE)], found) == found


def test_a_deletion_ends_the_cluster_alone():
    assert not EMR.keeps(None, cluster())
    assert EMR.keeps(None, STEP)
