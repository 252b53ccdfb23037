"""Tests of the GPUs that each process gets."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.gpu_shares import slots

from .conftest import make_hosts, program


@pytest.mark.parametrize(
    ("gpus", "processes", "shares"),
    [((), 0, [()]), ((), 2, [(), ()]), ((0, 1, 2, 3), 0, [(0,), (1,), (2,), (3,)]), ((2, 3, 6, 7), 2, [(2, 3), (6, 7)])],
)
def test_gpus_are_shared_out(gpus, processes, shares):
    assert slots(program(processes_per_host=processes), Host("w", "10.0.0.1", 1, gpus, "ens5")) == shares


@pytest.mark.parametrize("processes", [3, 5])
def test_gpus_that_cannot_be_shared_equally_are_refused(processes):
    with pytest.raises(LaunchError, match=f"{processes} processes cannot share the 4 GPUs of deeplearning-worker1"):
        slots(program(processes_per_host=processes), make_hosts(1, 4)[0])
