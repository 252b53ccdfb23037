"""Tests of host files."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.hostfile import hostfile

from .conftest import make_hosts, program


def test_hostfile():
    hosts = [*make_hosts(1, 8), Host("deeplearning-worker2", "10.0.0.2", 2, (), "ens5")]
    assert hostfile(program(), hosts) == "deeplearning-worker1 slots=8\ndeeplearning-worker2 slots=1\n"
