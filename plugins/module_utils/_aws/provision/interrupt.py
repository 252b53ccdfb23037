# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Handles SIGINT and SIGTERM during a run."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import AwsClient


@contextlib.contextmanager
def interruptible(cloud: AwsClient) -> Iterator[None]:
    """After the first SIGINT or SIGTERM, let changes in progress finish, and do not start new changes.

    A second signal stops the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def interrupt(*_: Any) -> None:
        restore()
        cloud.interruption.set()

    for number in handlers:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        restore()
