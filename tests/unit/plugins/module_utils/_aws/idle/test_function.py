"""Tests of how the function reads what nodes report on their consoles, and of what it does then."""

from __future__ import annotations

import re
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import MappingProxyType, SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.idle import function

NOW = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
SINCE = NOW - timedelta(hours=2)


def line(text: str, at: datetime = NOW) -> str:
    return f"\r\ndeeplearning: {text}, reported at {at:%Y-%m-%dT%H:%M:%SZ}.\r\n"


IDLE = line("idle since 2026-12-01T16:00:00Z")


IDLE_SINCE = (function.IDLE, SINCE)
IN_USE = (function.IN_USE, NOW)
UNREPORTED, UNCONFIGURED = (function.UNREPORTED, NOW), (function.UNCONFIGURED, NOW)
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
        (IDLE + line("in use", ago(minutes=20)), (function.IN_USE, ago(minutes=20))),
        (IDLE + line("in use", ago(minutes=21)), UNREPORTED),
        (line("idle since 2026-12-01T16:00:00Z", ago(minutes=20)), IDLE_SINCE),
        (line("idle since 2026-12-01T16:00:00Z", ago(minutes=21)), UNREPORTED),
        # By a clock that is wrong
        (line("idle since 2026-12-01T16:00:00Z", NOW + timedelta(minutes=21)), UNREPORTED),
        (line("in use", NOW + timedelta(minutes=21)), UNREPORTED),
        (line("in use", LAUNCHED - timedelta(minutes=1)), UNCONFIGURED),
        (line("idle since 2026-12-01T99:00:00Z"), (function.IDLE, LAUNCHED)),
        (line("idle since 0001-01-01T0000+0100"), UNCONFIGURED),
        # Unprivileged processes can cause messages of the kernel with a text of their own
        (line("in use") + f"[ 9000.123456] overlayfs: failed to resolve 'x{IDLE.strip()}'\r\n", IN_USE),
        (line("in use") + f"[ 9000.123456] overlayfs: failed to resolve 'x\r{IDLE.strip()}\r'\r\n", IN_USE),
        # Other output can have removed the reports of a node from its console, so it has not reported only since now
        (IDLE[:40], UNCONFIGURED),
        ("", UNCONFIGURED),
    ],
)
def test_the_last_report_counts(output, state):
    assert function.state_of(output, LAUNCHED, NOW) == state


MASTER, WORKER2, WORKER3 = "bert-master", "bert-worker2", "bert-worker3"
IDS = {MASTER: "i-0a", WORKER2: "i-0b", WORKER3: "i-0c"}


def idle(name, **past):
    return function.Observation(function.IDLE, ago(**past), name, IDS[name])


def in_use(name, **past):
    return function.Observation(function.IN_USE, ago(**past), name, IDS[name])


def unreported(name, **past):
    return function.Observation(function.UNREPORTED, ago(**past), name, IDS[name])


@pytest.mark.parametrize(
    ("found", "last", "verdict"),
    [
        ([], None, (function.NO_NODES, NOW, "")),
        ([idle(MASTER, hours=2), idle(WORKER2, hours=1)], None, (function.IDLE, ago(hours=1), "")),
        ([idle(MASTER, hours=2), in_use(WORKER2, minutes=3)], None, (function.IN_USE, ago(minutes=3), WORKER2)),
        ([in_use(MASTER, minutes=3), unreported(WORKER2)], None, (function.IN_USE, ago(minutes=3), MASTER)),
        ([idle(MASTER, hours=-1)], None, (function.IDLE, NOW, "")),  # by a clock that is ahead
        # The same state lasts
        ([in_use(MASTER, minutes=3), in_use(WORKER2, minutes=1)], (function.IN_USE, ago(hours=9), WORKER2), None),
        ([], (function.NO_NODES, ago(hours=9), ""), None),
        ([idle(MASTER, minutes=60, seconds=59)], (function.IDLE, ago(minutes=60), ""), None),
        ([unreported(WORKER2), unreported(WORKER3)], (function.UNREPORTED, ago(minutes=59), WORKER3), None),
        ([unreported(WORKER2)], (function.UNREPORTED, ago(hours=1), WORKER2), (function.SILENT, ago(hours=1), WORKER2)),
        ([unreported(WORKER2)], (function.SILENT, ago(hours=2), WORKER2), None),
        # Another one follows
        ([unreported(MASTER)], (function.SILENT, ago(hours=2), WORKER2), (function.UNREPORTED, NOW, MASTER)),
        ([idle(MASTER, minutes=61)], (function.IDLE, ago(minutes=60), ""), (function.IDLE, ago(minutes=61), "")),
        ([in_use(MASTER, minutes=3), idle(WORKER2)], (function.IN_USE, ago(hours=9), WORKER2), (function.IN_USE, ago(minutes=3), MASTER)),
    ],
)
def test_the_verdict_follows_from_all_nodes_and_from_the_last_one(found, last, verdict):
    former = function.Verdict(last[0], last[1], ago(minutes=5), last[2], IDS.get(last[2], "")) if last else None
    state, since, node = verdict or last
    assert function.verdict_of(found, former, NOW, False) == function.Verdict(state, since, NOW, node, IDS.get(node, ""))


