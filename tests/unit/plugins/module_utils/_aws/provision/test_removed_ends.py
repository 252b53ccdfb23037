"""Tests of what a run removes of that which ends the nodes."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, Change
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found, Wanted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import removed_ends

LEASE, ENDED, IDLE, NOTIFY = {"seconds": 60}, {"seconds": 0}, {"then": "terminate"}, {"then": "notify"}
ENDS, GROUP = Found(Address("node_lease", "main"), "l"), Found(Address("auto_scaling_group", "workers"), "g")
WHOLE = {"rests": [], "done": True}
CHANGES = [
    Change(ENDS.address, Action.DELETE, Wanted(ENDS.address), found=ENDS),
    Change(GROUP.address, Action.UPDATE, Wanted(GROUP.address), {"size": 1}, {"size": 2}, found=GROUP),
]


def removed(monkeypatch, lease, idle, options, changes=CHANGES, has_ended=False, present=True):
    """Return what a run removes if what it deletes is this."""
    request = SimpleNamespace(present=present, options=options)
    for module, found in ((removed_ends.lease, lease), (removed_ends.idle, idle)):
        monkeypatch.setattr(module, "describe", lambda *given, found=found: found if given == (request, [ENDS]) else None)
    monkeypatch.setattr(removed_ends.idle, "has_ended", lambda before: has_ended and before == [GROUP])
    monkeypatch.setattr(removed_ends, "_is_incomplete", lambda *_: False)
    module = SimpleNamespace(check_mode=False)
    return removed_ends.removed_ends(SimpleNamespace(request=request, before=[GROUP], module=module), changes, done=True)


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
    found = removed(monkeypatch, lease, idle, options)
    assert found == {**WHOLE, "lease": lease, "idle": idle, "topic": None, "endless": is_endless}


def test_what_has_ended_the_nodes_does_not_count(monkeypatch):
    assert removed(monkeypatch, ENDED, IDLE, {}, has_ended=True) == {}
    assert removed(monkeypatch, ENDED, IDLE, {}) == {**WHOLE, "lease": None, "idle": IDLE, "topic": None, "endless": True}
    assert removed(monkeypatch, LEASE, IDLE, {}, CHANGES[1:]) == removed(monkeypatch, LEASE, IDLE, {}, present=False) == {}


@pytest.mark.parametrize(("after", "topic"), [({}, "arn:a"), ({"arn:b": ["x"]}, None)])
def test_a_topic_that_is_only_replaced_is_not_removed(monkeypatch, after, topic):
    before = {"notifications": {"arn:a": ["x"]}}
    change = Change(GROUP.address, Action.UPDATE, Wanted(GROUP.address), before, {"notifications": after}, found=GROUP)
    created = Change(GROUP.address, Action.CREATE, Wanted(GROUP.address), {}, {"notifications": {}})
    found = removed(monkeypatch, None, None, {}, [created, CHANGES[1], change])
    assert found == ({**WHOLE, "lease": None, "idle": None, "topic": topic, "endless": False} if topic else {})


@pytest.mark.parametrize(("tags", "rests"), [({}, ["lease"]), ({"deeplearning:lease": "8h"}, [])])
def test_what_was_incomplete_before_a_run_is_told_by_its_tags(monkeypatch, tags, rests):
    """Another run has removed the lease, and has failed afterwards."""
    before = {"tags": {"deeplearning:lease": "8h"}}
    change = Change(GROUP.address, Action.UPDATE, Wanted(GROUP.address), before, {"tags": tags}, found=GROUP)
    found = removed(monkeypatch, None, None, {}, [change])
    assert found == ({"lease": None, "idle": None, "topic": None, "rests": rests, "endless": True, "done": True} if rests else {})


def test_an_end_that_a_run_has_changed_remains_as_it_is_now(monkeypatch):
    monkeypatch.setattr(removed_ends, "_is_incomplete", lambda *_: False)
    before = Found(Address("node_lease", "main"), "l", {"end": "2026-12-01", "role": "r"})
    run = SimpleNamespace(request=None, before=[GROUP, before])
    update = Change(before.address, Action.UPDATE, Wanted(before.address), {"end": "2026-12-01"}, {"end": "2026-12-02"}, found=before)
    assert [item.properties for item in removed_ends.remaining_ends(run, [update])] == [{"end": "2026-12-02", "role": "r"}]
    assert removed_ends.remaining_ends(run, [Change(before.address, Action.DELETE, Wanted(before.address), found=before)]) == []


NOW, EARLIER, LATER = "2026-12-01T08:00:00+00:00", "2026-12-01T07:59:59+00:00", "2026-12-01T08:00:01+00:00"


def lease(end=LATER, state="ENABLED"):
    groups = ("master", "workers")
    calls, ends = (dict.fromkeys(groups, value) for value in ({"state": state}, end))
    return Found(Address("node_lease", "main"), "l", {"ends": ends, "calls": calls, "policy": {"Version": "x"}}, {"arn": "a"})


def idle(state="ENABLED", since=""):
    function = {"role": "r", "environment": {"THEN": "terminate"}}
    properties = {"schedule": {"state": state}, "policy": {"Version": "x"}, "function": function, "since": since}
    return Found(Address("idle_end", "main"), "r", properties, {"arn": "a"})


def group(*tags):
    return Found(Address("auto_scaling_group", "workers"), "g", {"tags": dict.fromkeys(tags, "8h")})


TAGGED = group("deeplearning:lease", "deeplearning:idle")


@pytest.mark.parametrize(
    ("found", "unread", "options"),
    [
        ([], (), []),
        ([group(), Found(Address("node_lease", "other"), "x")], (), []),
        ([TAGGED], (), ["lease", "idle_after"]),
        ([group("deeplearning:lease")], (), ["lease"]),
        ([TAGGED], ("lease",), ["idle_after"]),
        ([TAGGED], ("lease", "idle_after"), []),
        ([TAGGED, lease(), idle()], (), []),
        ([TAGGED, lease(state="DISABLED"), idle(state="DISABLED")], (), ["lease", "idle_after"]),
        ([TAGGED, lease(state="DISABLED"), idle(state="DISABLED")], ("idle_after",), ["lease"]),
        # What has ended the nodes is not missed.
        ([lease(EARLIER, "DISABLED")], (), []),
        ([lease(NOW, "DISABLED")], (), []),
        ([lease(None, "DISABLED")], (), ["lease"]),
        ([idle("DISABLED", since=EARLIER)], (), []),
        ([idle("DISABLED")], (), ["idle_after"]),
    ],
)
def test_ends_of_which_parts_are_missing(found, unread, options):
    request = SimpleNamespace(unread=set(unread), cloud=SimpleNamespace(now=datetime.fromisoformat(NOW)))
    assert removed_ends.incomplete_ends(request, found) == options


@pytest.mark.parametrize(("ends", "rests"), [([lease(), idle()], []), ([lease(state="DISABLED"), idle()], ["lease"])])
def test_only_the_rest_of_an_incomplete_end_is_removed(monkeypatch, ends, rests):
    monkeypatch.setattr(removed_ends.lease, "describe", lambda _request, whole: LEASE if ends[0] in whole else None)
    monkeypatch.setattr(removed_ends.idle, "describe", lambda _request, whole: IDLE if ends[1] in whole else None)
    request = SimpleNamespace(present=True, options={}, cloud=SimpleNamespace(now=datetime.fromisoformat(NOW)))
    run = SimpleNamespace(request=request, before=[group(), *ends], module=SimpleNamespace(check_mode=True))
    changes = [Change(item.address, Action.DELETE, Wanted(item.address), found=item) for item in ends]
    assert removed_ends.removed_ends(run, changes, done=True) == {
        "lease": None if rests else LEASE,
        "idle": IDLE,
        "topic": None,
        "rests": rests,
        "endless": True,
        "done": False,
    }
    assert removed_ends.removed_ends(run, changes)["done"] is False
    assert removed_ends.remaining_ends(run, []) == [item for item in ends if item is not ends[0] or not rests]
