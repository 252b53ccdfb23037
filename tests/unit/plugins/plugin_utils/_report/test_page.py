"""Tests of the page that is generated from the data of a report."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._report import charts, page

from .reports import process, report

EVIL = "<script>alert('1')</script> & \"quoted\" $\\frac{1}{$"
VOID = {"meta", "img"}


class Outline(HTMLParser):
    """Parses a page and records its elements and what it loads. Elements must be closed in the right order."""

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


def test_a_page_tells_the_cost():
    assert '<th scope="row">cost</th><td>2.00 USD &lt;b&gt;</td>' in page.render(report(), None, "2.00 USD <b>")
    assert ">cost<" not in page.render(report(), None)


@pytest.mark.parametrize("hourly", [2.0, None])
def test_a_page_keeps_the_price_of_the_nodes(tmp_path, hourly):
    charge = {"kind": "auto_scaling_group", "key": "workers", "product": "instance", "quantity": 1, "hourly": hourly}
    price = {"problem": '"><b>&amp;', "charges": [charge]}
    path = tmp_path / "digits.html"
    assert page.price_in(str(path)) is None
    for text in (page.render(report(), None), "", '<meta name="price" content="[1]">', '<meta name="price" content="{">'):
        path.write_text(text)
        assert page.price_in(str(path)) is None
    path.write_text(page.render(report(name='<meta name="price" content="{}">'), None, price=price))
    assert "<b>" not in path.read_text()
    assert page.price_in(str(path)) == page.known(price) == (price if hourly else None)


def test_a_page_names_the_spares():
    processes = [process(0), process(1), process(2, name="standby0", part="standby")]
    plain = " ".join(re.sub(r"<[^>]+>", " ", page.render(report(processes=processes), None)).split())
    for words in (
        "hosts 2: deeplearning-worker1, deeplearning-worker2 spares 1: deeplearning-worker3",
        "Processes 2 of 2",
        "standby 0 deeplearning-worker3",
    ):
        assert words in plain


def test_everything_that_a_user_wrote_is_escaped():
    failure = {**process(0, "failed", exit_code=1), "log": EVIL, "cause": {"kind": "health", "what": EVIL}, "lines": [EVIL, "</pre>"]}
    text = page.render(
        report(
            [{"step": 1, EVIL: 1.0}, {"step": 2, EVIL: 2.0}],
            processes=[process(0, "failed", cause={"kind": "health", "what": EVIL}, host=EVIL)],
            state="failed",
            arguments=[EVIL],
            failure=failure,
            code={"commit": "0" * 40, "repository": EVIL},
        ),
        EVIL,
    )
    assert "script" not in Outline(text).tags
    assert text.count("&lt;script&gt;") > 8


STOPPED = {**process(0, "stopped"), "log": "/efs/jobs/digits/logs/rank0.log", "lines": []}


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (report(), "The script reported no progress"),
        (
            report(state="stopped", failure=STOPPED),
            "was stopped by an operator (for example with stop.yml). The logs are in /efs/jobs/digits/logs</p>\n\n<h2>Progress",
        ),
        (report(processes=[], state="pending"), "No process has started"),
        (report(state="running"), "The job had not ended"),
        (report([{"step": 1, "loss": float("nan")}]), "loss was NaN or infinite at step 1"),
        (report([{"loss": 1e300}]), "1e+300"),
    ],
)
def test_a_page_of_little(made, words):
    text = page.render(made, None)
    assert words in text
    assert "scp" not in text
    Outline(text)


def test_a_report_without_curves_does_not_wait_for_matplotlib(monkeypatch):
    """The import takes half a second, for which the user would wait after each short job."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(charts, "can_draw", lambda: True)
    assert "img" not in Outline(page.render(report([]), None)).tags


def test_without_matplotlib_there_are_numbers_and_advice(monkeypatch):
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    text = page.render(report([{"step": 1, "loss": 0.25}, {"step": 2, "loss": 0.125}]), None)
    assert "img" not in Outline(text).tags
    assert "pip install matplotlib" in text
    assert "0.125" in text


SPENT = {
    "training": 150.0,
    "recomputed": 30.0,
    "checkpoint": 0.0,
    "start": 8.0,
    "end": 2.0,
    "waiting": 8.0,
    "detection": 2.0,
    "restart": 0.0,
    "idle": 0.0,
}
GOODPUT = {"nodes": 2, "seconds": 100.0, "ratio": 0.75, "buckets": SPENT, "hosts": [{"host": EVIL, "buckets": SPENT}]}


def test_a_page_shows_what_the_hosts_spent_their_time_on():
    times = [{"name": EVIL, "seconds": 0.615, "slow": True}, {"name": "w2", "seconds": 0.41, "slow": False}]
    text = page.render(report(goodput=GOODPUT, step_times=times), None)
    assert "script" not in Outline(text).tags
    plain = " ".join(re.sub(r"<[^>]+>", " ", text).split())
    for words in (
        "Goodput 75.0 % of the time (2 nodes for 1 min 40 s) was spent on training",
        "training 150 75.0 % recomputed 30 15.0 % start 8 4.0 % end 2 1.0 % waiting for nodes 8 4.0 % detection 2 1.0 %",
        "host training recomputed start end waiting for nodes detection",
        "150 30 8 2 8 2",
        "Step times 2, slowest first",
        "(slow) 0.615 w2 0.41",
    ):
        assert words in plain
    widths = [float(width) for width in re.findall(r'style="width: ([0-9.]+)%', text)]
    assert widths == [75, 15, 4, 1, 4, 1]
    assert '<td class="number bad">0.615' in text
    for absent in (report(), report(goodput={**GOODPUT, "nodes": 0}, step_times=[])):
        text = page.render(absent, None)
        assert "<h2>Goodput" not in text
        assert "<h2>Step times" not in text


@pytest.mark.parametrize("job", [{"goodput": {**GOODPUT, "hosts": [{}] * ((1 << 14) + 1)}}, {"step_times": [{}] * ((1 << 13) + 1)}])
def test_more_hosts_than_the_module_returns_are_refused(job):
    with pytest.raises(ValueError, match="is not a list of at most"):
        page.render(report(**job), None)
