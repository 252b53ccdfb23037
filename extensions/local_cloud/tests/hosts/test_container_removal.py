"""The local cloud tries again where podman or the kernel still holds a mount or an address of a stopped container for a moment."""

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


@pytest.mark.parametrize(("failures", "message", "tries"), [(2, "address is already allocated", 3), (1, "no such image", 1)])
def test_an_address_that_is_not_yet_free_is_tried_again(monkeypatch, failures, message, tries):
    """On a busy machine, podman frees the address of a stopped container late."""
    calls = []

    def start(name):
        calls.append(name)
        if len(calls) <= failures:
            raise PodmanError(f"podman init: {message}")

    monkeypatch.setattr(podman_hosts.time, "sleep", lambda _seconds: None)
    hosts = SimpleNamespace(_podman=SimpleNamespace(succeeds=lambda *_arguments: True), _start=start)
    if tries > failures:
        podman_hosts.PodmanHosts._boot(hosts, "x")
    else:
        with pytest.raises(PodmanError, match=message):
            podman_hosts.PodmanHosts._boot(hosts, "x")
    assert len(calls) == tries
