"""Tests of the words for what happened to a cluster."""

from __future__ import annotations

import csv
import io
import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import messages, timeline

START = 1_790_000_000.0  # 2026-09-21 14:13:20 UTC
ALICE = "arn:aws:iam::123456789012:user/alice"
LEASE = "arn:aws:sts::123456789012:assumed-role/demo-nodes-lease-us-east-1/x"
PRICE = {"currency": "USD", "read_at": START, "published": "", "problem": "", "endpoint": "", "charges": []}
INTERRUPTED = "At 2026-09-21T14:13:20Z an instance was taken out of service in response to an EC2 health check."


def event(action, *resources, seconds=0.0, **more):
    told = {"time": START + seconds, "source": "auto_scaling", "action": action, "resources": list(resources), "group": "workers"}
    return {**told, "caller": "", "cause": "", "ended_by": "", "error": "", "hourly": None, "until": None, **more}


def node(launched, ended, hourly=2.0, running=False, **more):
    times = {name: time if time is None else START + time for name, time in (("launched_at", launched), ("ended_at", ended))}
    return {"instance_id": "i-1", "running": running, "cause": "", "hourly": hourly, **times, **more}


def facts(*events, nodes=(), problems=(), price=PRICE, since=START - 3600):
    return {
        "events": list(events),
        "nodes": list(nodes),
        "problems": list(problems),
        "price": price,
        "since": since,
        "read_at": START + 7200,
    }


def job(**more):
    started = {"created": START - 60, "began": START, "ended": START + 60, "hosts": 2, "attempt": 1, "attempts": [], "processes": []}
    return {"name": "digits-1", "state": "succeeded", "over": True, **started, **more}


def lines(*events, jobs=(), host="demo-master", problem="", form="text", service="", **more):
    return messages.cluster_events(facts(*events, **more), jobs, host, problem, form, "demo", "us-east-1", service).splitlines()


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (event("launch", "i-1", hourly=17.05), "node i-1 of workers launched, +17.05 USD per hour"),
        (
            event("termination", "i-1", hourly=-17.05, cause=INTERRUPTED),
            f"node i-1 of workers terminated, -17.05 USD per hour. {INTERRUPTED}",
        ),
        (event("failed_launch", cause="No capacity."), "a node of workers could not be launched. No capacity."),
        (event("TerminateInstances", "i-1", "i-2", caller=ALICE), f"TerminateInstances i-1, i-2, by {ALICE}"),
        (event("DeleteVpc", "vpc-1", caller=ALICE, error="AccessDenied"), f"DeleteVpc vpc-1 failed (AccessDenied), by {ALICE}"),
        (
            event("termination", "i-1", hourly=-17.05, cause=INTERRUPTED, ended_by="idle"),
            f"node i-1 of workers terminated, -17.05 USD per hour. AWS ended the nodes: they had been idle. {INTERRUPTED}",
        ),
        (
            event("DeleteAutoScalingGroup", "demo-workers", caller=LEASE, ended_by="lease"),
            f"DeleteAutoScalingGroup demo-workers, by {LEASE}. AWS ended the nodes: their lease had ended.",
        ),
        (
            event("UpdateSchedule", "demo-nodes-lease/workers", caller=ALICE, ended_by="lease"),
            f"UpdateSchedule demo-nodes-lease/workers, by {ALICE}. The lease of the nodes was changed",
        ),
        (
            event("CreateSchedule", "demo-nodes-lease/workers", caller=ALICE, ended_by="lease", until=START + 3600),
            f"CreateSchedule demo-nodes-lease/workers, by {ALICE}. The lease of the nodes was set and ends at 2026-09-21 15:13:20 UTC",
        ),
        (
            event("DeleteSchedule", "demo-nodes-idle/check", caller=ALICE, ended_by="idle", error="AccessDenied"),
            f"DeleteSchedule demo-nodes-idle/check failed (AccessDenied), by {ALICE}",
        ),
    ],
)
def test_an_event_of_aws(told, line):
    assert lines(told)[0] == f"2026-09-21 14:13:20  {line}"


def test_nodes_have_the_names_by_which_people_know_them():
    nodes = [node(0, 60, name="demo-worker2"), node(0, 60, instance_id="i-2", name="")]
    assert [line[21:] for line in lines(event("launch", "i-1"), event("TerminateInstances", "i-1", "i-2"), nodes=nodes)[:2]] == [
        "node demo-worker2 (i-1) launched",
        "TerminateInstances demo-worker2 (i-1), i-2",
    ]


def test_launches_that_fail_again_and_again_are_one_line():
    failed = [event("failed_launch", cause="No capacity.", seconds=60 * number) for number in range(5)]
    shown = lines(*failed, event("launch", "i-1", seconds=400), *failed[:1])
    assert [line.partition("  ")[2] for line in shown[:3]] == [
        "a node of workers could not be launched, 5 times until 2026-09-21 14:17:20. No capacity.",
        "a node of workers could not be launched. No capacity.",
        "node i-1 of workers launched",
    ]
    other = event("failed_launch", cause="No capacity.", group="master")
    assert len([line for line in lines(failed[0], other, failed[1]) if "could not" in line]) == 3
    assert "could not be launched, 2 times until 2026-09-21 14:14:20. " in lines(*failed[:2])[0]