def test_a_new_number_does_not_let_a_silent_node_look_like_another_one():
    """The number of a worker is a tag, which others can set."""
    last = function.Verdict(function.SILENT, ago(hours=2), ago(minutes=5), WORKER2, IDS[WORKER2])
    renamed = unreported(WORKER2)._replace(node="bert-worker7")
    assert function.verdict_of([renamed], last, NOW, False)[:2] == last[:2]


@pytest.mark.parametrize(
    "verdict",
    [(function.IN_USE, SINCE, NOW, WORKER3, IDS[WORKER3]), (function.NO_NODES, SINCE, NOW), (function.IDLE, SINCE, NOW, "", "", SINCE)],
)
def test_a_verdict_can_be_read_from_its_tag(verdict):
    text = str(function.Verdict(*verdict))
    assert re.fullmatch(r"[\w .:/=+@-]{1,256}", text, re.ASCII)
    assert function.verdict_in({function.VERDICT: text}, NOW) == function.Verdict(*verdict)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ended 2026-12-01T16:00:00Z 2026-12-01T18:00:00Z",
        "in_use 2026-12-01T16:00:00Z 2026-12-01T18:00:00Z {{ worker }} i-0a",
        "in_use 2026-12-01T16:00:00Z 2026-12-01T18:00:00Z bert-worker3 and more",
        "in_use 2026-12-01T16:00:00Z 2026-12-01T18:00:00Z bert-worker3 i-0a\n",
        "in_use since noon",
        "in_use \u0662026-12-01T16:00:00Z 2026-12-01T18:00:00Z",
        # Times that cannot be
        "idle 0001-01-01T00:00:00Z 2026-12-01T18:00:00Z",
        "idle 2026-12-01T16:00:00Z 9999-12-31T00:00:00Z",
        "idle 2026-12-01T18:00:01Z 2026-12-01T18:00:00Z",
        "idle 2026-12-01T16:00:00Z 2026-12-01T18:05:01Z",
        "idle 2026-12-01T16:00:00Z 2026-12-01T18:00:00Z 9999-12-31T00:00:00Z",
    ],
)
def test_other_texts_in_the_tag_are_no_verdict(text):
    assert function.verdict_in({function.VERDICT: text}, NOW) is None


def hold(name, end):
    return {f"{function.HOLD}{name}": end}


@pytest.mark.parametrize(
    "end",
    [
        *("2026-12-01T18:00:00Z", "2026-12-08T18:05:01Z", "9999-12-31T00:00:00Z", "20261202", "2026-W49-3", "2026-12-02T00:00:00-12:00"),
        *("2026-12-02", "never", ""),
    ],
)
def test_a_hold_lasts_at_most_a_week_whoever_has_set_its_tag(end):
    assert function.holds_in(hold("study", end), NOW) == {}


def test_holds_keep_the_nodes_until_they_end():
    tags = {**hold("a", "2026-12-01T18:00:01Z"), **hold("b", "2026-12-08T18:05:00Z"), "team": "2026-12-02T00:00:00Z"}
    assert function.holds_in(tags, NOW) == {"a": ago(seconds=-1), "b": ago(days=-7, minutes=-5)}


TOPIC = "arn:aws:sns:us-east-1:123456789012:alerts"


