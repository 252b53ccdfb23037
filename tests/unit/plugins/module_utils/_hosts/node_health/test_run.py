"""Tests that checks run concurrently, and that a check that hangs or fails does not prevent others from completing."""

from __future__ import annotations

import dataclasses
import getpass
import os
import pwd
import select
import signal
import time
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import (
    MESSAGE_LIMIT,
    Check,
    CheckedNode,
    HealthFinding,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import run
from local_cloud.testing import wait_until

NODE = CheckedNode(getpass.getuser())


def check(name, read, decide=lambda state, _node: [("restart", str(state))], **options):
    return Check(name, read, decide, ("restart",), "something", **options)


def wait_for_ever(_node):
    while True:
        time.sleep(3600)


def test_findings_are_in_the_order_of_the_checks():
    checks = [check("slow", lambda node: time.sleep(0.3)), check("quick", lambda node: node.user)]
    assert run.run(checks, NODE) == [HealthFinding("slow", "restart", "None"), HealthFinding("quick", "restart", NODE.user)]


def test_checks_run_at_the_same_time(tmp_path):
    """Each of the two checks waits until the other one has begun."""

    def meet(own, other):
        def read(_node):
            (tmp_path / own).touch()
            wait_until((tmp_path / other).exists)
            return "met"

        return read

    found = run.run([check("a", meet("a", "b"), limit=60), check("b", meet("b", "a"), limit=60)], NODE)
    assert [each.message for each in found] == ["met", "met"]


def test_checks_with_the_same_reading_share_it(tmp_path):
    def read(_node):
        with (tmp_path / "read").open("a") as file:
            file.write(".")
        return 7

    assert run.run([check("a", read), check("b", read)], NODE) == [HealthFinding("a", "restart", "7"), HealthFinding("b", "restart", "7")]
    assert (tmp_path / "read").read_text() == "."


def test_a_hanging_check_is_a_finding_and_leaves_nothing_behind(tmp_path):
    def read(_node):
        child = os.fork()
        if not child:
            wait_for_ever(None)
        (tmp_path / "processes").write_text(f"{os.getpid()} {child}")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        wait_for_ever(None)

    found = run.run(
        [check("ok", lambda node: 1), check("stuck", read, limit=1.5, hanging="reboot", subject="/efs"), check("same", read, limit=1)], NODE
    )
    assert found == [HealthFinding("ok", "restart", "1"), HealthFinding("stuck", "reboot", "/efs: no answer within 1.5 s.")]
    processes = (tmp_path / "processes").read_text().split()
    wait_until(lambda: all(is_gone(pid) for pid in processes))


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_failing_check_is_a_finding():
    def fail(_node):
        raise ValueError("no such thing")

    found = run.run([check("a", fail), check("b", fail), check("c", lambda node: 1, decide=lambda state, node: 1 / 0)], NODE)
    assert [(each.check, each.severity) for each in found] == [("a", "monitor"), ("c", "monitor")]
    assert found[0].message == "The check failed: ValueError: no such thing."


def test_a_check_that_is_killed_is_a_finding():
    found = run.run([check("a", lambda node: os.kill(os.getpid(), signal.SIGKILL))], NODE)
    assert found == [HealthFinding("a", "monitor", "The check ended without a result.")]


def test_findings_are_short_lines():
    long = [("restart", f"{number}: \x1b[31m{'x' * 10000}\nsecond line") for number in range(1000)]
    found = run.run([check("a", lambda node: None, decide=lambda state, node: long)], NODE)
    assert len(found) == run.PROBLEM_LIMIT
    assert all(len(each.message) == MESSAGE_LIMIT and each.message.isprintable() for each in found)


def test_an_endless_result_is_not_read(monkeypatch):
    monkeypatch.setattr(run, "ANSWER_LIMIT", 1000)
    long = [("restart", "x" * 10000)] * 3
    found = run.run([check("a", lambda node: None, decide=lambda *_: long)], NODE)
    assert found == [HealthFinding("a", "monitor", "The check ended without a result.")]


def test_a_result_that_was_there_in_time_is_received_later():
    large = [("restart", f"{number}{'x' * 400}") for number in range(run.PROBLEM_LIMIT)]
    checks = [check("a", lambda node: None, decide=lambda *_: large, limit=0.5), check("stuck", wait_for_ever, limit=0.5)]
    with run.Readings(checks, NODE) as readings:
        wait_until(lambda: select.select([readings._readings[0].reader], [], [], 0)[0])
        time.sleep(1)
        assert [each.check for each in readings.findings()] == ["a"] * len(large) + ["stuck"]


def test_some_checks_can_be_waited_for_first():
    checks = [check("slow", wait_for_ever, limit=3), check("quick", lambda node: 1, per_mount=True), check("other", lambda node: 2)]
    with run.Readings(checks, NODE) as readings:
        assert readings.findings(lambda each: each.per_mount) == [HealthFinding("quick", "restart", "1")]
        assert [each.message for each in readings.findings()] == ["slow: no answer within 3 s.", "1", "2"]


def test_checks_hold_none_of_the_files_of_the_connection(tmp_path):
    """ssh waits until all processes that have the connection's files open have ended."""

    def read(_node):
        return [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]

    assert run.run([check("a", read)], NODE) == [HealthFinding("a", "restart", str(["/dev/null"] * 3))]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_check_as_a_user_has_no_privileges():
    account = pwd.getpwnam("nobody")

    def read(_node):
        return [os.getresuid(), os.getresgid(), os.path.expanduser("~")]

    found = run.run([check("a", read, as_user=True)], CheckedNode("nobody"))
    assert found == [HealthFinding("a", "restart", str([(account.pw_uid,) * 3, (account.pw_gid,) * 3, account.pw_dir]))]


@pytest.mark.parametrize(("reason", "severity"), [("", "reboot"), ("It starts slowly.", "monitor")])
def test_a_slow_check_can_have_a_reason(reason, severity):
    slow = dataclasses.replace(
        check("slow", lambda node: time.sleep(60), limit=0.5, hanging="reboot", subject="tool"), why_slow=lambda: reason
    )
    assert run.run([slow], NODE) == [HealthFinding("slow", severity, f"tool: no answer within 0.5 s. {reason}".strip())]
