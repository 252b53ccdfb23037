"""Address ranges for tests that run concurrently on one machine."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack

from local_cloud.hosts.podman import as_root
from local_cloud.testing import unused_range

NETWORK = "local-cloud-test-ranges"


def test_no_range_is_claimed_twice() -> None:
    with ExitStack() as claims:
        ranges = [claims.enter_context(unused_range()) for _ in range(3)]
    assert len(set(ranges)) == 3


def test_a_range_that_podman_uses_is_left_out() -> None:
    with unused_range() as free:
        pass
    subnet = free.replace(".0.0/16", ".7.0/24")
    subprocess.run(as_root("podman", "network", "create", f"--subnet={subnet}", NETWORK), check=True, capture_output=True)
    try:
        with unused_range() as other:
            assert other != free
    finally:
        subprocess.run(as_root("podman", "network", "rm", NETWORK), check=True, capture_output=True)
