"""The local cloud removes containers whose mounts the kernel still holds for a moment."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from local_cloud.hosts import podman_hosts
from local_cloud.hosts.podman import PodmanError


@pytest.mark.parametrize(("failures", "message", "tries"), [(2, "device or resource busy", 3), (1, "no such image", 1), (99, "busy", 10)])
def test_a_busy_mount_is_tried_again(monkeypatch, failures, message, tries):
    """Without retries, the instance would never be terminated, and clients would wait for it indefinitely."""
    calls = []

    def podman(*arguments):
        calls.append(arguments)
        if len(calls) <= failures:
            raise PodmanError(f"podman rm: {message}")

    monkeypatch.setattr(podman_hosts.time, "sleep", lambda _seconds: None)
    hosts = SimpleNamespace(_podman=podman)
    if tries > failures:
        podman_hosts.PodmanHosts._remove_containers(hosts, "x")
    else:
        with pytest.raises(PodmanError, match=message):
            podman_hosts.PodmanHosts._remove_containers(hosts, "x")
    assert len(calls) == tries
