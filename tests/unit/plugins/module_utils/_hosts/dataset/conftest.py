"""A fixture that stages a data set in the same way as the module."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import stager, staging_progress


@pytest.fixture
def stage(tmp_path):
    """Return a function that stages a data set with the given options in the same way as the module and returns the final progress."""

    def run(url, **options):
        spec = {
            "source": url,
            "sources": [],
            "destination": "local",
            "name": None,
            "directory": str(tmp_path / "datasets"),
            "checksum": "",
            "unpack": False,
            "region": None,
            "anonymous": False,
            "shards": [],
            "share": None,
            "upload": None,
            **options,
        }
        progress = tmp_path / "progress.json"
        stager.run(spec, staging_progress.StagingProgress(str(progress)))
        return json.loads(progress.read_text())

    return run