def test_refused_calls_of_a_caller_hide_nothing():
    mallory = "arn:aws:sts::123456789012:assumed-role/mallory"
    refused = [
        event("TerminateInstances", "i-1", seconds=each, caller=f"{mallory}/{each}", error="Client.UnauthorizedOperation")
        for each in range(1000)
    ]
    others = [event("DeleteVpc", "vpc-1", seconds=2000, caller=ALICE, error="AccessDenied"), event("DeleteVpc", "vpc-1", seconds=2001)]
    shown = lines(*refused, *others)[:-1]
    assert len(shown) == timeline.MOST_REFUSED + 2
    assert shown[19].endswith(f"by {mallory}/19. This caller made 980 more refused calls until 2026-09-21 14:29:59.")
    assert not [line for line in lines(*refused[:20]) if "more refused" in line]
    assert [line for line in lines(*refused[:21]) if "This caller made 1 more refused call until " in line]


def test_what_a_host_reports_is_told_apart():
    failure = {"name": "rank0", "host": "demo-worker2", "state": "failed", "exit_code": 1, "lines": []}
    attempt = {"attempt": 1, "failure": failure, "ended": START + 20, "action": "restart", "rule": "same_hosts"}
    shown = lines(jobs=[job(state="failed", failure=failure, attempts=[attempt], attempt=2)])
    assert [line for line in shown if "reported by demo-master: job digits-1: " in line] == shown[:-1]
    assert [line.partition("digits-1: ")[2] for line in shown[:-1]] == [
        "code copied",
        "started on 2 hosts",
        "attempt 1 failed: rank 0 on demo-worker2 ended with exit status 1",
        "restart: The job continues on the same hosts.",
        "failed. job digits-1 failed: rank 0 on demo-worker2 ended with exit status 1.",
    ]
    names = [line.split("job ")[1].partition(":")[0] for line in lines(jobs=[job(name="digits-2"), {}, job()])[:-1]]
    assert sorted(set(names)) == ["digits-1", "digits-2"]
    assert len(lines(jobs=[job(created=0.0, began=0.0, ended=0.0)])) == 1, "older than the time that is shown"
    assert "Jobs are not shown, because the cluster has no running nodes." in lines(host="")
    assert "Jobs are not shown, because demo-master did not list them: no route" in lines(problem="no route")


def test_long_texts_are_cut():
    launches = [event("failed_launch", cause="x" * 1000), event("failed_launch", cause="x" * 1001)]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines(*launches, jobs=[job(name="n" * 400)], form="csv")))))
    assert {row["why"] for row in rows} == {"", "x" * 1000, f"{'x' * 997}..."}
    assert [len(row["what"]) for row in rows if row["what"].startswith("job n")] == [300] * 3


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node(-1800, 1800)], "1 node ran for 1.0 node-hours and cost 2.00 USD, without volumes, at the prices of today. Prices: AWS"),
        ([node(-7200, None, running=True)], "1 node ran for 3.0 node-hours and cost 6.00 USD"),
        ([node(-9000, -7200)], "0 nodes ran for 0.0 node-minutes and cost 0.000 USD"),
        ([], "AWS has recorded nothing about cluster demo in us-east-1 since 2026-09-21 13:13:20 UTC. Check the cluster and the region"),
        (
            [node(0, 3600, None), node(0, 3600)],
            "2 nodes ran for 2.0 node-hours and cost 2.00 USD, without volumes, at the prices of today, ",
        ),
        ([node(0, 3600, None), node(0, 3600)], "and without 1 node whose price is not known. Prices"),
        (
            [node(0, None), node(None, 3600)],
            "0 nodes ran for 0.0 node-minutes and cost 0.000 USD, without volumes, at the prices of today, and ",
        ),
        ([node(0, None), node(None, 3600)], "without 2 nodes whose time is not known."),
    ],
)
def test_the_sum(nodes, words):
    assert words in lines(nodes=nodes)[-1]
    assert " since 2026-09-21 13:13:20 UTC" in lines(nodes=nodes)[-1].replace("Since", " since")


@pytest.mark.parametrize(("kind", "source"), [("denied", "Auto Scaling"), ("unavailable", "Auto Scaling"), ("truncated", "AWS")])
def test_what_was_not_read_is_not_said_to_be_nothing(kind, source):
    told = lines(problems=[{"kind": kind, "message": "x", "time": ""}])[-1]
    assert told.startswith(f"{source} has recorded nothing about cluster demo in us-east-1 since ")


def test_emr_nodes_are_not_said_to_cost_nothing():
    assert lines(service="emr")[-1].startswith("Nodes of EMR clusters are not listed, and neither is what they cost. To see them, run ")
    assert lines(service="emr")[-1].endswith("deeplearning.cluster.info")


