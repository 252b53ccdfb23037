"""Imports the modules of an example in the same way as a script in the example's folder does."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture
def example(request, monkeypatch):
    """Return a function that imports a module of an example. The example's folder has the same name as the folder of the test."""
    folder = EXAMPLES / request.path.parent.name
    monkeypatch.syspath_prepend(str(folder))
    for path in folder.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    yield importlib.import_module
    for path in folder.glob("*.py"):
        sys.modules.pop(path.stem, None)
