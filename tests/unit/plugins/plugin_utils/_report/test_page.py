"""The page that is made of what a report has read."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report.progress import Progress
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._report import charts, page
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._report.events import events

START = 1_790_000_000.0
EVIL = "<script>alert('1')</script> & \"quoted\" $\\frac{1}{$"
VOID = {"meta", "img"}


class Outline(HTMLParser):
    """Which elements a page has, what it loads, and whether they are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.sources, self.open = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def process(rank, state="succeeded", **changes):
    return {
        "rank": rank,
        "name": f"rank{rank}",
        "part": "worker",
        "host": f"deeplearning-worker{rank + 1}",
        "state": state,
        "processes": 2,
        "started": START + rank,
        "heartbeat": START + 90,
        **({"finished": START + 90, "exit_code": 0} if state != "lost" else {}),
        **changes,
    }


def report(entries=(), processes=None, state="succeeded", arguments=("--epochs", "2"), **job):
    progress = Progress(START)
    for index, entry in enumerate(entries):
        progress.add(START + 10 + index, entry)
    listing = {
        "directory": "/efs/jobs/digits/code",
        "count": 1,
        "size": 2048,
        "files": [{"name": "train.py", "size": 2048, "changed": START}],
    }
    return {
        "job": {
            "name": "digits",
            "state": state,
            "directory": "/efs/jobs/digits",
            "created": START - 3,
            "launcher": "torchrun",
            "processes": [process(0), process(1)] if processes is None else processes,
            "process_count": 2,
            **job,
        },
        "description": {"script": "src/train.py", "python": "/opt/pytorch/bin/python", "arguments": list(arguments), "time_limit": 3600},
        "start": START,
        "end": START + 90,
        "over": state not in ("running", "pending"),
        "progress": progress.result(),
        "code": {**listing, "digest": "0123456789ab"},
        "checkpoints": {**listing, "count": 300},
        "logs": listing,
    }


def test_a_page_tells_what_people_want_to_know():
    entries = [{"step": 10 * step, "steps": 30, "epoch": step, "loss": 1 / step, "accuracy": 0.5} for step in (1, 2, 3)]
    text = page.render(report(entries), "scp -r master:/efs/jobs/digits .")
    outline = Outline(text)
    assert outline.tags.count("img") == 5
    assert all(source.startswith("data:image/svg+xml;base64,") for source in outline.sources)
    assert "script" not in outline.tags
    plain = " ".join(re.sub(r"<[^>]+>", " ", text).split())
    for words in (
        "after 1 min 30 s",
        "2: deeplearning-worker1, deeplearning-worker2",
        "step 30 of 30",
        "throughput 10 steps per second",
        "loss 1 10 0.3333 30 0.3333 30 1 10",
        "rank 1 deeplearning-worker2 succeeded",
        "command /opt/pytorch/bin/python train.py --epochs 2",
        "digest 0123456789ab",
        "time limit 1 h 0 min",
        "train.py 2.05 kB",
        "and 299 more",
        ".succeeded { background: #d7f0dc } .failed { background: #fbdcd9 } .lost { background: #fbdcd9 } .bad",
        "scp -r master:/efs/jobs/digits .",
    ):
        assert words in plain
    assert page.render(report(entries), "scp -r master:/efs/jobs/digits .") == text


def test_everything_that_a_user_wrote_is_escaped():
    failure = {**process(0, "failed", exit_code=1), "log": EVIL, "how": EVIL, "lines": [EVIL, "</pre>"]}
    text = page.render(
        report(
            [{"step": 1, EVIL: 1.0}, {"step": 2, EVIL: 2.0}],
            processes=[process(0, "failed", reason=EVIL, host=EVIL)],
            state="failed",
            arguments=[EVIL],
            failure=failure,
            code={"commit": "0" * 40, "repository": EVIL},
        ),
        EVIL,
    )
    assert "script" not in Outline(text).tags
    assert text.count("&lt;script&gt;") > 8


STOPPED = {**process(0, "stopped", reason="was stopped"), "log": "/efs/jobs/digits/logs/rank0.log", "how": "was stopped", "lines": []}


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (report(), "The script reported none"),
        (report(state="stopped", failure=STOPPED), "was stopped. The logs are in /efs/jobs/digits/logs</p>\n\n<h2>Progress"),
        (report(processes=[], state="pending"), "None has started"),
        (report(state="running"), "The job was not over"),
        (report([{"step": 1, "loss": float("nan")}]), "loss was not a number (NaN or infinite) at step 1"),
        (report([{"loss": 1e300}]), "1e+300"),
    ],
)
def test_a_page_of_little(made, words):
    text = page.render(made, None)
    assert words in text
    assert "scp" not in text
    Outline(text)


def test_without_matplotlib_there_are_numbers_and_advice(monkeypatch):
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    text = page.render(report([{"step": 1, "loss": 0.25}, {"step": 2, "loss": 0.125}]), None)
    assert "img" not in Outline(text).tags
    assert "pip install matplotlib" in text
    assert "0.125" in text


@pytest.mark.parametrize(
    "values",
    [[0.0], [1.0, 1000.0, 0.5], [-1.0, 5.0], [1e-30, 1e30], [3.0] * 3],
)
def test_charts_are_images_of_any_values(values):
    curve = {"steps": list(range(len(values))), "times": list(range(len(values))), "means": values, "lows": values, "highs": values}
    for axis in ("steps", "times"):
        head, _comma, data = charts.curve(curve, axis).partition(",")
        assert head == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(data)).tag.endswith("svg")


def test_a_curve_that_goes_back_is_drawn_in_pieces():
    assert [list(range(6))[piece] for piece in charts.pieces([10, 20, 30, 20, 30, 40])] == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("times", "shown"), [([30], ([30], "seconds")), ([60, 600], ([1, 10], "minutes")), ([7200], ([2], "hours")), ([], ([], "seconds"))]
)
def test_times_have_the_unit_that_fits(times, shown):
    assert charts.scaled(times) == shown


def test_events_are_told_in_their_order():
    entries = [{"step": 5, "loss": 1.0}, {"step": 3, "loss": float("nan")}]
    ended = {"reason": "was ended because rank 0 on deeplearning-worker1 was killed by signal SIGKILL"}
    processes = [
        process(0, "failed", signal="SIGKILL", finished=START + 40),
        process(1, "stopped", finished=START + 42, **ended),
        process(2, "stopped", finished=START + 43, **ended),
        process(3, "lost", heartbeat=START + 35),
    ]
    found = events(report(entries, processes=processes, state="failed"))
    assert [(event.time - START, event.text, event.bad) for event in found] == [
        (-3, "code copied", False),
        (3, "4 of 2 processes started, hosts: 4", False),
        (11, "went back from step 5 to 3", False),
        (11, "loss was not a number (NaN or infinite) at step 3", True),
        (35, "rank 3 on deeplearning-worker4 has not been heard of since 2026-09-21 14:13:55 UTC", True),
        (40, "rank 0 on deeplearning-worker1 was killed by signal SIGKILL", True),
        (43, "2 processes ended because rank 0 on deeplearning-worker1 was killed by signal SIGKILL", False),
        (90, "job failed", True),
    ]