def test_a_node_that_aws_has_lost_has_a_line():
    lost = node(0, None, name="demo-worker2", cause="Server.InternalError: Internal error")
    words = "node demo-worker2 (i-1) has ended, AWS does not tell when"
    assert lines(event("launch", "i-1"), nodes=[lost])[1] == f"2026-09-21 16:13:20  {words}. Server.InternalError: Internal error"
    (row,) = csv.DictReader(io.StringIO("\n".join(lines(nodes=[lost], form="csv"))))
    assert (row["what"], row["why"]) == (words, lost["cause"])


def test_the_sum_without_prices():
    assert lines(nodes=[node(0, 3600)], price=None)[-1].endswith("1 node ran for 1.0 node-hours.")


def test_what_is_missing_is_said():
    told = [
        {"kind": "denied", "message": "An error occurred."},
        {"kind": "unavailable", "message": "no route"},
        {"kind": "truncated", "message": "EventName RunInstances", "time": "2026-09-21T00:00:00Z"},
        {"kind": "omitted", "message": "i-1, i-2"},
        {"kind": "foreign_group", "message": "demo-workers"},
    ]
    assert lines(problems=told)[:-1] == [
        "CloudTrail does not say who did what, because this is not allowed: An error occurred. Allow cloudtrail:LookupEvents.",
        "CloudTrail could not be asked who did what, so events may be missing: no route.",
        "CloudTrail has more events for EventName RunInstances than are read. Before 2026-09-21T00:00:00Z, only those near the ends "
        "of nodes are shown. To see the others, run aws cloudtrail lookup-events",
        "CloudTrail has left out which instances some calls have launched, so prices of nodes can be missing: i-1, i-2.",
        "Auto Scaling group demo-workers does not have the tag of this cluster, so its events are not shown.",
    ]


def test_csv_and_json():
    told = event("TerminateInstances", "i-1", caller=ALICE, hourly=-2.5)
    rows = list(csv.reader(io.StringIO("\n".join(lines(told, form="csv")))))
    assert rows == [
        ["time", "source", "what", "by", "why", "price_per_hour", "cost", "currency"],
        ["2026-09-21 14:13:20", "AWS", "TerminateInstances i-1", ALICE, "", "-2.5", "", "USD"],
    ]
    document = json.loads("\n".join(lines(told, form="json", nodes=[node(0, 3600)])))
    (shown,) = document["events"]
    assert (shown["what"], shown["by"], shown["hourly"], shown["time"]) == ("TerminateInstances i-1", ALICE, -2.5, "2026-09-21 14:13:20")
    assert (document["nodes"][0]["instance_id"], document["nodes"][0]["cost"], document["currency"]) == ("i-1", 2.0, "USD")
    assert "node-hours" in document["remarks"][-1]


def test_the_costs_in_a_spreadsheet_add_up_to_those_of_the_nodes():
    nodes = [
        node(-3600, 1800, instance_id="i-1", name="demo-worker2"),
        node(-3600, 1800, instance_id="i-2", hourly=None),
        node(0, 600, instance_id="i-3", running=True, name="demo-master"),  # it was stopped and started again
    ]
    events = [
        event("stop", "i-3", seconds=600, hourly=-2.0),
        event("TerminateInstances", "i-1", "i-2", seconds=1800, hourly=-2.0),
        event("termination", "i-1", seconds=1800),
    ]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines(*events, nodes=nodes, form="csv")))))
    assert [(row["what"], row["cost"], row["currency"]) for row in rows] == [
        ("node demo-master (i-3) stopped", "", "USD"),
        ("TerminateInstances demo-worker2 (i-1), i-2", "3", "USD"),
        ("node demo-worker2 (i-1) terminated", "", ""),
        ("node demo-master (i-3) is running", "4", "USD"),
    ]
    assert sum(float(row["cost"] or 0) for row in rows) == 7.0
    assert [row["time"] for row in rows] == [f"2026-09-21 {time}" for time in ("14:23:20", "14:43:20", "14:43:20", "16:13:20")]
    assert "and cost 7.00 USD" in lines(*events, nodes=nodes)[-1]
    shown = json.loads("\n".join(lines(*events, nodes=nodes, form="json")))
    assert [each["cost"] for each in shown["nodes"]] == [3.0, None, 4.0]
    assert [each["cost"] for each in shown["events"]] == [None, 3.0, None]


def test_all_forms_tell_what_has_ended_the_nodes():
    ended = event("termination", "i-1", cause="At ...", ended_by="lease")
    why = "AWS ended the nodes: their lease had ended. At ..."
    assert why in lines(ended)[0]
    (row,) = csv.DictReader(io.StringIO("\n".join(lines(ended, form="csv"))))
    (shown,) = json.loads("\n".join(lines(ended, form="json")))["events"]
    assert (row["why"], shown["why"]) == (why, why)
