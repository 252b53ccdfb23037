"""Tests of the end of a supervisor's descendants."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import descendant_processes


def test_processes_that_cannot_be_ended_are_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(descendant_processes, "descendants", lambda: [2**22 + 1])  # more than pid_max
    assert not descendant_processes.end_descendants(patience=0.2)
