"""A fixture for a job."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories


@pytest.fixture
def paths(tmp_path):
    return directories.Paths(str(tmp_path / "jobs/digits"))
