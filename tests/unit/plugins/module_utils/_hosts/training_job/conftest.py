"""Fixtures for a job and the parameters of its module."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records


@pytest.fixture(autouse=True)
def no_processes(monkeypatch):
    """Hide the processes in this machine's containers, because a job there can have the same name as a test's job."""
    monkeypatch.setattr(systemd, "processes", lambda job: [])


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path_factory):
    """Use an empty home directory, because supervisors delete old locks from caches."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def paths(tmp_path):
    return records.Paths(str(tmp_path / "jobs/digits"))


def parameters(**changes):
    hosts = [
        {"name": f"deeplearning-worker{n}", "address": f"10.0.0.{n}", "number": n, "gpus": [], "interface": "ens5"} for n in (12, 3, 1)
    ]
    defaults = {"name": "digits", "python": "/p", "script": "/home/me/train.py", "source": None, "repository": None, "arguments": ["a b"]}
    defaults.update(
        resume=None,
        instance_id="i-0123456789abcdef0",
        capacity_end=None,
        attempt=1,
        launcher="torchrun",
        launcher_options={},
        command=[],
        environment_by_task={},
        sync_directory=None,
        key="k",
        sandbox=True,
        health_check=True,
        reboot=False,
        queue=None,
        host_count=0,
        metrics_directory=None,
        cluster="demo",
    )
    limits = {"processes_per_host": 0, "time_limit": 9, "stop_timeout": 5, "heartbeat_timeout": 60, "hang_timeout": 0, "hang_steps": 0}
    limits["hang_minimum"], limits["health_interval"] = 0, 300
    limits.update(restarts=3, min_hosts=0, spares=0, stop_exit_codes=[], restart_exit_codes=[])
    return {**defaults, **limits, "hosts": hosts, "environment": {"OMP_NUM_THREADS": 4}, "secrets": {"TOKEN": "t"}, **changes}


def with_tmpfs(place, options):
    """Return the beginning of a command that runs in a mount namespace of its own, in which a tmpfs is mounted at `place`."""
    script = f'mount -t tmpfs -o {options} tmpfs {place} && exec "$@"'
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
