"""Tests that the states of jobs match the schemas of files and the documentation."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import document_schemas, state_names
from ansible_collections.deeplearning.cluster.plugins.modules import training_job_info


@pytest.mark.parametrize("state", state_names.OF_JOBS)
def test_a_job_is_over_unless_it_is_pending_queued_or_running(state):
    assert state_names.is_over(state) == (state not in ("pending", "queued", "running"))


@pytest.mark.parametrize("state", state_names.OF_JOBS)
def test_verdicts_and_records_hold_the_states_that_they_can_have(state):
    assert document_schemas.VERDICT["state"].accepts(state) == state_names.is_over(state)
    assert document_schemas.RECORD["state"].accepts(state) == (state not in ("pending", "queued"))


def test_the_documentation_names_every_state():
    jobs = yaml.safe_load(training_job_info.RETURN)["jobs"]["contains"]
    assert jobs["state"]["choices"] == list(state_names.OF_JOBS)
    assert jobs["attempts"]["contains"]["state"]["choices"] == list(state_names.OF_JOBS)
    assert jobs["processes"]["contains"]["state"]["choices"] == list(state_names.OF_PROCESSES)
