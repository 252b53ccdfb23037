"""Clusters of hosts that share this machine's GPU."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from .cluster import Cluster
from .hosts import gpu_hosts


@pytest.fixture(scope="session")
def index():
    """The number of this process among those of pytest-xdist, from 1, or 0 without pytest-xdist."""
    if not shutil.which("nvidia-smi"):
        pytest.skip("needs a machine with an NVIDIA GPU")
    worker = re.search(r"\d+$", os.environ.get("PYTEST_XDIST_WORKER", ""))
    return int(worker[0]) + 1 if worker else 0


def _cluster(folder, index, count):
    with gpu_hosts(folder / "hosts", count, index) as hosts:
        cluster = Cluster(folder, hosts)
        assert cluster.roles("metadata", "worker_metadata").returncode == 0
        yield cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory, index):
    """Two hosts that all tests of this process share."""
    yield from _cluster(tmp_path_factory.mktemp("cluster"), index, 2)


@pytest.fixture
def own_cluster(tmp_path, index):
    """Three hosts of one test, which may end them."""
    yield from _cluster(tmp_path, index + 100, 3)
