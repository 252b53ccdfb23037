"""Tests of how the function reads what nodes report on their consoles."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.idle import function

NOW = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
SINCE = NOW - timedelta(hours=2)


def line(text: str, at: datetime = NOW) -> str:
    return f"\r\ndeeplearning: {text}, reported at {at:%Y-%m-%dT%H:%M:%SZ}.\r\n"


IDLE = line("idle since 2026-12-01T16:00:00Z")


@pytest.mark.parametrize(
    ("output", "since"),
    [
        (IDLE, SINCE),
        (f"cloud-init: finished\r\n{IDLE}[   14.203871] nvidia: loaded\r\n", SINCE),
        # A message of the kernel can interrupt a report
        (IDLE[:30] + "[   14.203871] nvidia-nvlink: initialized\r\n" + IDLE[30:], SINCE),
        (IDLE[:50] + "[28925.2] a\r\n[28925.3] b\r\n" + IDLE[50:], SINCE),
        (line("in use") + IDLE, SINCE),
        (IDLE + line("in use"), None),
        (IDLE + line("in use", NOW - timedelta(hours=1)), None),
        (line("idle since 2026-12-01T16:00:00Z", NOW - timedelta(minutes=21)), None),
        (line("idle since 2026-12-01T16:00:00Z", NOW + timedelta(minutes=21)), None),
        (line("idle since 2026-12-01T99:00:00Z"), datetime.fromtimestamp(0, UTC)),
        (line("idle since 0001-01-01T0000+0100"), None),
        # Unprivileged processes can cause messages of the kernel with a text of their own
        (line("in use") + f"[ 9000.123456] overlayfs: failed to resolve 'x{IDLE.strip()}'\r\n", None),
        (line("in use") + f"[ 9000.123456] overlayfs: failed to resolve 'x\r{IDLE.strip()}\r'\r\n", None),
        (IDLE[:40], None),
        ("", None),
    ],
)
def test_the_last_report_counts_if_it_is_fresh(output, since):
    assert function.idle_since(output, NOW) == since


def test_a_hostile_output_takes_no_time():
    began = time.process_time()
    function.idle_since("[1.1] " * 11_000, NOW)
    function.idle_since("[" + " " * 65_000, NOW)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "year"),
    [("2026-12-01T18:00:00Z", 2026), ("2026-12-01T19:00:00+01:00", 2026), ("never", 1970), ("0001-01-01T00:00+14:00", 1970), ("", 1970)],
)
def test_a_text_that_is_no_time_is_in_the_past(text, year):
    assert function.time_of(text).year == year
