"""Fixtures for a job."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd


@pytest.fixture(autouse=True)
def no_processes(monkeypatch):
    """Hide the processes in this machine's containers, because a job there can have the same name as a test's job."""
    monkeypatch.setattr(systemd, "processes", lambda job: [])


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path_factory):
    """Use an empty home directory, because supervisors delete old locks from caches."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


def with_tmpfs(place, options):
    """Return the beginning of a command that runs in a mount namespace of its own, in which a tmpfs is mounted at `place`."""
    script = f'mount -t tmpfs -o {options} tmpfs {place} && exec "$@"'
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
