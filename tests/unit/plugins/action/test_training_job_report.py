"""Tests that check how the controller processes a report."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.action.training_job_report import copy_command, write


def test_a_file_is_written_when_it_differs_and_not_in_check_mode(tmp_path):
    path = tmp_path / "reports" / "digits.html"
    assert write(str(path), b"one", check_mode=True)
    assert not path.parent.exists()
    assert [write(str(path), content, check_mode=False) for content in (b"one", b"one", b"two")] == [True, False, True]
    assert path.read_bytes() == b"two"


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({}, None),
        (
            {"deeplearning_ssh_directory": "/home/me/my ssh", "inventory_hostname": "demo-master"},
            "scp -r -F '/home/me/my ssh/config' demo-master:/efs/jobs/digits .",
        ),
    ],
)
def test_how_to_copy_the_job(variables, command):
    assert copy_command(variables, "/efs/jobs/digits") == command