class Refusal(OSError):
    response = MappingProxyType({"Error": {"Code": "RequestLimitExceeded"}})


class Client:
    """The clients of a function. Records what it writes, tells and deletes. `failure` is what happens to each writing of a verdict."""

    exceptions = SimpleNamespace(ClientError=OSError)

    def __init__(self):
        self.now, self.tags, self.written, self.told, self.deleted, self.failure = NOW, {}, [], [], [], None
        self.console, self.nodes, self.subjects = "", [MASTER], []
        self.read, self.tokens, self.denied, self.protected, self.is_deaf = [], 100.0, set(), None, False
        self.deafness, self.protection = Refusal("no"), Refusal("deletion protection")

    def client(self, name, config=None):
        assert name in ("autoscaling", "lambda", "sns") or (name, config.retries["mode"]) == ("ec2", "adaptive")
        return self

    def get_paginator(self, name):
        assert name == "describe_instances"
        return self

    def meanwhile(self):
        """Do what others do while the function reads consoles."""

    def sleep(self, seconds):
        """Let EC2's bucket for the action refill meanwhile."""
        self.tokens += 20 * seconds

    def list_tags(self, Resource):  # noqa: N803
        assert Resource == "arn"
        date = format_datetime(self.now, usegmt=True)
        return {"Tags": dict(self.tags), "ResponseMetadata": {"HTTPHeaders": {"date": date}}}

    def tag_resource(self, Resource, Tags):  # noqa: N803
        assert Resource == "arn"
        if self.failure and not {function.VERDICT, function.FAILURE}.isdisjoint(Tags):
            raise self.failure
        if function.VERDICT in Tags:
            self.written.append(Tags[function.VERDICT])
        self.tags |= Tags

    def untag_resource(self, Resource, TagKeys):  # noqa: N803
        assert Resource == "arn"
        self.tags = {key: value for key, value in self.tags.items() if key not in TagKeys}

    def publish(self, TopicArn, Subject, Message):  # noqa: N803
        assert TopicArn == TOPIC
        if self.is_deaf:
            raise self.deafness
        self.told.append(Message)
        self.subjects.append(Subject)

    def paginate(self, Filters):  # noqa: N803
        groups, states = (each["Values"] for each in Filters)
        assert [each["Name"] for each in Filters] == ["tag:aws:autoscaling:groupName", "instance-state-name"]
        assert (groups[0], states) == (MASTER, ["pending", "running"])
        group = [{"Key": "aws:autoscaling:groupName", "Value": MASTER}]
        common = {"State": {"Name": "running"}, "LaunchTime": LAUNCHED, "Tags": group}
        yield {"Reservations": [{"Instances": [{"InstanceId": IDS.get(each, each), **common} for each in self.nodes]}]}

    def get_console_output(self, InstanceId, Latest):  # noqa: N803
        assert Latest is True
        self.tokens -= 1
        if self.tokens < 0 or InstanceId in self.denied:
            raise Refusal("RequestLimitExceeded")
        self.read.append(InstanceId)
        self.meanwhile()
        return {"Output": self.console}

    def delete_auto_scaling_group(self, AutoScalingGroupName, ForceDelete):  # noqa: N803
        assert ForceDelete is True
        if AutoScalingGroupName == self.protected:
            raise self.protection
        self.deleted.append(AutoScalingGroupName)


@pytest.fixture
def client(monkeypatch):
    """Return the clients of the function, which `call` uses."""
    variables = {"CLUSTER": "bert", "GROUPS": MASTER, "IDLE_SECONDS": "1800", "THEN": "terminate", "AWS_REGION": "us-east-1"}
    for name, value in {**variables, "TOPIC": TOPIC}.items():
        monkeypatch.setenv(name, value)
    found = Client()
    monkeypatch.setitem(sys.modules, "boto3", found)
    monkeypatch.setattr(function, "time", found)
    return found


def call(client, minutes, text="idle since 2026-12-01T16:00:00Z"):
    """Let AWS call the function at a time, at which the node reports this, if anything."""
    client.now, client.tokens = NOW + timedelta(minutes=minutes), 100.0
    client.console = line(text, client.now) if text else ""
    return function.handler({}, SimpleNamespace(invoked_function_arn="arn"))["verdict"].split()[0]


