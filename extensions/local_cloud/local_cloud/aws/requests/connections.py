"""Serves the requests of a connection. Like AWS, keeps the connection open between requests."""

from __future__ import annotations

import logging
import select
import socket
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.wsgi import LimitedStream

from ..context import CLOUD

LOG = logging.getLogger(__name__)
WITHOUT_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
# Seconds to wait for the rest of a request that the application has not read, and bytes to read of it at once.
REST_TIMEOUT = 0.01
REST_PART = 1 << 20


class RequestHandler(MotoRequestHandler):
    """Serves the requests of a connection, one after the other. The Date header of responses shows the time of the local cloud's clock.

    werkzeug closes the connection after each request. A new connection and its thread would take half a millisecond of processor time.
    """

    protocol_version = "HTTP/1.1"
    # Each response is sent at once.
    wbufsize = -1

    @property
    def disable_nagle_algorithm(self) -> bool:  # type: ignore[override]
        """Return whether a response is sent without delays, which only TCP has."""
        return bool(self.connection.family != socket.AF_UNIX)

    def run_wsgi(self) -> None:
        """Respond to a request. Close the connection if the application has not read all of the request."""
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()
            self.wfile.flush()
        environ = self.make_environ()
        length = environ.get("CONTENT_LENGTH") or "0"
        if length.isdecimal() and not environ.get("wsgi.input_terminated"):
            environ["wsgi.input"] = body = LimitedStream(self.rfile, int(length))
        else:
            body = None
        answer = self._answer(environ)
        has_rest = body is None or not body.is_exhausted
        self._send(*answer, close=has_rest)
        if has_rest:
            self._discard_rest()

    def _answer(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        """Return the status line, the headers and the content of the application's response."""
        answer: list[Any] = []
        try:
            content = b"".join(self.server.app(environ, lambda *line: answer.extend(line)))
        except ConnectionError:
            raise
        except Exception:
            LOG.exception("%s failed", self.requestline)
            return "500 Internal Server Error", [], b""
        return answer[0], answer[1], content

    def _send(self, status: str, headers: list[tuple[str, str]], content: bytes, *, close: bool) -> None:
        code, _, phrase = status.partition(" ")
        self.send_response(int(code), phrase)
        for name, value in headers:
            self.send_header(name, value)
        if int(code) not in WITHOUT_BODY and not any(name.lower() == "content-length" for name, _value in headers):
            self.send_header("Content-Length", str(len(content)))
        if close:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.wfile.flush()

    def _discard_rest(self) -> None:
        """Read what a client still sends. Otherwise, the client would not see the response."""
        while select.select([self.connection], [], [], REST_TIMEOUT)[0] and self.rfile.read1(REST_PART):
            pass

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(timestamp or CLOUD.now(), usegmt=True)

    def log_request(self, *_: Any) -> None:
        """Log nothing. The control API lists the requests."""
