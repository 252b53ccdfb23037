"""Tests of how the function reads what nodes report on their consoles."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.idle import function

NOW = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
SINCE = NOW - timedelta(hours=2)


def line(text: str, at: datetime = NOW) -> str:
    return f"\r\ndeeplearning: {text}, reported at {at:%Y-%m-%dT%H:%M:%SZ}.\r\n"


IDLE = line("idle since 2026-12-01T16:00:00Z")


IDLE_SINCE = (function.IDLE, SINCE)
IN_USE = (function.IN_USE, NOW)
LAUNCHED = NOW - timedelta(days=1)


def ago(**past: int) -> datetime:
    return NOW - timedelta(**past)


@pytest.mark.parametrize(
    ("output", "state"),
    [
        (IDLE, IDLE_SINCE),
        (f"cloud-init: finished\r\n{IDLE}[   14.203871] nvidia: loaded\r\n", IDLE_SINCE),
        # A message of the kernel can interrupt a report
        (IDLE[:30] + "[   14.203871] nvidia-nvlink: initialized\r\n" + IDLE[30:], IDLE_SINCE),
        (IDLE[:50] + "[28925.2] a\r\n[28925.3] b\r\n" + IDLE[50:], IDLE_SINCE),
        (line("in use") + IDLE, IDLE_SINCE),
        (IDLE + line("in use"), IN_USE),
        (IDLE + line("in use", ago(minutes=59)), (function.IN_USE, ago(minutes=59))),
        (IDLE + line("in use", ago(hours=1)), (function.SILENT, ago(hours=1))),
        (line("idle since 2026-12-01T16:00:00Z", ago(minutes=20)), IDLE_SINCE),
        (line("idle since 2026-12-01T16:00:00Z", ago(minutes=21)), (function.UNREPORTED, ago(minutes=21))),
        (line("idle since 2026-12-01T16:00:00Z", ago(minutes=60)), (function.SILENT, ago(hours=1))),
        # By a clock that is wrong
        (line("idle since 2026-12-01T16:00:00Z", NOW + timedelta(minutes=21)), (function.SILENT, LAUNCHED)),
        (line("in use", NOW + timedelta(minutes=21)), (function.SILENT, LAUNCHED)),
        (line("in use", LAUNCHED - timedelta(minutes=1)), (function.SILENT, LAUNCHED)),
        (line("idle since 2026-12-01T99:00:00Z"), (function.IDLE, LAUNCHED)),
        (line("idle since 0001-01-01T0000+0100"), (function.SILENT, LAUNCHED)),
        # Unprivileged processes can cause messages of the kernel with a text of their own
        (line("in use") + f"[ 9000.123456] overlayfs: failed to resolve 'x{IDLE.strip()}'\r\n", IN_USE),
        (line("in use") + f"[ 9000.123456] overlayfs: failed to resolve 'x\r{IDLE.strip()}\r'\r\n", IN_USE),
        (IDLE[:40], (function.SILENT, LAUNCHED)),
        ("", (function.SILENT, LAUNCHED)),
    ],
)
def test_the_last_report_counts(output, state):
    assert function.state_of(output, LAUNCHED, NOW) == state


def test_a_new_node_has_an_hour_for_its_first_report():
    assert function.state_of("", ago(minutes=59), NOW) == (function.UNREPORTED, ago(minutes=59))
    assert function.state_of("", ago(hours=1), NOW) == (function.SILENT, ago(hours=1))


MASTER, WORKER2, WORKER3 = "bert-master", "bert-worker2", "bert-worker3"


def idle(name, **past):
    return function.IDLE, ago(**past), name


def in_use(name, **past):
    return function.IN_USE, ago(**past), name


def silent(name, **past):
    return function.SILENT, ago(**past), name


@pytest.mark.parametrize(
    ("found", "last", "verdict"),
    [
        ([], None, (function.NO_NODES, "", NOW)),
        ([idle(MASTER, hours=2), idle(WORKER2, hours=1)], None, (function.IDLE, "", ago(hours=1))),
        ([idle(MASTER, hours=2), in_use(WORKER2, minutes=3)], None, (function.IN_USE, WORKER2, ago(minutes=3))),
        ([in_use(MASTER, minutes=3), silent(WORKER2, hours=1), silent(WORKER3, hours=2)], None, (function.SILENT, WORKER3, ago(hours=2))),
        # The same state lasts
        ([in_use(MASTER, minutes=3), in_use(WORKER2, minutes=1)], (function.IN_USE, WORKER2, ago(hours=9)), None),
        ([], (function.NO_NODES, "", ago(hours=9)), None),
        ([idle(MASTER, minutes=60, seconds=59)], (function.IDLE, "", ago(minutes=60)), None),
        ([silent(WORKER2, hours=1), silent(WORKER3, hours=2)], (function.SILENT, WORKER2, ago(hours=1)), None),
        # Another one follows
        ([idle(MASTER, minutes=61)], (function.IDLE, "", ago(minutes=60)), (function.IDLE, "", ago(minutes=61))),
        ([in_use(MASTER, minutes=3), idle(WORKER2)], (function.IN_USE, WORKER2, ago(hours=9)), (function.IN_USE, MASTER, ago(minutes=3))),
    ],
)
def test_the_verdict_follows_from_all_nodes_and_from_the_last_one(found, last, verdict):
    former = function.Verdict(*last, ago(minutes=5)) if last else None
    assert function.verdict_of(found, former, NOW) == (*(verdict or last), NOW)


@pytest.mark.parametrize("verdict", [(function.IN_USE, WORKER3, SINCE, NOW), (function.NO_NODES, "", SINCE, NOW)])
def test_a_verdict_can_be_read_from_its_tag(verdict):
    text = str(function.Verdict(*verdict))
    assert re.fullmatch(r"[\w .:/=+@-]{1,256}", text, re.ASCII)
    assert function.verdict_in({function.VERDICT: text}) == verdict


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ended 2026-12-01T16:00:00Z 2026-12-01T18:00:00Z",
        "in_use 2026-12-01T16:00:00Z 2026-12-01T18:00:00Z {{ worker }}",
        "in_use 2026-12-01T16:00:00Z 2026-12-01T18:00:00Z bert-worker3 and more",
        "in_use 2026-12-01T16:00:00Z 2026-12-01T18:00:00Z bert-worker3\n",
        "in_use since noon",
        "in_use \u0662026-12-01T16:00:00Z 2026-12-01T18:00:00Z",
    ],
)
def test_other_texts_in_the_tag_are_no_verdict(text):
    assert function.verdict_in({function.VERDICT: text}) is None


class Client:
    """Records what a function writes and tells."""

    def __init__(self):
        self.tags, self.written, self.told = {}, [], []

    def client(self, _name):
        return self

    def tag_resource(self, Resource, Tags):  # noqa: N803
        self.tags |= Tags
        self.written.append(Tags[function.VERDICT])

    def publish(self, TopicArn, Subject, Message):  # noqa: N803
        assert len(Subject) <= 100
        self.told.append(Message)


@pytest.fixture
def judge(monkeypatch):
    """Return a function that lets the function judge states at a time, and the client that it uses."""
    monkeypatch.setenv("TOPIC", "arn:aws:sns:us-east-1:123456789012:alerts")
    client = Client()
    this = object.__new__(function.Function)
    this.boto3 = this.client = client
    this.arn, this.cluster, this.tags = "arn", "bert", client.tags

    def run(found, minutes=0, *, is_held=False):
        this.now, this.tags = NOW + timedelta(minutes=minutes), client.tags
        return this.conclude(found, is_held)

    return run, client


def test_a_verdict_is_written_if_it_is_new_or_an_hour_old(judge):
    run, client = judge
    for minutes in (0, 5, 59):
        run([in_use(WORKER3, minutes=minutes)], minutes)
    assert client.written == [f"in_use {function.iso(NOW)} {function.iso(NOW)} {WORKER3}"]
    run([in_use(WORKER3)], 60)
    assert client.written[1:] == [f"in_use {function.iso(NOW)} {function.iso(NOW + timedelta(hours=1))} {WORKER3}"]
    run([idle(WORKER3, hours=2)], 65)
    assert len(client.written) == 3


def test_people_do_not_hear_of_nodes_that_a_run_configures(judge):
    run, client = judge
    assert run([silent(MASTER, hours=2)]).state == function.UNREPORTED  # the first time after the option has been set
    assert run([silent(MASTER, hours=2)], 5, is_held=True).state == function.UNREPORTED
    assert client.told == []
    assert run([silent(MASTER, hours=2)], 10).state == function.SILENT
    assert len(client.told) == 1


def test_people_hear_once_of_a_silent_node_until_it_has_reported(judge):
    run, client = judge
    for minutes in (0, 5, 120):
        run([silent(MASTER, hours=2), silent(WORKER3, hours=1), idle(WORKER2)], minutes)
    (text,) = client.told
    assert f"{MASTER} of cluster bert has not reported since 2026-12-01 16:00 UTC whether it is idle, and 1 more does not report" in text
    run([idle(MASTER), silent(WORKER3, hours=1), idle(WORKER2)], 125)
    run([idle(MASTER), idle(WORKER3)], 130)
    run([idle(MASTER), silent(WORKER3, hours=1)], 135)
    assert [each.split()[0] for each in client.told] == [MASTER, WORKER3, WORKER3]


def test_a_hostile_output_takes_no_time():
    began = time.process_time()
    function.state_of("[1.1] " * 11_000, LAUNCHED, NOW)
    function.state_of("[" + " " * 65_000, LAUNCHED, NOW)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "year"),
    [("2026-12-01T18:00:00Z", 2026), ("2026-12-01T19:00:00+01:00", 2026), ("never", 1970), ("0001-01-01T00:00+14:00", 1970), ("", 1970)],
)
def test_a_text_that_is_no_time_is_in_the_past(text, year):
    assert function.time_of(text).year == year
