# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Handles SIGINT and SIGTERM during a run."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

from ..client import AwsClient


@contextlib.contextmanager
def interruptible(cloud: AwsClient) -> Iterator[None]:
    """After the first SIGINT or SIGTERM, let changes in progress finish, and do not start new changes.

    A second signal stops the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # An action that runs the module in its own process has handlers that let the module finish. They stay.
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    handlers = {number: handler for number in (signal.SIGINT, signal.SIGTERM) if (handler := signal.getsignal(number)) in defaults}
    # A signal handler must not set the event: the main thread that it interrupts may hold the event's lock. Python writes the signal's
    # number to this pipe, and a thread sets the event.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def restore(*_: Any) -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def watch() -> None:
        if os.read(reader, 1):
            cloud.interruption.set()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    former = signal.set_wakeup_fd(writer)
    for number in handlers:
        signal.signal(number, restore)
    try:
        yield
    finally:
        restore()
        signal.set_wakeup_fd(former)
        os.close(writer)
        watcher.join()
        os.close(reader)
