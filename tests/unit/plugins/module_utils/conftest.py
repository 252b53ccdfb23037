"""A fixture for a job."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records


@pytest.fixture
def paths(tmp_path):
    return records.Paths(str(tmp_path / "jobs/digits"))
