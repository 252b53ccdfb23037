"""Tests of holds, which keep nodes that look idle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.idle import holds


@pytest.mark.parametrize(("option", "given", "most"), [("seconds", None, "604800"), ("duration", "8d", "7d")])
def test_a_hold_that_is_too_long_is_refused_by_the_name_of_its_option(option, given, most):
    cloud = SimpleNamespace(module=SimpleNamespace(params={"duration": given}))
    with pytest.raises(ClusterError, match=rf"^{option}: a hold lasts at most 7 days\. Specify up to {most}\.$"):
        holds.hold(cloud, None, "study", timedelta(days=8))


NOW = datetime(2026, 12, 1, 16, tzinfo=UTC)
SINCE = {"deeplearning:idle-since": "2026-12-01T15:00:00Z"}


def verdict(state, minutes):
    since = f"{NOW - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"
    return {"deeplearning:idle-verdict": f"{state} {since} {since}"}


@pytest.mark.parametrize(
    ("tags", "then", "is_told"),
    [
        (SINCE, "terminate", True),
        (SINCE, "notify", False),
        (verdict("no_nodes", 11), "terminate", True),
        (verdict("no_nodes", 9), "terminate", False),  # a run has just launched them
        (verdict("idle", 60), "terminate", False),
    ],
)
@pytest.mark.parametrize("missing_ok", [False, True])
def test_a_hold_that_keeps_nothing_is_told_unless_the_run_may_launch_nodes(tags, then, is_told, missing_ok):
    warned = []
    module = SimpleNamespace(params={"duration": "1h"}, check_mode=True, warn=warned.append)
    cloud = SimpleNamespace(module=module, now=NOW, cluster="bert", region="us-east-1", learn_time=lambda _answer: None)
    function = {"Configuration": {"FunctionArn": "f", "Environment": {"Variables": {"THEN": then}}}, "Tags": tags}
    assert holds.hold(cloud, function, "me", timedelta(hours=1), missing_ok=missing_ok) == {"me": "2026-12-01T17:00:00Z"}
    told = "cluster: 'bert' in us-east-1 has no nodes, so this hold keeps nothing. To see why, run the playbook info."
    assert warned == ([told] if is_told and not missing_ok else [])
