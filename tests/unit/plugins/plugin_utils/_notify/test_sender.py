"""Tests of the program that sends a notification, with receivers that work and receivers that fail."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._notify import sender
from receivers import certificate, mail_server, serving, then, webhook

SECRET = "battery-horse"
MESSAGE = {
    "title": "demo digits",
    "body": "Job digits failed with error=137. To read all logs, run: x -e training_job_name=digits",
    "severity": "failure",
}
HEADERS = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
JSON = f"json://127.0.0.1:{{port}}/{SECRET}?rto=1"
MAIL = f"mailto://user:{SECRET}@127.0.0.1:{{port}}/?from=cluster@example.org&to=team@example.org"
IN_TIME, CLOSED = "it did not answer in time", "it closed the connection"


def send(url, limit=sender.LIMIT_SECONDS, **message):
    """Return the problem, or None if the program was killed after its time limit."""
    limited = f"alarm = signal.alarm; signal.alarm = lambda _: alarm({limit})"
    program = f"import runpy, signal; {limited}; runpy.run_path({sender.__file__!r}, run_name='__main__')"
    given = json.dumps({"url": url, **(message or MESSAGE)})
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, text=True, timeout=limit + 20, check=False)
    assert SECRET not in done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout else None


def test_a_webhook_receives_the_text_as_it_is():
    with serving(webhook()) as (port, received):
        assert send(JSON.format(port=port)) == ""
    (found,) = received
    assert (found["title"], found["message"], found["type"]) == ("demo digits", MESSAGE["body"], "failure")


def test_a_mail_server_receives_the_text_as_it_is():
    with serving(mail_server()) as (port, received):
        assert send(MAIL.format(port=port)) == ""
    assert "Subject: demo digits" in received[0]
    assert MESSAGE["body"] in re.sub("=\r\n", "", received[0]).replace("=3D", "=")


@pytest.mark.parametrize(
    ("url", "behavior", "reason"),
    [
        (JSON, then(b"HTTP/1.1 200 OK\r\n", forever=True), IN_TIME),
        (JSON, then(b"", forever=True), IN_TIME),
        (JSON, then(HEADERS, b"x", forever=True, pause=0.2), None),
        (
            JSON,
            then(HEADERS.replace(b"1000000000", b"9" * 15), b"x" * (8 << 20), forever=True, pause=0.001),
            "it answered with too much data",
        ),
        (JSON, then(HEADERS, b"x" * 1000, reads=False), CLOSED),
        (JSON, then(), CLOSED),
        (JSON, then(b"SSH-2.0-OpenSSH_9.2\r\n"), "it does not speak the protocol of the URL"),
        (JSON, webhook("302 Found", "Location: /elsewhere\r\n"), "it answered with status 302"),
        *((JSON, webhook(f"{status} No"), f"it answered with status {status}") for status in (401, 403, 404, 429, 502)),
        (JSON, webhook("200 OK", body=b"x" * (20 << 20)), ""),
        (JSON, webhook("500 No", body=f"the token {SECRET} is wrong".encode()), "it answered with status 500"),
        (JSON.replace("json", "jsons"), webhook(), "TLS failed"),
        (JSON.replace("json", "jsons"), "tls", "its certificate is not trusted"),
        (JSON, mail_server(), "it does not speak the protocol of the URL"),
        (MAIL, mail_server(rcpt="550 no such user"), "it answered with status 550"),
        (MAIL, mail_server(rcpt="451 try again later"), "it answered with status 451"),
        (MAIL, mail_server(mail="552 too many"), "it answered with status 552"),
        (MAIL, mail_server(end="554 spam"), "it answered with status 554"),
        (MAIL, mail_server(auth="535 wrong password"), "it answered with status 535"),
        (MAIL, mail_server(greeting="421 busy"), "it answered with status 421"),
        (MAIL, mail_server(greeting=""), None),
        (MAIL, mail_server(data=""), None),
        (MAIL, then(reads=False), CLOSED),
        (MAIL, webhook(), None),
        ("json://127.0.0.1:1/", None, "it refused the connection"),
        ("mailto://u:p@127.0.0.1:1/?from=a@example.org&to=b@example.org", None, "it refused the connection"),
        ("json://receiver.invalid/", None, "the name of its host cannot be resolved"),
    ],
)
def test_failures_are_told_without_the_url(tmp_path, url, behavior, reason):
    """A receiver with the reason None keeps the program busy until its time limit."""
    tls = certificate(tmp_path) if behavior == "tls" else None
    began = time.monotonic()
    with serving(webhook() if tls or not behavior else behavior, tls) as (port, _received):
        problem = send(url.format(port=port), limit=3 if reason is None else 60)
    assert problem == (sender.NOT_SENT + reason if reason else reason)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("url", ["", "slak://a/b/c", SECRET, "json://", "mailto://", "json://[::1", "slack://only-one-token", 7 * "x"])
def test_urls_that_are_not_valid(url):
    assert send(url) == sender.INVALID
    assert send(url, title="without a text") == sender.INVALID


def test_a_url_is_checked_without_a_connection():
    with serving(webhook()) as (port, received):
        assert send(JSON.format(port=port), title="without a text") == ""
    assert received == []
