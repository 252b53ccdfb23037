"""Tests of the descriptions of changes to resources."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output.changes import (
    changes_of,
    counts,
    done_lines,
    plan_lines,
    totals,
)


def change(action, kind, key, before=None, after=None):
    return {"action": action, "kind": kind, "key": key, "policy": "in_place", "before": before or {}, "after": after or {}}


NAT = change("create", "nat_gateway", "main")
SUBNETS = [change("create", "subnet", f"{side}-us-east-1a") for side in ("private", "public")]
GROWN = change("update", "auto_scaling_group", "workers", {"size": 2}, {"size": 3})


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"changes": "3 files"},
        {"changes": {"create": 1}},
        {"changes": ["line"]},
        {"changes": [{"action": "grow", "kind": "a", "key": "b"}]},
    ],
)
def test_results_of_other_modules_have_no_changes_of_resources(result):
    assert changes_of(result) is None


def test_an_empty_plan_is_not_the_same_as_none():
    assert changes_of({"changes": []}) == []


def test_created_resources_are_named_by_kind():
    (line,) = done_lines([NAT, *SUBNETS, change("create", "nodes", "workers")], 41.4)
    assert line == "Created 4 resources in 41 s: NAT gateway main; subnets private-us-east-1a, public-us-east-1a; nodes workers"


def test_each_action_has_a_line_and_updates_have_their_properties():
    deleted = [change("delete", "file_system_policy", key) for key in ("one", "two")]
    assert done_lines([GROWN, *deleted], 5) == [
        "Changed 1 resource in 5 s: auto scaling group workers: size 2 -> 3",
        "Deleted 2 resources in 5 s: file system policies one, two",
    ]
    assert done_lines([GROWN], 5, names=False) == ["Changed 1 resource in 5 s"]
    assert done_lines([], 5) == []


def test_what_a_run_has_done_and_a_plan_would_do_is_counted():
    assert totals([*SUBNETS, GROWN]) == ["created 2 resources", "changed 1 resource"]
    assert counts([*SUBNETS, GROWN]) == "2 to create, 1 to change, 0 to delete"


def test_nodes_that_a_plan_terminates_are_counted():
    smaller = change("update", "nodes", "workers", {"numbers": [2, 3, 4]}, {"numbers": [2]})
    assert counts([smaller]) == "0 to create, 1 to change, 0 to delete, 2 nodes to terminate"
    assert counts([change("update", "nodes", "workers", {"numbers": [2]}, {"numbers": [2, 3]})]) == "0 to create, 1 to change, 0 to delete"


@pytest.mark.parametrize(
    ("action", "before", "after", "line"),
    [
        ("create", {}, {"cidr": "10.0.0.0/16", "dns_support": True, "vpc": "(known after apply)", "tags": {"Name": "demo"}}, "+ vpc main"),
        ("delete", {"cidr": "10.0.0.0/16"}, {}, "- vpc main"),
        ("update", {"size": None}, {"size": 2}, "~ vpc main: size none -> 2"),
        ("update", {"zones": ["a"]}, {"zones": ["a", "b"]}, "~ vpc main: zones a -> a and b"),
        (
            "update",
            {"ingress": [["tcp", 22, 22, "192.0.2.1/32"], ["-1", -1, -1, "self"]]},
            {"ingress": [["-1", -1, -1, "self"], ["tcp", 22, 22, "203.0.113.0/24"], ["udp", 1, 9, "sg-1"]]},
            "~ vpc main: ingress + tcp 22 203.0.113.0/24, ingress + udp 1-9 sg-1, ingress - tcp 22 192.0.2.1/32",
        ),
        ("update", {"egress": [["-1", -1, -1, "0.0.0.0/0"]]}, {"egress": []}, "~ vpc main: egress - all 0.0.0.0/0"),
        ("update", {"numbers": [2, 3]}, {"numbers": [2]}, "~ vpc main: numbers 2 and 3 -> 2, terminates node 3"),
        ("update", {"outdated": [2]}, {"outdated": []}, "~ vpc main: replacement of outdated node 2"),
        (
            "update",
            {"outdated": [], "unhealthy": [2, 3]},
            {"outdated": [], "unhealthy": []},
            "~ vpc main: replacement of unhealthy nodes 2 and 3",
        ),
        ("update", {"tags": {"a": "1", "b": "1"}}, {"tags": {"a": "2", "b": "1"}}, "~ vpc main: tags.a 1 -> 2"),
        ("update", {"user_data": "x" * 100}, {"user_data": "y" * 100}, "~ vpc main: user_data changes"),
        ("update", {"name": "a\x1b[2J"}, {"name": "b\nc"}, "~ vpc main: name a -> b c"),
    ],
)
def test_a_plan_has_a_line_for_each_change(action, before, after, line):
    assert plan_lines([change(action, "vpc", "main", before, after)], properties=False) == [(action, line.replace("vpc", "VPC"))]


def test_with_properties_a_new_resource_has_those_that_say_something():
    after = {
        "cidr": "10.0.0.0/16",
        "dns_support": True,
        "efa": False,
        "iops": 0,
        "vpc": "(known after apply)",
        "subnets": ["(known after apply)"],
        "tags": {"Name": "demo"},
        "policy": {"Statement": []},
        "user_data": "x" * 1000,
        "ingress": [["tcp", 22, 22, "10.0.0.0/8"], ["tcp", 80, 90, "self"], ["-1", -1, -1, "self"]],
    }
    assert plan_lines([change("create", "vpc", "main", after=after)], properties=True) == [
        ("create", "+ VPC main: cidr 10.0.0.0/16, dns_support true, ingress tcp 22 10.0.0.0/8 and tcp 80-90 self and all self")
    ]
