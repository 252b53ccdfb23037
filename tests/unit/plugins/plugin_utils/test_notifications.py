"""Tests of notifications: their texts and limits, the events of a run, and receivers that fail."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from unittest.mock import MagicMock

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import report
from ansible_collections.deeplearning.cluster.plugins.modules import notification
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import notifications, suggested_commands
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.notifications import EVENTS, Notifications, of_end, of_provisioning
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.variable_names import COLLECTION
from receivers import mail_server, serving, then, webhook

URL = "json://example.invalid/battery-horse"
TEST = "To check the definition, run: ansible-playbook deeplearning.cluster.validate"


@pytest.fixture
def sent(monkeypatch):
    """Return a list that gets what is given to each process instead of a process."""
    given = []
    monkeypatch.setattr(
        notifications.Notifications, "_start", lambda _self, urls, message: given.append({**message, "urls": [*urls.values()]})
    )
    monkeypatch.setattr(notifications, "playbook_command", lambda playbook: f"ansible-playbook deeplearning.cluster.{playbook}")
    return given


@pytest.fixture
def warnings(monkeypatch):
    texts = []
    monkeypatch.setattr(notifications.display, "warning", texts.append)
    return texts


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    monkeypatch.setattr(notifications.constants, "DEFAULT_LOCAL_TMP", str(tmp_path))


def of(urls=(URL,), **variables):
    """Return the notifications of a run with these URLs."""
    action = MagicMock()
    action._templar.template = lambda value: value
    return Notifications(
        action, {"deeplearning_cluster": "demo", "deeplearning_notify": list(urls) if isinstance(urls, tuple) else urls, **variables}
    )


def test_a_notification_says_what_happened_and_what_to_type(sent):
    of().send("job_restarted", "digits: attempt 1 failed: w2 is lost. Restarting on 2 hosts", "digits")
    assert sent == [
        {
            "title": "demo digits",
            "body": "Digits: attempt 1 failed: w2 is lost. Restarting on 2 hosts. To show its attempts, run: "
            "ansible-playbook deeplearning.cluster.status -e training_job_name=digits",
            "severity": "warning",
            "urls": [URL],
        }
    ]


@pytest.mark.parametrize(("action", "command"), [("cluster", "validate"), ("emr_cluster", "emr --check")])
def test_the_command_fits_the_service_of_the_nodes(sent, action, command):
    """The playbook validate refuses EMR clusters."""
    notifications_of_run = of()
    notifications_of_run._action._task.action = f"deeplearning.cluster.{action}"
    notifications_of_run.send("price_exceeded", "The run was stopped.")
    notifications_of_run.send("nodes_ended", "No nodes were launched.")
    assert sent[1]["body"].endswith("To see what still costs money, run: ansible-playbook deeplearning.cluster.info")
    command += " -e deeplearning_enforce_price_warning=false"  # otherwise, it fails for the same reason
    assert sent[0]["body"].endswith(f" how much, with the -e of the run, run: ansible-playbook deeplearning.cluster.{command}")


def test_a_note_of_the_controller_follows_and_is_not_changed(sent):
    of().send("job_failed", "It failed." * 100, "digits", note="The nodes cost [money] until you run: destroy.")
    assert "It failed. The nodes cost [money] until you run: destroy. To read all logs, run: " in sent[0]["body"]


def test_the_next_commands_are_those_of_the_kinds_of_events(sent):
    """Only the end of a job, nodes that stay, and a test are told as often as they happen."""
    job = "-e training_job_name=digits"
    expected = {
        "job_started": ("info", "watch it", f"logs -e follow=true {job}"),
        "job_restarted": ("warning", "show its attempts", f"status {job}"),
        "job_succeeded": ("success", "show it", f"status {job}"),
        "job_not_started": ("failure", "show the nodes and what they cost", "info"),
        "job_failed": ("failure", "read all logs", f"logs {job}"),
        "job_stopped": ("warning", "show it", f"status {job}"),
        "job_unreachable": ("failure", "show it", f"status {job}"),
        "nodes_gone": ("warning", "show the nodes", "info"),
        "nodes_replaced": ("info", "show the nodes", "info"),
        "nodes_ended": ("warning", "see what still costs money", "info"),
        "nodes_kept": ("failure", "see what they cost", "info"),
        "cluster_destroyed": ("info", "see what happened to it", "events"),
        "ends_removed": ("warning", "set this again with these options in the definition", "provision"),
        "price_exceeded": (
            "warning",
            "see what costs how much, with the -e of the run",
            "validate -e deeplearning_enforce_price_warning=false",
        ),
        "nodes_short": ("warning", "try to launch the missing nodes", "provision -e deeplearning_grow=true"),
        "test": ("info", "check the definition", "validate"),
    }
    for event in EVENTS:
        of().send(event, "Something happened.", "digits" if event.startswith("job") else "")
    told = [(each["severity"], each["body"].removeprefix("Something happened. ")) for each in sent]
    assert dict(zip(EVENTS, told, strict=True)) == {
        event: (severity, f"To {purpose}, run: ansible-playbook deeplearning.cluster.{command}")
        for event, (severity, purpose, command) in expected.items()
    }
    for event in EVENTS:
        of().send(event, f"{event}.", "digits" if event.startswith("job") else "")
    again = [each["body"].partition(".")[0].lower() for each in sent[len(EVENTS) :]]
    assert again == ["job_succeeded", "job_not_started", "job_failed", "job_stopped", "job_unreachable", "nodes_kept", "test"]


def test_the_commands_of_the_run_can_be_typed(sent, monkeypatch):
    """Hosts can write the same commands into their texts, but only with the options of this run."""
    given = {"inventory": (), "extra_vars": ("@/own/a~b&c.yml",)}
    monkeypatch.setattr(suggested_commands.context, "CLIARGS", given)
    monkeypatch.setattr(notifications, "playbook_command", suggested_commands.playbook_command)
    command = suggested_commands.playbook_command("destroy")
    assert command == "ansible-playbook -e '@/own/a~b&c.yml' deeplearning.cluster.destroy"
    of().send("cluster_destroyed", f"It is *gone*. To delete the data as well, run {command} -e deeplearning_delete_data=true")
    of().send("nodes_short", f"[x] {command} @everyone", note=f"Or run {command}")
    next_command = "To see what happened to it, run: ansible-playbook -e '@/own/a~b&c.yml' deeplearning.cluster.events"
    told = f"It is 'gone'. To delete the data as well, run {command} -e deeplearning_delete_data=true\n{next_command}"
    assert sent[0]["body"] == told
    assert sent[1]["body"].startswith(f"(x) {command}  at everyone. Or run {command}\nTo ")


@pytest.mark.parametrize("urls", [None, "", [], ["", ""]])
def test_nothing_happens_without_urls(sent, tmp_path, urls):
    of(urls).send("job_failed", "It failed.", "digits")
    assert (sent, [*tmp_path.iterdir()], of(urls).problems(), of(urls).errors()) == ([], [], [], [])


def test_empty_urls_keep_their_number(monkeypatch):
    assert of(["", URL])._urls() == {2: URL}
    assert of(URL)._urls() == {1: URL}
    assert of(7)._urls() == {1: "7"}


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("<!channel> <@U1|you> @everyone &lt;!here&gt;", "(!channel) ( at U1/you)  at everyone +lt;!here+gt;."),
        ("see http://evil.example or WWW.evil.example", "See http:/ /evil.example or WWW .evil.example."),
        ("[paid](//evil.example) **now** `x` ~~y~~", "(paid)(//evil.example) ''now'' 'x' --y--."),
        ("one\n\nJob other succeeded.\r\n\x1b[2K\u202eover\u200b", "One Job other succeeded. over."),
        ("x" * 5000, f"X{'x' * 699}."),
        ("training_job_max_cost: too low", "training_job_max_cost: too low."),
        ("is it lost?", "Is it lost?"),
        ("it is!", "It is!"),
    ],
)
def test_texts_of_hosts_are_one_plain_line(sent, text, body):
    of().send("test", text)
    assert sent[0]["body"] == f"{body} {TEST}"


def test_secrets_of_the_job_are_masked(sent):
    secrets = {"TOKEN": "battery*horse", "NONE": "", "SHORT": "a"}
    of(training_job_secrets=secrets).send("job_failed", "ValueError: bad token battery*\x1b[0mhorse at a", "digits")
    assert sent[0]["body"].startswith("ValueError: bad token AS_BEFORE at a.")


@pytest.mark.parametrize(
    ("secret", "told"),
    [
        ("correct  horse", "correct  horse"),
        ("correct\thorse", "correct\thorse"),
        ("p\u00e4ss\u200bword99", "p\u00e4ss\u200bword99"),
        ("hunter2\x1b[0m", "hunter2\x1b[0m"),
        ("battery*horse", "url https://u:battery%2Ahorse@h"),
        ("-----BEGIN-----\nMIIEvQ\n-----END-----", "in MIIEvQ"),
        ("-----BEGIN-----\nMIIEvQ\n-----END-----", repr("-----BEGIN-----\nMIIEvQ\n-----END-----")),
    ],
)
def test_secrets_are_masked_as_the_text_shows_them(sent, secret, told):
    of(training_job_secrets={"A": secret}).send("job_failed", f"KeyError: {told} at b", "digits")
    assert "AS_BEFORE" in sent[0]["body"].partition(" at ")[0]
    assert not [part for part in ("horse", "word99", "hunter2", "MII") if part in sent[0]["body"]]


def test_a_shorter_secret_leaves_no_rest_of_a_longer_one(sent):
    of(training_job_secrets={"A": "ABCD", "B": "ABCDEFGH"}).send("job_failed", "Tokens ABCD and ABCDEFGH.", "digits")
    assert sent[0]["body"].startswith("Tokens AS_BEFORE and AS_BEFORE.")


def test_commands_do_not_repeat_the_urls(monkeypatch):
    monkeypatch.setattr(
        suggested_commands.context, "CLIARGS", {"inventory": (), "extra_vars": (json.dumps({"deeplearning_notify": [URL]}),)}
    )
    assert "battery" not in suggested_commands.playbook_command("train", {})
    assert "AS_BEFORE" in suggested_commands.playbook_command("train", {})


def test_many_events_are_few_notifications_and_the_end_is_told(sent, monkeypatch):
    now = iter(range(10_000))
    monkeypatch.setattr(notifications.time, "monotonic", lambda: float(next(now)))
    for number in range(1000):
        of().send("job_restarted", f"attempt {number}", "digits")
    assert [re.match(r"Attempt (\d+)\.(?: (\d+) more)?", each["body"]).groups() for each in sent] == [
        ("0", None),
        *((str(60 * number), "59") for number in range(1, 10)),
    ]
    of().send("nodes_gone", "w2 is gone", "digits")
    of().send("job_failed", "It failed", "digits")
    of().send("job_failed", "It failed again", "digits")
    assert [each["body"].partition(" To ")[0] for each in sent[10:]] == [
        "W2 is gone. 459 more notifications were not sent.",
        "It failed.",
        "It failed again.",
    ]


def test_jobs_have_their_own_limits(sent):
    for job in ("digits", "faces", "digits"):
        of().send("job_started", "It runs", job)
    of().send("job_failed", "It failed", "digits")
    assert [each["title"] for each in sent] == ["demo digits", "demo faces", "demo digits"]
    assert sent[2]["body"].startswith("It failed. 1 more notification was not sent. To read")


def test_failures_are_warnings_with_the_number_of_the_url(warnings):
    with serving(webhook()) as (port, received), serving(webhook("404 Not Found")) as (other, _):
        urls = [f"json://127.0.0.1:{port}/battery", "", f"json://127.0.0.1:{other}/horse", "staple://correct", "battery staple"]
        for number in range(2):
            of(urls).send("job_failed", f"Failure {number}", "digits")
        of(urls).show_problems()
    assert sorted(each["message"][:10] for each in received) == ["Failure 0.", "Failure 1."]
    advice = "Correct its service and its parts. Write special characters in passwords and tokens as codes, such as %40 for @."
    assert warnings == [
        "deeplearning_notify: URL 3 (json) did not receive a notification: it answered with status 404. This happened 2 times.",
        f"deeplearning_notify: URL 4 (staple) is not a valid Apprise URL. {advice} This happened 2 times.",
        f"deeplearning_notify: URL 5 (unknown) is not a valid Apprise URL. {advice} This happened 2 times.",
    ]
    of(urls).show_problems()
    assert len(warnings) == 3


def test_receivers_that_hang_delay_the_run_only_once_and_no_other_receiver(monkeypatch, warnings):
    monkeypatch.setattr(notifications, "WAIT_SECONDS", 6.0)
    began = time.monotonic()
    endless = then(b"HTTP/1.1 200 OK\r\n\r\n", b"x", forever=True, pause=0.2)
    with contextlib.ExitStack() as stack:
        (port, received), (slow, _), (silent, _) = (
            stack.enter_context(serving(each)) for each in (webhook(), endless, mail_server(greeting=""))
        )
        urls = [
            f"json://127.0.0.1:{slow}",
            f"mailto://127.0.0.1:{silent}/?from=a@example.org&to=a@example.org",
            f"json://127.0.0.1:{port}",
        ]
        of(urls).send("job_failed", "It failed.", "digits")
        started = time.monotonic() - began
        of(urls).show_problems()
        took = time.monotonic() - began
    assert started < 2
    assert 5 < took < 8
    assert len(received) == 1
    assert warnings == [f"deeplearning_notify: URL {number} did not answer within 6 s." for number in ("1 (json)", "2 (mailto)")]


def test_only_errors_of_configuration_are_found_before_a_run(monkeypatch):
    with serving(webhook()) as (port, received):
        assert of([f"json://127.0.0.1:{port}/battery"]).errors() == []
    assert received == []
    (error,) = of(["staple://battery-horse"]).errors()
    assert error.startswith("deeplearning_notify: URL 1 (staple) is not a valid Apprise URL. ")
    monkeypatch.setattr(notifications.importlib.util, "find_spec", lambda _name: None)
    assert of().errors() == [notifications.MISSING]
    assert of([]).errors() == []


def test_a_test_fails_if_it_cannot_be_sent(monkeypatch):
    assert of([]).test("It is a test.") == ["deeplearning_notify: is empty. Specify a list of Apprise URLs."]
    assert of(["json://127.0.0.1:1"]).test("x") == [
        "deeplearning_notify: URL 1 (json) did not receive a notification: it refused the connection."
    ]
    with serving(webhook()) as (port, received):
        assert of([f"json://127.0.0.1:{port}"]).test("It is a test.") == []
    assert received[0]["message"].startswith("It is a test.")


def test_a_run_goes_on_if_nothing_can_be_sent(monkeypatch, warnings):
    unknown = of()
    unknown._action._templar.template = MagicMock(side_effect=AnsibleError(f"no such lookup: {URL}"))
    unknown.send("job_failed", "It failed.", "digits")
    assert unknown.errors() == ["deeplearning_notify: its value cannot be evaluated (AnsibleError). Check its lookups."]
    monkeypatch.setattr(subprocess, "Popen", MagicMock(side_effect=BlockingIOError(11, "Resource temporarily unavailable", URL)))
    of().send("job_failed", "It failed.", "digits")
    assert [text.partition("not sent: ")[2] for text in warnings] == [
        "its value cannot be evaluated (AnsibleError). Check its lookups.",
        "Resource temporarily unavailable.",
    ]


def test_the_events_of_provisioning(monkeypatch):
    degraded = {"workers": 2, "wanted": 4, "reason": "No p5.48xlarge is available."}
    replaced = {"kind": "nodes", "key": "workers", "action": "update", "before": {"unhealthy": [3]}, "after": {"unhealthy": []}}
    outdated = {**replaced, "kind": "launch_template", "before": {"image": "a"}, "after": {"image": "b"}}
    master = {**replaced, "key": "master", "before": {"unhealthy": [1]}}
    assert [*of_provisioning({"changes": [replaced, master, outdated], "degraded": degraded})] == [
        ("nodes_short", "The cluster has 2 of 4 workers. No p5.48xlarge is available."),
        ("nodes_replaced", "nodes workers: replacement of unhealthy node 3; nodes master: replacement of unhealthy node 1"),
    ]
    assert [*of_provisioning({"degraded": {**degraded, "reason": None}})] == [("nodes_short", "The cluster has 2 of 4 workers. ")]
    assert [*of_provisioning({"changes": [outdated], "degraded": None})] == []
    assert [*of_provisioning({"failed": True, "msg": "denied", "changes": [replaced]})] == []
    told = "The run was stopped because after it, cluster demo costs 600.00 USD per day. Nothing was changed."
    exceeded = {"failed": True, "msg": "x", "price_exceeded": "cluster demo costs 600.00 USD per day"}
    assert [*of_provisioning(exceeded)] == [("price_exceeded", told)]
    ends = {"lease": None, "idle": None, "topic": "arn:aws:sns:us-east-1:1:ops", "rests": [], "endless": False, "done": True}
    removed = {"removed_ends": ends}
    monkeypatch.setattr(notifications.getpass, "getuser", lambda: "alice")
    monkeypatch.setattr(notifications.socket, "gethostname", lambda: "build-7")
    told = (
        "A run of alice on build-7 has removed the messages to arn:aws:sns:us-east-1:1:ops, because the definition does not set "
        "deeplearning_notify_topic."
    )
    assert [*of_provisioning({"changes": [], **removed})] == [("ends_removed", told)]
    assert [*of_provisioning({"failed": True, "msg": "keep_ends: x.", **removed})] == []
    ended = {"failed": True, "msg": "lease: the lease has ended.", "nodes_ended": True}
    assert [*of_provisioning(ended)] == [("nodes_ended", "No nodes were launched. The lease has ended.")]
    ended["msg"] = "idle_after: they were idle. To start nodes again, add -e deeplearning_start_again=true"
    again = "run ansible-playbook deeplearning.cluster.provision -e deeplearning_start_again=true"
    assert [*of_provisioning(ended)] == [("nodes_ended", f"No nodes were launched. They were idle. To start nodes again, {again}")]


def test_a_run_of_a_user_without_a_name_is_known_by_the_number(monkeypatch):
    def getuser():
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(notifications.getpass, "getuser", getuser)
    monkeypatch.setattr(notifications.os, "getuid", lambda: 1234)
    assert notifications._who().startswith("A run of user 1234 on ")


def test_a_run_without_capacity_is_an_event(monkeypatch):
    told = []
    monkeypatch.setattr(report, "fail", lambda _module, error, **more: told.append({"failed": True, "msg": str(error), **more}))
    report.fail_without_capacity(MagicMock(before=[]), ["No p5.48xlarge."], [])
    assert [*of_provisioning(told[0])] == [("nodes_short", told[0]["msg"])]


def job(state="failed", **more):
    process = {
        "name": "rank0",
        "rank": 0,
        "host": "w1",
        "state": "running",
        "instance": "i-0000000000000000a",
        "heartbeat": 1.0,
        "part": "worker",
        "ranks": [0],
        "tag": "",
        "log": "/l",
    }
    failure = {
        "name": "rank0",
        "host": "w1",
        "state": "failed",
        "exit_code": 1,
        "lines": ["Traceback", "ValueError: no data"],
        "log": "/l",
    }
    return {"job": {"name": "digits", "state": state, "directory": "/efs/jobs/digits", "processes": [process], "failure": failure, **more}}


LEFT = {"instance_id": "i-0000000000000000a", "cause": "out of service", "replacement": "i-0000000000000000b"}
LOSSES = {"nodes": {}, "former": [LEFT], "unreachable": []}
KEPT = {**LOSSES, "former": []}
GONE = "w1 is gone: i-0000000000000000a was terminated by its Auto Scaling group, and i-0000000000000000b was launched."


@pytest.mark.parametrize(
    ("failure", "result", "losses", "events"),
    [
        ("", {}, {}, [("job_succeeded", "Job digits succeeded.")]),
        (
            "job digits failed: x\nTraceback",
            job(),
            KEPT,
            [("job_failed", "job digits failed: rank 0 on w1 ended with exit status 1. Its log ends with: ValueError: no data")],
        ),
        (
            "x",
            job("stopped"),
            KEPT,
            [("job_stopped", "job digits stopped: rank 0 on w1 ended with exit status 1. Its log ends with: ValueError: no data")],
        ),
        ("x", job(), LOSSES, [("nodes_gone", GONE), ("job_failed", f"job digits failed: {GONE}")]),
        (
            "Job digits was stopped.\nx",
            {**job(), "interrupted": "stop", "job": {"state": "running"}},
            KEPT,
            [("job_stopped", "Job digits was stopped.")],
        ),
        ("the host is\nunreachable", {"out_of_reach": True, "failed": True}, KEPT, [("job_unreachable", "the host is")]),
        ("no such script", {"skipped": True}, KEPT, [("job_not_started", "no such script")]),
        ("it failed", job(failure={"name": []}), KEPT, [("job_failed", "it failed")]),
        ("it failed", job(processes=[{}]), KEPT, [("job_failed", "it failed")]),
        ("it failed", job(processes=3), KEPT, [("job_failed", "it failed")]),
    ],
)
def test_the_events_at_the_end_of_a_job(failure, result, losses, events):
    assert [*of_end("digits", failure, result, losses)] == events


def test_a_job_that_its_maximum_cost_has_ended_can_go_on():
    ended = job()
    cost = {"limit": 5.0, "spent": 5.016, "currency": "USD", "seconds": 7800.4}
    ended["job"]["failure"] |= {"lines": [], "cause": {"kind": "time_limit", "cost": cost}}
    ((_event, told),) = of_end("digits", "x", ended, KEPT)
    how = "run the same command again with -e training_job_name=digits and set a higher training_job_max_cost"
    assert told == (
        "job digits failed: it reached training_job_max_cost (5.00 USD): it had run for 2 h 10 min and cost about 5.02 USD. "
        f"To continue the job, {how}, because what the job has cost counts."
    )


def test_the_module_documents_all_kinds_of_events():
    assert yaml.safe_load(notification.DOCUMENTATION)["options"]["event"]["choices"] == [*EVENTS]
    page = (COLLECTION / "docs" / "notifications.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [event for event in EVENTS if event != notifications.TEST]
