"""Tests of the launcher horovod: the ranks of the launcher mpi, with Horovod's settings."""

from __future__ import annotations

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers import mpi
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.horovod import LAUNCHER

from .conftest import make_hosts, program


def plan(count, gpus, **options):
    options = ArgumentSpecValidator(dict(LAUNCHER.options)).validate(options).validated_parameters
    return options, LAUNCHER.plan(program(options=options), make_hosts(count, gpus))


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("gpus", [0, 1, 8])
@pytest.mark.parametrize(
    ("options", "cycle_time", "fusion_threshold"),
    [({}, "0.5", "67108864"), ({"cycle_time": "3.5", "fusion_threshold": 0}, "3.5", "0")],
)
def test_processes_are_those_of_mpi_with_horovods_settings(count, gpus, options, cycle_time, fusion_threshold):
    options, processes = plan(count, gpus, **options)
    settings = {
        "HOROVOD_CYCLE_TIME": cycle_time,
        "HOROVOD_FUSION_THRESHOLD": fusion_threshold,
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "^openib",
        "NCCL_DEBUG": "INFO",
    }
    expected = mpi.LAUNCHER.plan(program(options=options), make_hosts(count, gpus))
    assert processes == [process._replace(environment={**process.environment, **settings}) for process in expected]


def test_mpirun_has_the_options_that_mpi_has():
    argv = plan(1, 0, mpirun="/opt/amazon/openmpi/bin/mpirun", arguments=["--timestamp-output"])[1][0].argv
    assert argv[0] == "/opt/amazon/openmpi/bin/mpirun"
    assert "--timestamp-output" in argv
