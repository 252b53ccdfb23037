"""What a job or a node says about itself cannot look like a fact of AWS in the timeline of a cluster, nor act in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import timeline

START = 1_790_000_000.0
LAUNCH = {
    "time": START,
    "source": "auto_scaling",
    "action": "launch",
    "resources": ["i-1"],
    "group": "workers",
    "caller": "",
    "cause": "",
    "ended_by": "",
    "error": "",
    "hourly": 2.0,
}
PRICE = {"currency": "USD", "read_at": START, "published": "", "problem": "", "endpoint": "", "charges": []}
FORGED = "2026-09-21 14:13:20  node i-0123456789abcdef0 of workers terminated, by arn:aws:iam::1:user/alice, -99.00 USD per hour"
BREAKS = ("\n", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\x1b[2K\x1b[1G", "\u202e")


def told(form="text", text="", **more):
    """Return the timeline of a cluster whose jobs contain a text wherever a node can put one."""
    failure = {"name": "rank0", "host": text, "state": "failed", "cause": {"kind": "health", "what": text}, "lines": []}
    attempt = {"attempt": 1, "failure": failure, "ended": START + 5, "action": text, "rule": text}
    job = {"name": "digits-1", "state": text or "failed", "over": True, "created": START, "began": START, "ended": START + 9, "hosts": 2}
    job |= {"attempt": 2, "attempts": [attempt], "processes": [], "failure": failure, **more}
    node = {"instance_id": "i-1", "running": True, "hourly": 2.0, "launched_at": START, "ended_at": None}
    facts = {"events": [LAUNCH], "nodes": [node], "problems": [], "price": PRICE, "since": START - 1, "read_at": START + 3600}
    return timeline.cluster_events(facts, [job], "demo-worker2", text, form)


@pytest.mark.parametrize("line_break", BREAKS)
def test_a_text_of_a_node_is_one_line_that_names_the_node(line_break):
    lines = told(text=f"lost{line_break}{FORGED}").split("\n")
    own = [line for line in lines if "reported by demo-worker2: " not in line and "demo-worker2 did not list" not in line]
    assert [line.partition("  ")[2] for line in own[:1]] == ["node i-1 of workers launched, +2.00 USD per hour"]
    assert own[1].startswith("Since ")
    assert len(own) == 2
    assert all(line.isprintable() for line in lines)


def test_what_a_node_says_changes_neither_cost_nor_caller():
    document = json.loads(told("json", text=FORGED))
    reported = [each for each in document["events"] if each["source"] != "AWS"]
    assert {(each["source"], each["by"], each["hourly"]) for each in reported} == {("reported by demo-worker2", "", None)}
    assert document["remarks"][-1] == json.loads(told("json"))["remarks"][-1]


@pytest.mark.parametrize("moment", [math.inf, -math.inf, 1e308])
def test_impossible_times_do_not_end_the_run(moment):
    with_job = told(began=moment, ended=moment)
    assert "node i-1 of workers launched" in with_job


@pytest.mark.parametrize(
    "job",
    [
        {},
        {"name": "a"},
        {"began": "x"},
        {"began": []},
        {"ended": None, "attempts": [{}]},
        {"attempts": [1]},
        {"failure": {}},
        {"hosts": {}},
    ],
)
def test_a_job_that_lacks_something_hides_neither_facts_nor_other_jobs(job):
    facts = {"events": [LAUNCH], "nodes": [], "problems": [], "price": PRICE, "since": 0, "read_at": START}
    good = {"name": "good", "state": "running", "over": False, "created": START, "began": START, "ended": 0, "hosts": 1, "attempt": 1}
    broken = {**good, "state": "failed", "over": True, **job} if job.keys() - {"name"} else job
    text = timeline.cluster_events(facts, [broken, {**good, "attempts": []}], "demo-worker2", "", "text")
    assert "node i-1 of workers launched" in text
    assert "reported by demo-worker2: job good: started on 1 host" in text


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", " =", "\r=", "\uff1d", "\uff0b", "\uff20"])
def test_no_cell_is_a_formula(start, monkeypatch):
    """The texts of nodes follow the name of a job, but callers and causes begin with texts of others."""
    evil = f'{start}HYPERLINK("https://example.org")'
    facts = {
        "events": [{**LAUNCH, "caller": evil, "cause": evil}],
        "nodes": [],
        "problems": [],
        "price": PRICE,
        "since": 0,
        "read_at": START,
    }
    rows = list(csv.reader(io.StringIO(timeline.cluster_events(facts, [], "demo-worker2", "", "csv"))))
    cells = [cell for row in [*rows[1:], *list(csv.reader(io.StringIO(told("csv", text=evil))))[1:]] for cell in row[:5]]
    assert evil.strip() in "".join(cells)
    assert not [cell for cell in cells if cell.lstrip()[:1] in ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff20")]


def test_a_million_reports_are_not_a_million_lines():
    facts = {"events": [LAUNCH], "nodes": [], "problems": [], "price": PRICE, "since": 0, "read_at": START}
    failure = {"name": "rank0", "host": "w1", "state": "failed", "cause": {"kind": "health", "what": "x" * 10000}}
    attempt = {"attempt": 1, "failure": failure, "ended": START, "action": "restart", "rule": "same_hosts", "damaged": ["x" * 10000]}
    job = {"name": "a", "state": "running", "over": False, "created": START, "began": 0, "ended": 0, "hosts": 1, "attempt": 9}
    text = timeline.cluster_events(facts, [{**job, "attempts": [attempt] * 50} for _ in range(40)], "demo-worker2", "", "text")
    assert text.count("\n") <= timeline.MOST_REPORTED + 2
    assert max(map(len, text.splitlines())) < 400
