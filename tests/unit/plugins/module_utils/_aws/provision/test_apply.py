"""Tests of the changes that a run has made with several plans."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.errors import ApplyError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, Change
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found, Wanted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import apply

GROUP, LEASE = Address("auto_scaling_group", "workers"), Address("node_lease", "main")


@pytest.mark.parametrize("fails_again", [False, True])
def test_a_deletion_that_two_plans_make_counts_once_and_an_update_each_time(monkeypatch, fails_again):
    update = Change(GROUP, Action.UPDATE, Wanted(GROUP, {"size": 2}), {"size": 1}, {"size": 2}, found=Found(GROUP, "g"))
    delete = Change(LEASE, Action.DELETE, Wanted(LEASE), found=Found(LEASE, "l"))
    plans = []

    def apply_plan(_cloud, plan, *_others, **_options):
        plans.append(plan)
        if len(plans) == 1 or fails_again:
            raise ApplyError(update, TimeoutError(), [update, delete])
        return {GROUP: Found(GROUP, "g")}

    monkeypatch.setattr(apply, "apply_plan", apply_plan)
    monkeypatch.setattr(apply, "outcome_is_unknown", lambda _cause: True)
    monkeypatch.setattr(apply, "read_all", lambda _request: [])
    request = SimpleNamespace(cloud=SimpleNamespace(pause=lambda _seconds: None), options={"wait": True})
    run = SimpleNamespace(request=request, applied=[])
    if fails_again:
        with pytest.raises(ApplyError) as failure:
            apply.converge(run, lambda _found: [update, delete], [])
        changes = failure.value.applied
    else:
        changes, _after = apply.converge(run, lambda _found: [update, delete], [])
    kinds = [(change.address, change.action) for change in changes]
    assert kinds == [(change.address, change.action) for change in run.applied]
    assert kinds.count((LEASE, Action.DELETE)) == 1
    assert kinds.count((GROUP, Action.UPDATE)) == len(plans)
