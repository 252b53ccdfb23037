"""Tests of the checks that run before the processes of a job start on a host."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import launch, systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.refusal import RefusalError


@pytest.mark.parametrize(
    ("own", "other", "message"),
    [
        ({"gpus": [0, 1]}, {"gpus": [1, 2, 3]}, "job other uses GPU 1 of w1.*give each job its own gpus"),
        ({"gpus": [0, 1]}, {"gpus": [2, 3]}, None),
        ({"cwd": "/scratch/code"}, {"cwd": "/scratch/code"}, "job other runs in /scratch/code on w1.*its own sync_directory"),
        ({"cwd": "/scratch/code"}, {"cwd": "/scratch"}, "job other runs in /scratch on w1"),
        ({"cwd": "/scratch/code"}, {"cwd": "/scratch/code2"}, None),
    ],
)
def test_jobs_on_one_host_have_gpus_and_directories_of_their_own(paths, monkeypatch, own, other, message):
    beside = {"job": "other", "gpus": [], "cwd": "/efs/jobs/other/code", **other}
    monkeypatch.setattr(systemd, "other_jobs", lambda name: [beside])
    specs = [{"name": "rank0", "host": "w1", "gpus": [], "cwd": paths.code, **own}]
    if message is None:
        launch.check_place("digits", specs)
    else:
        with pytest.raises(RefusalError, match=message):
            launch.check_place("digits", specs)
