"""Tests that the types of what modules return about a job match their documentation."""

from __future__ import annotations

import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import job_status
from ansible_collections.deeplearning.cluster.plugins.modules import training_job_info


def test_a_job_has_the_documented_keys():
    documented = yaml.safe_load(training_job_info.RETURN)["jobs"]["contains"]
    assert job_status.JobStatus.__annotations__.keys() - {"problems"} == documented.keys()
    assert job_status.Log.__annotations__.keys() == documented["logs"]["contains"].keys()
    assert job_status.ProcessStatus.__annotations__.keys() >= documented["processes"]["contains"].keys()
    assert job_status.Failure.__annotations__.keys() >= documented["failure"]["contains"].keys()
