"""Tests of the message about a job that does not exist."""

from __future__ import annotations

import os

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.listing import no_job


def test_a_job_that_does_not_exist_is_answered_with_those_that_do(tmp_path):
    start, end = (
        f"training_job_name: there is no job 'digits-2' in {tmp_path}. ",
        " To list the jobs, run: ansible-playbook deeplearning.cluster.status",
    )
    assert no_job("digits-2", str(tmp_path)) == f"{start}There are no jobs yet.{end}"
    for number, name in enumerate(("bert-1", "bert-2", "Not a job", ".hidden")):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (number, number))
    assert no_job("digits-2", str(tmp_path)) == f"{start}The newest jobs are bert-2, bert-1.{end}"
    (tmp_path / "digits-1").mkdir()
    assert no_job("digits-2", str(tmp_path)) == f"{start}Did you mean digits-1?{end}"
    assert "There are no jobs yet." in no_job("digits-2", str(tmp_path / "nowhere"))
