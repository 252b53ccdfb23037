"""Receivers of notifications on this machine: a webhook and a mail server, which work or fail in a certain way."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# What a receiver does with a connection. It returns what it has received, or None.
Behavior = Callable[[socket.socket], Any]


@contextlib.contextmanager
def serving(behavior: Behavior, context: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[Any]]]:
    """Yield the port of a server, and the list of what the server receives."""
    received: list[Any] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError, ValueError):
                connection = context.wrap_socket(self.request, server_side=True) if context else self.request
                found = behavior(connection)
                if found is not None:
                    received.append(found)

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1], received
        server.shutdown()


def request_of(connection: socket.socket) -> dict[str, Any]:
    """Return the path and the JSON document of a POST request."""
    file = connection.makefile("rb")
    method, path, _protocol = file.readline().decode().split(" ")
    headers = dict(line.decode().lower().rstrip().split(": ", 1) for line in iter(file.readline, b"\r\n"))
    return {"method": method, "path": path, **json.loads(file.read(int(headers.get("content-length", 0))) or b"{}")}


def webhook(status: str = "200 OK", headers: str = "", body: bytes = b"ok") -> Behavior:
    """Return a receiver of HTTP requests that responds with this status."""

    def respond(connection: socket.socket) -> Any:
        found = request_of(connection)
        connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}Connection: close\r\n\r\n".encode() + body)
        return found

    return respond


def then(*parts: bytes, forever: bool = False, pause: float = 0.0, reads: bool = True) -> Behavior:
    """Return a receiver that reads a request and sends parts of a response, the last one forever or until the connection is closed."""

    def respond(connection: socket.socket) -> None:
        if reads:
            request_of(connection)
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
        while forever:
            connection.sendall(parts[-1] if parts and pause else b"")
            time.sleep(pause or 0.1)

    return respond


def mail_server(**replies: str) -> Behavior:
    """Return a mail server. `replies` replaces its replies to commands, such as `rcpt`. An empty reply means none, ever."""
    usual = {"greeting": "220 here", "ehlo": "250-here\r\n250 AUTH PLAIN LOGIN", "auth": "235 ok", "mail": "250 ok", "rcpt": "250 ok"}
    usual |= {"data": "354 go on", "end": "250 taken", "quit": "221 bye", "rset": "250 ok"}

    def respond(connection: socket.socket) -> str | None:
        file, mail = connection.makefile("rb"), ""
        command = "greeting"
        while command:
            reply = replies.get(command, usual.get(command, "502 unknown"))
            while not reply:
                connection.sendall(b"")
                time.sleep(0.1)
            connection.sendall(f"{reply}\r\n".encode())
            if command == "quit":
                break
            if command == "data" and reply.startswith("354"):
                mail = b"".join(iter(file.readline, b".\r\n")).decode()
                command = "end"
                continue
            command = file.readline().decode().split(" ")[0].strip().lower()
        return mail or None

    return respond


def certificate(folder: Path) -> ssl.SSLContext:
    """Return the TLS settings of a server whose certificate nobody trusts."""
    key, file = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(file), "-days", "1"], check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    return context
