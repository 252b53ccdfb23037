"""A stand-in for the instance metadata service, version 2."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "/latest/api/token"


class MetadataService:
    """The metadata service of a Spot Instance, on a port of this machine. `items` is the metadata, and `tokens` are the valid tokens."""

    def __init__(self):
        self.items = {"instance-life-cycle": "spot"}
        self.tokens = []
        self.requests = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self):
                assert self.path == TOKEN
                assert 1 <= int(self.headers["X-aws-ec2-metadata-token-ttl-seconds"]) <= 21600
                service.tokens.append(f"token{len(service.requests)}")
                self.answer(200, service.tokens[-1])

            def do_GET(self):
                found = service.items.get(self.path[len("/latest/meta-data/") :])
                allowed = self.headers["X-aws-ec2-metadata-token"] in service.tokens
                self.answer(401 if not allowed else 404 if found is None else 200, found or "")

            def answer(self, status, text):
                service.requests.append(f"{self.command} {self.path}")
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port

    def interrupt(self, seconds):
        """Announce that the instance is terminated after some seconds."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        self.items["spot/instance-action"] = json.dumps({"action": "terminate", "time": when})

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error):
        self._server.shutdown()
        self._server.server_close()
