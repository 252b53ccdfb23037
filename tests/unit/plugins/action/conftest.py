"""The output of actions that follow a job."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_watch


@pytest.fixture
def shown(monkeypatch):
    lines = []
    monkeypatch.setattr(job_watch.display, "display", lambda text, **_: lines.extend(text.split("\n")))
    monkeypatch.setattr(job_watch.time, "sleep", lambda seconds: None)
    return lines
