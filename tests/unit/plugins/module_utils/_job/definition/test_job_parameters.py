"""Tests of the checks of a job's options."""

from __future__ import annotations

import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition import job_parameters
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.refusal import RefusalError

from .parameters import parameters


@pytest.mark.parametrize(
    ("launcher", "options", "message"),
    [
        (
            "torchrun",
            {"nproc_per_node": 8, "max_restart": 1, "min_hosts": "x"},
            "launcher_options: torchrun has no option 'max_restart'. Remove it. torchrun has no option 'nproc_per_node'. Set "
            "training_job_processes_per_host in its place. The options of torchrun are max_restarts, min_hosts. argument 'min_hosts'",
        ),
        ("torchrun", {"nproc-per-node": 8}, "has no option 'nproc-per-node'. Set training_job_processes_per_host in its place."),
        ("jax", {"x": 1}, "launcher_options: jax has no option 'x'. Remove it. jax has no options."),
    ],
)
def test_all_wrong_options_of_a_launcher_are_named_together(launcher, options, message):
    with pytest.raises(RefusalError, match=re.escape(message)):
        job_parameters.find_launcher({"launcher": launcher, "launcher_options": options})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a b"}, "name: 'a b' is not"),
        ({"resume": "a b"}, "resume: 'a b' is not"),
        ({"script": ""}, "script: missing. Specify the training script, or a command."),
        ({"launcher": "x"}, "launcher: 'x' is unknown. Use one of command, deepspeed, horovod, jax, mpi, mxnet, tensorflow, torchrun."),
        ({"queue": "x"}, "queue: 'x' is unknown. Use one of sge, slurm, yarn."),
        ({"host_count": 2}, "host_count: 2 has no effect without a queue. Set queue, or remove this option."),
    ],
)
def test_options_that_cannot_be_used_are_refused(changes, message):
    with pytest.raises((RefusalError, ValueError), match=f"^{re.escape(message)}"):
        job_parameters.check(parameters(**changes))


def test_options_that_belong_together_are_accepted():
    job_parameters.check(parameters(queue="slurm", host_count=2, resume="bert"))
    job_parameters.check(parameters(script="", command=["true"], reboot=True))


def test_options_of_a_launcher_get_their_defaults():
    params = {"launcher": "torchrun", "launcher_options": {"min_hosts": 2}}
    job_parameters.find_launcher(params)
    assert params["launcher_options"] == {"min_hosts": 2, "max_restarts": 0}
