"""Tests that check what a run announces before it launches nodes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, Change
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Wanted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import attempts

NODES, GROUP = Address("nodes", "workers"), Address("auto_scaling_group", "workers")


@pytest.mark.parametrize(
    ("address", "action", "before", "after", "told"),
    [
        (NODES, Action.CREATE, {}, {"numbers": (2, 3)}, True),
        (NODES, Action.CREATE, {}, {"numbers": ()}, False),
        (NODES, Action.UPDATE, {"numbers": (2,)}, {"numbers": (2, 3)}, True),
        (NODES, Action.UPDATE, {"numbers": (2, 3, 4)}, {"numbers": (2,)}, False),
        (NODES, Action.UPDATE, {"outdated": (2,)}, {"outdated": ()}, True),
        (NODES, Action.UPDATE, {"numbers": (2, 3), "unhealthy": (2,)}, {"numbers": (2,), "unhealthy": ()}, True),
        (NODES, Action.DELETE, {"numbers": (2,)}, {}, False),
        (GROUP, Action.CREATE, {}, {"size": 3}, False),
    ],
)
def test_a_run_announces_launches_and_nothing_else(address, action, before, after, told):
    shown = []
    request = SimpleNamespace(cloud=SimpleNamespace(progress=shown.append))
    attempts._announce(request, [Change(address, action, Wanted(address), before=before, after=after)])
    assert [line.partition(",")[0] for line in shown] == (["From now on"] if told else [])
