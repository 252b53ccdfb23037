# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the thread that shows the progress of a module."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from ansible_collections.deeplearning.cluster.plugins.plugin_utils.progress import Watch


def test_interrupts_reach_the_main_thread(tmp_path):
    """Python handles signals only in the main thread, which a signal for another thread does not wake up."""
    with open(tmp_path / "progress", "wb+", buffering=0) as file:
        watch = Watch(file.fileno(), str)
        watch.start()
        try:
            status = Path(f"/proc/self/task/{watch.native_id}/status")
            deadline = time.monotonic() + 10
            blocked = 0
            while not blocked and time.monotonic() < deadline:
                fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines())
                blocked = int(fields["SigBlk"], 16)
        finally:
            watch.stop()
    assert {number for number in signal.Signals if blocked >> (number - 1) & 1} == {signal.SIGINT, signal.SIGTERM}
