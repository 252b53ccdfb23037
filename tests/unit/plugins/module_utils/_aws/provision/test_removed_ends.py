"""Tests of what a run removes of that which ends the nodes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import removed_ends

LEASE, IDLE, NOTIFY = {"seconds": 60}, {"then": "terminate"}, {"then": "notify"}


@pytest.mark.parametrize(
    ("lease", "idle", "options", "is_endless"),
    [
        (LEASE, None, {}, True),
        (None, IDLE, {}, True),
        (None, NOTIFY, {}, False),
        (LEASE, None, {"idle_after": "1h", "idle_then": "terminate"}, False),
        (LEASE, None, {"idle_after": "1h", "idle_then": "notify"}, True),
        (None, IDLE, {"lease": "8h"}, False),
    ],
)
def test_notifications_about_idle_nodes_do_not_end_them(monkeypatch, lease, idle, options, is_endless):
    monkeypatch.setattr(removed_ends.lease, "describe", lambda *_: lease)
    monkeypatch.setattr(removed_ends.idle, "describe", lambda *_: idle)
    monkeypatch.setattr(removed_ends.idle, "has_ended", lambda *_: False)
    run = SimpleNamespace(request=SimpleNamespace(present=True, options=options), before=[])
    assert removed_ends.removed_ends(run, []) == {"lease": lease, "idle": idle, "topic": None, "endless": is_endless}