def test_people_are_warned_ten_minutes_before_the_end_even_if_the_nodes_have_long_been_idle(client):
    """A hold has ended, or the function has not worked for a while."""
    client.tags = hold("study", function.iso(NOW))
    for minutes in (-5, 0, 5):
        call(client, minutes)
    assert (client.deleted, len(client.told)) == ([], 1)
    assert "AWS terminates the nodes at about 2026-12-01 18:10 UTC" in client.told[0]
    assert "cluster=bert region=us-east-1" in client.told[0]
    call(client, 9.5)  # calls of the function can be late
    assert client.deleted == [MASTER]
    since = "Cluster bert (1 node) has been idle since 2026-12-01 16:00 UTC"
    assert [each[: len(since) + 4] for each in client.told] == [f"{since}. If", f"{since}, an"]


def test_nodes_that_are_idle_for_long_enough_end_at_the_time_of_the_warning(client):
    told = []
    for minutes in (-101, -100, -91, -90):
        call(client, minutes)
        told.append((len(client.told), client.deleted == [MASTER]))
    assert told == [(0, False), (1, False), (1, False), (2, True)]
    assert "AWS terminates the nodes at about 2026-12-01 16:30 UTC" in client.told[0]


def test_nodes_in_use_have_neither_been_warned_of_nor_ended(client):
    client.tags = {
        function.WARNED: function.iso(ago(minutes=5)),
        function.IDLE_SINCE: function.iso(SINCE),
        **hold("old", function.iso(NOW)),
    }
    call(client, 5, "in use")
    assert client.tags.keys() == {function.VERDICT}


def test_the_console_of_a_node_that_is_not_yet_running_is_not_read(client):
    client.console = IDLE
    node = {"id": "i-0a", "name": MASTER, "state": "pending", "launched": LAUNCHED}
    assert function.observe(client, node, NOW) == function.Observation(function.UNCONFIGURED, NOW, MASTER, "i-0a")
    assert function.observe(client, {**node, "state": "running"}, NOW).state == function.IDLE


@pytest.mark.parametrize(
    ("group", "number", "name"),
    [
        ("bert-master", "1", "bert-master"),
        ("bert-workers", "12", "bert-worker12"),
        ("bert-workers", "x", "i-0a"),
        ("bert-workers", None, "i-0a"),
    ],
)
def test_nodes_have_the_names_by_which_people_know_them(group, number, name):
    tags = {"aws:autoscaling:groupName": group, **({"deeplearning:number": number} if number else {})}
    given = [{"Key": key, "Value": value} for key, value in tags.items()]
    instance = {"InstanceId": "i-0a", "State": {"Name": "running"}, "LaunchTime": LAUNCHED, "Tags": given}
    client = SimpleNamespace(get_paginator=lambda _name: client, paginate=lambda **_given: [{"Reservations": [{"Instances": [instance]}]}])
    node = {"id": "i-0a", "group": group, "name": name, "state": "running", "launched": LAUNCHED}
    assert list(function.running(client, [group])) == [node]


@pytest.mark.parametrize("forged", ["9999-12-31T00:00:00Z", "1970-01-01T00:00:00Z", "soon"])
def test_forged_times_neither_keep_the_nodes_nor_people_from_hearing_of_their_end(client, forged):
    """Others can set the tags just before the warning."""
    client.tags = {function.WARNED: forged, function.IDLE_SINCE: forged}
    call(client, 0)
    assert (client.deleted, len(client.told)) == ([], 1)
    for minutes in (10, 15, 60):
        call(client, minutes)
    assert (client.deleted, len(client.told)) == ([MASTER] * 3, 2)
    assert client.tags[function.IDLE_SINCE] == function.iso(SINCE)


def test_a_trial_warns_nobody(client, monkeypatch):
    monkeypatch.setenv("THEN", "notify")
    for minutes in (0, 15):
        call(client, minutes)
    (text,) = client.told
    assert text.startswith("Cluster bert (1 node) has been idle since 2026-12-01 16:00 UTC. With ")
    assert "AWS would terminate the nodes" in text


def test_after_the_end_nothing_is_deleted_any_more(client):
    for minutes in (0, 10):
        call(client, minutes)
    client.nodes = []
    for minutes in range(15, 24 * 60, 5):
        assert call(client, minutes) == "no_nodes"
    assert client.deleted == [MASTER]
    assert function.IDLE_SINCE in client.tags, "runs know why the nodes have gone"


