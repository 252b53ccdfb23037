"""Programs for hosts contain all that they import, and a host keeps those that it has compiled."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common import kept_modules
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import programs

MAIN = "_hosts.training_job.run.supervisor"


@pytest.fixture(autouse=True)
def no_program_in_memory():
    programs.compiled.cache_clear()


def test_compiled_programs_need_no_source_code(tmp_path):
    compiled = zipfile.ZipFile(io.BytesIO(programs.compiled(MAIN)))
    modules = [name for name in compiled.namelist() if name.endswith(".py")]
    assert compiled.namelist() == [*modules, *(f"{name}c" for name in modules)]
    program = tmp_path / "program.zip"
    with zipfile.ZipFile(program, "w") as archive:
        for name in compiled.namelist():
            archive.writestr(name, compiled.read(name) if name.endswith("c") else "no Python")
    done = subprocess.run([sys.executable, program, "run", tmp_path / "missing"], capture_output=True, text=True, check=False)
    assert "FileNotFoundError" in done.stderr, done


def test_a_host_that_keeps_the_modules_keeps_the_compiled_program(tmp_path, monkeypatch):
    folder = tmp_path / "training_job-0123456789abcdef"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    first = programs.compiled(MAIN)
    assert not list(folder.iterdir())
    monkeypatch.setattr(kept_modules, "FOLDER", str(tmp_path))
    programs.compiled.cache_clear()
    assert programs.compiled(MAIN) == first
    (kept,) = folder.iterdir()
    kept.write_bytes(b"kept")
    assert programs.compiled(MAIN) == first
    programs.compiled.cache_clear()
    assert programs.compiled(MAIN) == b"kept"


def test_without_space_the_program_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path / "missing"), *sys.path])
    monkeypatch.setattr(kept_modules, "FOLDER", str(tmp_path))
    assert programs.compiled(MAIN)
