"""Tests that check how hosts are named, and how their messages are combined."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output.hosts import Folded, host_names

ALL = [f"demo-worker{number}" for number in range(2, 13)]


@pytest.mark.parametrize(
    ("hosts", "everybody", "text"),
    [
        (["demo-master"], ["demo-master"], "demo-master"),
        (["demo-worker3", "demo-worker2"], ALL, "demo-worker2, demo-worker3"),
        (["demo-worker10", "demo-worker2"], ALL, "demo-worker2, demo-worker10"),
        (list(reversed(ALL)), ALL, "all 11 hosts"),
        (list(reversed(ALL)), [], "demo-worker2, demo-worker3, demo-worker4 and 8 more hosts"),
    ],
)
def test_hosts_are_named_in_the_order_of_their_numbers_or_counted(hosts, everybody, text):
    assert host_names(hosts, everybody) == text


def test_the_same_text_is_kept_once():
    folded = Folded()
    for host in ("a", "b", "a"):
        folded.add("no space left", host)
    folded.add("no route", "c")
    assert list(folded) == [("no space left", ["a", "b"]), ("no route", ["c"])]


def test_texts_that_differ_only_in_the_host_s_own_names_are_the_same():
    folded = Folded()
    folded.add("demo-1 at 10.0.0.4 has no disk", "demo-1", ["demo-1", "10.0.0.4"])
    folded.add("demo-2 at 10.0.0.40 has no disk", "demo-2", ["demo-2", "10.0.0.40"])
    folded.add("demo-1 at 10.0.0.4 has no disk", "demo-3", ["demo-3"])
    assert list(folded) == [
        ("demo-1 at 10.0.0.4 has no disk", ["demo-1", "demo-2"]),
        ("demo-1 at 10.0.0.4 has no disk", ["demo-3"]),
    ]