def test_a_tag_deletes_no_groups(client):
    """The groups wait for capacity, or have only stopped instances."""
    client.nodes, client.tags = [], {function.IDLE_SINCE: "2026-12-01T16:00:00Z"}
    call(client, 0)
    assert client.deleted == []


def test_groups_without_instances_are_deleted_first_and_a_failure_keeps_no_nodes(client, monkeypatch):
    monkeypatch.setenv("GROUPS", f"{MASTER},bert-workers")
    client.protected = "bert-workers"
    call(client, 0)
    with pytest.raises(Refusal):
        call(client, 10)
    assert client.deleted == [MASTER]
    client.protected = None
    call(client, 15)
    assert client.deleted == [MASTER, "bert-workers", MASTER]
    client.protected, client.protection = "bert-workers", Refusal("AutoScalingGroup name not found - null")
    call(client, 20)
    assert client.deleted[3:] == [MASTER]


def test_a_call_in_flight_does_not_delete_the_groups_of_a_new_start(client):
    call(client, 0)
    client.meanwhile = lambda: client.untag_resource("arn", [function.IDLE_SINCE, function.WARNED])
    call(client, 10)
    assert client.deleted == []


def test_the_nodes_of_large_clusters_end(client):
    client.nodes = [f"i-{number:x}" for number in range(300)]
    for minutes in (0, 10):
        call(client, minutes)
    assert client.deleted == [MASTER]


def test_no_console_is_read_in_vain(client):
    client.nodes = [f"i-{number:x}" for number in range(300)]
    client.tags = {function.VERDICT: f"in_use {function.iso(NOW)} {function.iso(NOW)} {MASTER} i-c8"}
    assert call(client, 0, "in use") == "in_use"
    assert (client.read[0], len(client.read)) == ("i-c8", function.AT_ONCE)


def test_people_hear_of_a_node_whose_console_cannot_be_read(client, capsys):
    client.nodes, client.denied = [MASTER, WORKER2], {IDS[WORKER2]}
    assert [call(client, minutes) for minutes in (0, 60)] == ["unreported", "silent"]
    assert (client.deleted, len(client.told)) == ([], 1)
    assert f"{IDS[WORKER2]}: RequestLimitExceeded" in capsys.readouterr().out


@pytest.mark.parametrize("then", ["terminate", "notify"])
def test_aws_accepts_all_subjects(client, monkeypatch, then):
    """The longest names of clusters have 30 characters."""
    monkeypatch.setenv("CLUSTER", "a" * 30)
    monkeypatch.setenv("THEN", then)
    for minutes in (0, 60):
        call(client, minutes, "")
    for minutes in (70, 80):
        call(client, minutes)
    assert [len(each) < 99 for each in client.subjects] == [True] * (3 if then == "terminate" else 2)  # longer ones are cut to 99


def test_nodes_end_even_if_the_verdict_cannot_be_written(client, capsys):
    client.failure = OSError("AccessDenied")
    for minutes in (0, 10):
        call(client, minutes)
    assert client.deleted == [MASTER]
    assert "verdict: AccessDenied" in capsys.readouterr().out


@pytest.mark.parametrize(("failure", "code"), [(Refusal("no"), "RequestLimitExceeded"), (TimeoutError("no"), "TimeoutError")])
def test_the_last_failure_of_a_message_is_kept_until_one_succeeds(client, capsys, failure, code):
    client.is_deaf, client.deafness = True, failure
    call(client, 0)
    assert function.failure_in(client.tags) == (NOW, code)
    assert "message: no" in capsys.readouterr().out
    client.is_deaf = False
    call(client, 10)
    assert (function.failure_in(client.tags), client.deleted) == (None, [MASTER])


def test_a_message_that_aws_has_sent_has_not_failed(client):
    """The tag of an earlier failure cannot be removed."""
    client.tags = {function.FAILURE: "2026-12-01T17:00:00Z NotFound"}
    client.untag_resource = None
    for minutes in (0, 10):
        call(client, minutes)
    assert (client.tags[function.FAILURE], client.deleted) == ("2026-12-01T17:00:00Z NotFound", [MASTER])


