"""Unix sockets through which hosts reach the metadata service and the AWS API. Each host has its own socket, which identifies the host."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from werkzeug.serving import BaseWSGIServer, make_server

from .aws.context import CLOUD, instances
from .aws.control_api import PREFIX
from .aws.ec2.instance_metadata import InstanceMetadata
from .aws.emr.node_tasks import PREFIX as EMR_PREFIX
from .aws.emr.node_tasks import NodeTasks
from .aws.requests.calls import Application
from .aws.requests.connections import RequestHandler
from .aws.requests.origin_check import refuse_foreign_origins
from .host_interface import HostInterface

LOG = logging.getLogger(__name__)
INTERVAL = 0.2
METADATA_ADDRESS = "169.254.169.254"
API_ADDRESS = "127.0.0.2"


class HostSockets:
    """A thread that opens and closes sockets when hosts start and stop."""

    def __init__(self, hosts: HostInterface, api: Application) -> None:
        self._hosts = hosts
        self._api = api
        self._open: dict[str, HostSocket] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="host-sockets", daemon=True)
        self._thread.start()

    @property
    def open(self) -> frozenset[str]:
        """Return the IDs of instances whose sockets are open."""
        return frozenset(self._open)

    def close(self) -> None:
        """Close all sockets."""
        self._closing.set()
        self._thread.join()
        for server in self._open.values():
            server.close()

    def update(self) -> None:
        """Open sockets for new hosts, and close the sockets of hosts that have stopped."""
        with CLOUD.lock:
            live = {each.id for each in instances() if each.state in ("pending", "running")}
        for instance_id in self._open.keys() - live:
            self._open.pop(instance_id).close()
        for instance_id in live - self._open.keys():
            path = self._hosts.socket(instance_id)
            if path:
                application = host_application(InstanceMetadata(instance_id), self._api, NodeTasks(instance_id))
                self._open[instance_id] = HostSocket(path, instance_id, application)

    def _run(self) -> None:
        while not self._closing.wait(INTERVAL):
            try:
                self.update()
            except Exception:
                LOG.exception("Sockets of hosts could not be updated")


class HostSocket:
    """A server on the socket of one host."""

    def __init__(self, path: Path, instance_id: str, application: Any) -> None:
        with _listen(path) as listening:
            self._server: BaseWSGIServer = make_server(
                f"unix://{path}", 0, application, threaded=True, request_handler=RequestHandler, fd=listening.fileno()
            )
        self._thread = threading.Thread(target=self._server.serve_forever, name=f"socket {instance_id}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()


def host_application(metadata: Application, api: Application, node_tasks: Application) -> Application:
    """Return the application behind a host's socket: the metadata service, the host's EMR tasks, and the AWS API except the control API."""

    def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("HTTP_HOST", "").partition(":")[0] == METADATA_ADDRESS:
            return metadata(environ, start)
        if environ["PATH_INFO"].startswith(EMR_PREFIX):
            return node_tasks(environ, start)
        if environ["PATH_INFO"].startswith(PREFIX):
            start("404 Not Found", [("Content-Length", "0")])
            return []
        return api(environ, start)

    return refuse_foreign_origins(application, (API_ADDRESS, METADATA_ADDRESS))


def _listen(path: Path) -> socket.socket:
    """Return a listening socket at a path of any length. The kernel itself accepts only short paths."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
    # On this machine, root on a host is a different user. The mode of the local cloud's home folder excludes other users.
    os.chmod(path, 0o666)
    listening.listen(128)
    return listening
