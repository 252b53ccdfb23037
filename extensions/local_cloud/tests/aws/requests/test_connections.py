"""A connection stays open for further requests, unless the rest of a request would be taken for the next one."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from typing import Any

import pytest
from local_cloud.aws import app
from local_cloud.host_sockets import HostSocket

from ..conftest import Account

SIZE = 1 << 24  # more than the kernel buffers


@pytest.fixture
def connection() -> Iterator[HTTPConnection]:
    """A connection to a server whose application responds according to the path."""
    server = app.serve(application)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    opened = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    yield opened
    opened.close()
    server.shutdown()


def application(environ: dict[str, Any], start: Any) -> list[bytes]:
    if environ["PATH_INFO"] == "/stopping":
        raise ConnectionAbortedError
    if environ["PATH_INFO"] == "/fault":
        raise ValueError
    content = b"" if environ["PATH_INFO"] == "/unread" else environ["wsgi.input"].read()
    start("200 OK", [("X-Length", str(len(content)))])
    return [b"first ", b"second"]


def ask(connection: HTTPConnection, path: str = "/", method: str = "POST", body: Any = b"") -> tuple[int, bytes, bool]:
    """Return the status, the content, and whether the connection is still open."""
    connection.request(method, path, body)
    response = connection.getresponse()
    return response.status, response.read(), connection.sock is not None


def test_a_connection_serves_several_requests(connection: HTTPConnection) -> None:
    assert ask(connection, body=b"content") == (200, b"first second", True)
    assert ask(connection, method="HEAD") == (200, b"", True)
    assert ask(connection) == (200, b"first second", True)


def test_a_request_that_is_not_read_closes_the_connection(connection: HTTPConnection) -> None:
    assert ask(connection, "/unread", body=b"1" * SIZE) == (200, b"first second", False)
    assert ask(connection, body=iter([b"chunk", b"chunk"])) == (200, b"first second", False)


def test_an_exception_is_logged(connection: HTTPConnection, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert ask(connection, "/fault")[:2] == (500, b"")
    assert "ValueError" in caplog.text


def test_a_server_that_stops_drops_requests(connection: HTTPConnection) -> None:
    with pytest.raises(RemoteDisconnected):
        ask(connection, "/stopping")


def test_hosts_have_unix_sockets(tmp_path: Path) -> None:
    opened = HostSocket(tmp_path / "socket", "i-1", application)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(tmp_path / "socket"))
            for _ in range(2):
                connection.sendall(b"GET / HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n")
                assert connection.recv(1 << 16).endswith(b"first second")
    finally:
        opened.close()


def test_clients_of_the_sdk_keep_their_connection(account: Account) -> None:
    ec2 = account.client("ec2")
    answers = [ec2.describe_vpcs() for _ in range(2)]
    assert all("connection" not in each["ResponseMetadata"]["HTTPHeaders"] for each in answers)
