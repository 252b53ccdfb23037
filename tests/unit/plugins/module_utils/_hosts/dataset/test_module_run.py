"""Tests of the directories in which a data set may be staged."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset.source import DataError
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import module_run


def test_shared_storage_has_to_be_mounted():
    module_run.refuse_own_disk("shared", "/proc/self/datasets/new")
    module_run.refuse_own_disk("local", "/no-such-folder/datasets")
    with pytest.raises(DataError, match="/no-such-folder/datasets is on the host's own disk"):
        module_run.refuse_own_disk("shared", "/no-such-folder/datasets")
