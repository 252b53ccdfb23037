"""The server process of a local cloud. `local-cloud start` runs it with `python -m local_cloud.server HOME`."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .aws import app
from .aws.servicequotas.quotas import NEW_ACCOUNT, set_values
from .aws.settings import Settings
from .exports import Exports
from .home import Home
from .host_sockets import HostSockets
from .manager import select_hosts

LOG = logging.getLogger(__name__)
# Seconds from a request until the state is saved, and between saves while there are no requests. Instances also change without requests.
SAVE_AFTER = 10.0
SAVE_EVERY = 30.0


class Saver:
    """A WSGI application that wraps the local cloud and saves its state after requests and at intervals."""

    def __init__(self, cloud: app.AwsApi, path: Path) -> None:
        self._cloud = cloud
        self._path = path
        self._called = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="saver", daemon=True)
        self._thread.start()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if self._closing.is_set():
            raise ConnectionAbortedError("The server is stopping. The saved state would not contain the effect of the request.")
        try:
            return self._cloud(environ, start)
        finally:
            self._called.set()

    def close(self) -> None:
        """Stop the background thread, and save the state one last time."""
        self._closing.set()
        self._called.set()
        self._thread.join()
        self._cloud.save(self._path)

    def _run(self) -> None:
        while True:
            self._called.wait(SAVE_EVERY)
            if self._closing.wait(SAVE_AFTER):
                return
            self._called.clear()
            try:
                self._cloud.save(self._path)
            except Exception:
                LOG.exception("The state could not be saved")


def serve(home: Home) -> None:
    """Serve the local cloud in `home` until SIGTERM or SIGINT, then save its state. Hosts keep running."""
    with home.serving():
        _serve(home)


def _serve(home: Home) -> None:
    setup = home.read_setup()
    hosts = select_hosts(home, setup)
    settings = Settings(public_prefix=home.public_prefix, administrator=home.administrator, control_token=home.control_token())
    cloud = app.create(hosts, settings)
    if home.state_file.exists():
        cloud.load(home.state_file)
    elif setup.new_account:
        set_values(NEW_ACCOUNT)
    saver = Saver(cloud, home.state_file)
    server = app.serve(saver, port=setup.port)
    home.write_setup(replace(setup, port=server.server_port))
    threads = [Exports(hosts), HostSockets(hosts, saver)] if setup.hosts else []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    LOG.info("Serving on port %d", server.server_port)
    server.serve_forever()
    for thread in reversed(threads):
        thread.close()
    saver.close()
    cloud.close()
    LOG.info("Stopped")


def main() -> None:
    """Serve the local cloud in the home folder that is specified on the command line."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    serve(Home(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
