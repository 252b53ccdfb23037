"""Tests of which plans are refused because nobody knows the nodes that they terminate."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.component import NODE_GROUP
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.definition import nodes
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, Change
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found, Wanted

WORKERS = nodes("workers")
FOUND = Found(WORKERS, "w", {"numbers": (2, 3, 4)}, {"instances": {2: "i-2", 3: "i-3", 4: "i-4"}})


def refuse(change, known):
    request = SimpleNamespace(options={"known_instances": known}, present=True, cloud=SimpleNamespace(cluster="demo"))
    NODE_GROUP.refuse(request, [change], [FOUND])


def change(before, after, action=Action.UPDATE):
    return Change(WORKERS, action, Wanted(WORKERS), before=before, after=after, found=FOUND)


CHANGES = {
    "fewer": change({"numbers": (2, 3, 4)}, {"numbers": (2, 3)}),
    "outdated": change({"outdated": (4,)}, {"outdated": ()}),
    "unhealthy": change({"unhealthy": (4,)}, {"unhealthy": ()}),
    "deleted": change({"numbers": (2, 3, 4)}, {}, Action.DELETE),
}


@pytest.mark.parametrize("what", CHANGES)
def test_only_nodes_that_the_caller_knows_are_terminated(what):
    with pytest.raises(ClusterError, match=r"would terminate demo-worker4 \(i-4\), which the inventory does not contain"):
        refuse(CHANGES[what], ["i-2", "i-3"])
    refuse(CHANGES[what], ["i-2", "i-3", "i-4"])
    refuse(CHANGES[what], None)


def test_other_changes_need_no_knowledge():
    refuse(change({"numbers": (2, 3, 4)}, {"numbers": (2, 3, 4, 5)}), [])
    refuse(change({"group": "x"}, {"group": "y"}), [])
