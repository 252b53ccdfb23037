"""A hostile node can neither forge nor silence notifications, and no URL appears in output, logs, files or command lines of processes."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from functools import partial
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_watch, notifications
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.notifications import Notifications, of_end
from receivers import serving, then, webhook

SECRET = "battery-horse"
MARKUP = "<!channel> <@U1|you> [pay](https://evil.example) @everyone www.evil.example &lt;!here&gt;"
FAILURE = {"name": "rank0", "host": "w1", "state": "failed", "exit_code": 1}
FORGED = f"rank 0 failed\n\nJob other succeeded. \x1b[2K\u202e{MARKUP}"
CHECK, SEND = "deeplearning.cluster.variable_validation", "deeplearning.cluster.notification"


@pytest.fixture
def of_run(monkeypatch, tmp_path):
    """Return a function that returns the notifications of a run with these URLs."""
    monkeypatch.setattr(notifications.constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr(job_watch, "show", lambda *_: None)
    action = MagicMock()
    action._templar.template = lambda value: value
    return lambda url: Notifications(action, {"deeplearning_cluster": "demo", "deeplearning_notify": [url]})


class HostileHost:
    """A host that reports a forged attempt in each poll."""

    def __init__(self):
        self.polls = 0

    def __call__(self, _arguments):
        self.polls += 1
        attempt = {
            "attempt": self.polls,
            "state": "failed",
            "action": "restart",
            "failure": FAILURE,
            "rule": "same_hosts",
            "damaged": [FORGED] * 10_000,
        }
        process = {"name": "rank0", "host": "w1", "part": "worker", "state": "running", "started": 0.0, "heartbeat": float(self.polls)}
        job = {
            "name": "digits",
            "state": "running",
            "directory": "/efs/jobs/digits",
            "process_count": 1,
            "hosts": 1,
            "processes": [process],
        }
        return {"jobs": [{**job, "attempts": [attempt], "progress": [], "progress_offset": 0, "code": {}}]}


def test_a_flood_of_forged_events_silences_no_other_event(of_run, monkeypatch):
    with serving(webhook()) as (port, received):
        run = of_run(f"json://127.0.0.1:{port}")
        watch = job_watch.JobWatch(HostileHost(), {"name": "digits"}, "hint", notify=partial(run.send, job="digits"))
        now, before = iter(range(0, 10**9, 30)), time.monotonic
        monkeypatch.setattr(notifications.time, "monotonic", lambda: float(next(now)))
        for _poll in range(300):
            watch.poll()
        monkeypatch.setattr(notifications.time, "monotonic", before)
        failed = {"job": {"name": "digits", "state": "failed", "failure": {"log": FORGED, "name": "rank0"}, "processes": "none"}}
        run.send("nodes_short", "The cluster has 2 of 4 workers.")
        for event, text in of_end("digits", f"job digits failed: {FORGED}", failed, {}):
            run.send(event, text, "digits")
        assert run.problems() == []
    kinds = sorted(each["type"] for each in received)
    assert kinds == ["failure", "info", *["warning"] * 11]
    last = next(each for each in received if each["type"] == "failure")
    assert last["message"].startswith("Job digits failed: rank 0 failed. 290 more notifications were not sent. To read all logs, run: ")
    for each in received:
        assert each["title"] in ("demo digits", "demo")
        assert not re.search(r"[<>\[\]@`*|&\n\x1b\u202e]|://|www\.", each["message"])
        assert each["message"].startswith(("Job digits", "The cluster has 2 of 4 workers."))
        assert len(each["message"]) < 1000


def playbook(folder, port):
    """Write a play with URLs from a vault and from the environment, and return the command that runs it. Only the first URL works."""
    password = folder / "password"
    password.write_text("vault")
    urls = [f"json://127.0.0.1:{port}/{SECRET}", f"json://user:{SECRET}@127.0.0.1:1", SECRET, f"stapl://{SECRET}/"]
    encrypt = ["ansible-vault", "encrypt_string", "--vault-password-file", str(password)]
    vaulted = [subprocess.run([*encrypt, url], check=True, capture_output=True, text=True, timeout=60).stdout for url in urls]
    listed = "".join(f"- {each}\n" for each in [*vaulted, "\"{{ lookup('ansible.builtin.env', 'NOTIFY') }}\""])
    (folder / "urls.yml").write_text(f"deeplearning_notify:\n{listed}")
    tasks = [{"name": "Send", SEND: {"event": "job_failed", "job": "digits", "msg": "It failed."}}, {"name": "Check", CHECK: {}}]
    play = {"hosts": "localhost", "gather_facts": False, "vars_files": ["urls.yml"], "tasks": tasks}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    return ["ansible-playbook", "-i", "localhost,", "-vvvv", "--vault-password-file", str(password), "play.yml"]


def test_no_url_gets_into_output_logs_or_processes(tmp_path):
    with contextlib.ExitStack() as stack:
        port, received = stack.enter_context(serving(webhook()))
        silent, _ = stack.enter_context(serving(then(b"HTTP/1.1 200 OK\r\n\r\n", b"x", forever=True, pause=0.2)))
        command = playbook(tmp_path, port)
        environment = {
            **os.environ,
            "NOTIFY": f"json://127.0.0.1:{silent}/{SECRET}",
            "ANSIBLE_LOG_PATH": str(tmp_path / "log"),
            "ANSIBLE_DISPLAY_ARGS_TO_STDOUT": "true",
            "ANSIBLE_INJECT_FACT_VARS": "false",
            "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
        }
        began, lines = time.monotonic(), set()
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as run:
            time.sleep(6)  # the receiver that never ends its answer keeps the run waiting
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    lines.add(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                    if b"sender.py" in path.read_bytes():
                        assert os.getsid(int(path.parent.name)) == int(path.parent.name), "Ctrl-C must not end it"
            files = "".join(path.read_text(errors="replace") for path in (tmp_path / "local").rglob("*") if path.is_file())
            output, _ = run.communicate(timeout=60)
    assert any("sender.py" in line for line in lines)
    assert len(received) == 1
    log = (tmp_path / "log").read_text()
    assert SECRET not in output + log + files + "".join(line for line in lines if "sender.py" in line or "play.yml" in line)
    assert "URL 5 (json) did not answer within 10 s." in " ".join(output.split())
    assert "URL 2 (json) did not receive a notification: it refused the connection." in " ".join(output.split())
    assert "deeplearning_notify: URL 4 (stapl) is not a valid Apprise URL" in log
    assert "ok: [localhost]" in output
    assert time.monotonic() - began < 40