def test_nodes_end_even_if_neither_a_message_nor_its_failure_can_be_written(client):
    client.is_deaf, client.failure = True, OSError("AccessDenied")
    for minutes in (0, 10):
        call(client, minutes)
    assert (client.deleted, client.told) == ([MASTER], [])


@pytest.mark.parametrize(
    "text", ["", "now NotFound", "2026-12-01T18:00:00Z", "2026-12-01T18:00:00Z {{ a }}", f"2026-12-01T18:00:00Z {'a' * 65}"]
)
def test_other_texts_in_the_tag_are_no_failure(text):
    assert function.failure_in({function.FAILURE: text}) is None


def test_without_the_tag_people_hear_of_no_silent_node(client):
    """They would hear of it every 5 minutes."""
    for minutes in (0, 60):
        call(client, minutes, "")
        client.failure = OSError("AccessDenied")
    assert client.told == []


def test_a_verdict_is_written_if_it_is_new_or_an_hour_old(client):
    for minutes in (0, 5, 59):
        call(client, minutes, "in use")
    assert client.written == [f"in_use {function.iso(NOW)} {function.iso(NOW)} {MASTER} {IDS[MASTER]}"]
    call(client, 60, "in use")
    assert client.written[1:] == [f"in_use {function.iso(NOW)} {function.iso(NOW + timedelta(hours=1))} {MASTER} {IDS[MASTER]}"]
    call(client, 65)
    assert len(client.written) == 3


def test_people_hear_once_a_day_of_a_node_that_says_nothing_for_an_hour(client):
    """Its reports may be visible now and then, if it prints much else."""
    states = [call(client, minutes, "in use" if minutes % 100 < 10 else "") for minutes in range(0, 24 * 60, 5)]
    assert states.count("silent") == 84
    (text,) = client.told
    assert f"{MASTER} of cluster bert has not reported since 2026-12-01 18:10 UTC whether it is idle" in text
    assert f"If {MASTER} does not answer, terminate it: aws autoscaling terminate-instance-in-auto-scaling-group" in text
    assert f"--instance-id {IDS[MASTER]} --region us-east-1" in text
    for minutes in range(24 * 60, 26 * 60, 5):
        call(client, minutes, "")
    assert len(client.told) == 2


def test_people_hear_nothing_of_nodes_whose_reports_are_visible_now_and_then(client):
    states = {call(client, minutes, "in use" if minutes % 25 < 10 else "") for minutes in range(0, 24 * 60, 5)}
    assert (states, client.told) == ({"in_use", "unreported"}, [])


def test_people_do_not_hear_of_nodes_that_a_hold_keeps(client):
    client.tags = hold("job", function.iso(NOW + timedelta(hours=2)))
    assert {call(client, minutes, "") for minutes in range(0, 120, 5)} == {"unconfigured"}
    assert client.told == []
    assert call(client, 120, "") == "unconfigured"
    (text,) = client.told
    assert "deeplearning.cluster.configure\nIts console shows no report, as before the first configuration.\nTo" in text
    assert "terminate" not in text


def test_a_node_that_a_hold_keeps_is_never_silent(client):
    client.tags = hold("job", function.iso(NOW + timedelta(hours=2)))
    call(client, -25, "in use")
    assert {call(client, minutes, "") for minutes in range(0, 120, 5)} == {"unreported"}
    assert call(client, 120, "") == "silent"


def test_people_hear_how_many_nodes_say_nothing(client):
    client.nodes = [MASTER, WORKER2]
    for minutes in (0, 60):
        call(client, minutes, "")
    assert "and 1 more does not report either" in client.told[0]


def test_a_hostile_output_takes_no_time():
    began = time.process_time()
    function.state_of("[1.1] " * 11_000, LAUNCHED, NOW)
    function.state_of("[" + " " * 65_000, LAUNCHED, NOW)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "year"),
    [
        ("2026-12-01T18:00:00Z", 2026),
        ("2026-12-01T19:00:00+01:00", 1970),
        ("20261201", 1970),
        ("never", 1970),
        ("0001-01-01T00:00:00Z", 1970),
        ("2026-99-01T00:00:00Z", 1970),
        ("", 1970),
    ],
)
def test_a_text_that_is_no_time_is_in_the_past(text, year):
    assert function.time_of(text).year == year
