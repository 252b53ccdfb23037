"""Hosts also run on machines whose containers cannot use FUSE."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from local_cloud.hosts import fuse
from local_cloud.hosts.podman import Podman
from local_cloud.image.builder import node_image


@pytest.fixture
def podman(tmp_path: Path) -> Podman:
    podman = Podman(tmp_path / "containers.conf")
    podman.write_configuration()
    podman.configure(node_image(podman))
    return podman


def test_machine_without_the_device(podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse, "DEVICE", tmp_path / "none")
    assert not fuse.works(podman, node_image(podman), tmp_path, [])


def test_machine_that_makes_no_devices(podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_folder: Path) -> list[str]:
        raise subprocess.CalledProcessError(1, "mknod")

    monkeypatch.setattr(fuse, "options", refuse)
    monkeypatch.setattr(fuse, "DEVICE", Path("/dev/null"))
    assert not fuse.works(podman, node_image(podman), tmp_path, [])


def test_device_that_hosts_cannot_open(podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse, "options", lambda _folder: [])
    monkeypatch.setattr(fuse, "DEVICE", Path("/dev/null"))
    assert not fuse.works(podman, node_image(podman), tmp_path, [])
