"""Fixtures that the security tests share with the integration tests: an AWS account without hosts, and a function that runs modules."""

from __future__ import annotations

import pytest
from integration.conftest import _clients_are_made_once, _models_are_read_once, clients, cloud, definition, name, run

from .jobs import RECORD, Jobs

__all__ = ["_clients_are_made_once", "_models_are_read_once", "clients", "cloud", "definition", "name", "run"]


@pytest.fixture
def jobs(tmp_path):
    """A directory of jobs that contains one job."""
    found = Jobs(tmp_path / "jobs")
    found.add("honest", rank0=RECORD)
    return found
