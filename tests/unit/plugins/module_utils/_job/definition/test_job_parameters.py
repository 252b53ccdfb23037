"""Tests of the checks of a job's options."""

from __future__ import annotations

import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition import job_parameters
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.refusal import RefusalError


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


def test_options_of_a_launcher_get_their_defaults():
    params = {"launcher": "torchrun", "launcher_options": {"min_hosts": 2}}
    job_parameters.find_launcher(params)
    assert params["launcher_options"] == {"min_hosts": 2, "max_restarts": 0}
