"""Leads hosts to AWS: each has a socket of its own, by which the metadata service and the API know whose host it is."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import BaseWSGIServer, make_server

from .aws.context import CLOUD, instances
from .aws.control_api import PREFIX
from .aws.ec2.instance_metadata import InstanceMetadata
from .aws.requests.origin_check import Application, refuse_foreign_origins
from .host_interface import HostInterface

LOG = logging.getLogger(__name__)
INTERVAL = 0.2
METADATA_ADDRESS = "169.254.169.254"
API_ADDRESS = "127.0.0.2"


class HostSockets:
    """A thread that opens the sockets of hosts as they come, and closes them as they go."""

    def __init__(self, hosts: HostInterface, api: Application) -> None:
        self._hosts = hosts
        self._api = api
        self._open: dict[str, HostSocket] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sockets", daemon=True)
        self._thread.start()

    @property
    def open(self) -> frozenset[str]:
        """The instances that reach AWS now."""
        return frozenset(self._open)

    def close(self) -> None:
        """Close all."""
        self._closing.set()
        self._thread.join()
        for socket_server in self._open.values():
            socket_server.close()

    def update(self) -> None:
        """Open and close what has to be since the last time."""
        with CLOUD.lock:
            live = {each.id for each in instances() if each.state in ("pending", "running")}
        for instance_id in self._open.keys() - live:
            self._open.pop(instance_id).close()
        for instance_id in live - self._open.keys():
            path = self._hosts.socket(instance_id)
            if path:
                self._open[instance_id] = HostSocket(path, instance_id, self._api)

    def _run(self) -> None:
        while not self._closing.wait(INTERVAL):
            try:
                self.update()
            except Exception:
                LOG.exception("the sockets of hosts could not be brought in line")


class HostSocket:
    """A server on the socket of one host."""

    def __init__(self, path: Path, instance_id: str, api: Application) -> None:
        application: Any = host_application(InstanceMetadata(instance_id), api)
        with _listen(path) as listening:
            self._server: BaseWSGIServer = make_server(
                f"unix://{path}", 0, application, threaded=True, request_handler=MotoRequestHandler, fd=listening.fileno()
            )
        self._thread = threading.Thread(target=self._server.serve_forever, name=f"socket_server {instance_id}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()


def host_application(metadata: Application, api: Application) -> Application:
    """What a host reaches through its socket: its metadata service and the API, without what controls the cloud."""

    def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("HTTP_HOST", "").partition(":")[0] == METADATA_ADDRESS:
            return metadata(environ, start)
        if environ["PATH_INFO"].startswith(PREFIX):
            start("404 Not Found", [("Content-Length", "0")])
            return []
        return api(environ, start)

    return refuse_foreign_origins(application, (API_ADDRESS, METADATA_ADDRESS))


def _listen(path: Path) -> socket.socket:
    """A listening socket at a path of any length: the kernel takes short ones only."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
    # Root of a host is another user of this machine. Nobody but the cloud's own user gets as far as the folder.
    os.chmod(path, 0o666)
    listening.listen(128)
    return listening
