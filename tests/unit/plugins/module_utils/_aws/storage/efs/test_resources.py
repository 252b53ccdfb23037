"""Tests that check which states of EFS file systems the code waits for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs import definition
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs import resources as file_system_resources


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (file_system_resources.KINDS[0], {"FileSystems": [{"LifeCycleState": "error"}]}),
        (file_system_resources.KINDS[3], {"MountTargets": [{"LifeCycleState": "error"}]}),
    ],
)
def test_a_state_that_never_passes_is_not_waited_for(kind, answer):
    class AwsClient:
        def client(self, _service):
            return SimpleNamespace(describe_file_systems=None, describe_mount_targets=None)

        def once_visible(self, *_call, **_arguments):
            return answer

        def wait_until(self, _what, probe, timeout):
            return probe()

    with pytest.raises(ClusterError, match=r"fs-1 is in the state 'error' and cannot recover. Delete it, and run again"):
        kind.settle(AwsClient(), Found(definition.FILE_SYSTEM, "fs-1"))
