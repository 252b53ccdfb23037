"""Later runs use the modules that Ansible has built, as long as their files are the same and nobody else could have written them."""

from __future__ import annotations

import base64
import io
import json
import os
import pickle
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible import constants
from ansible_collections.deeplearning.cluster.plugins.module_utils._common import kept_modules
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import built_modules

FILE = "ansible_collections.deeplearning.cluster.plugins.modules.sge_info-ZIP_DEFLATED-none"
SHORT_FILE = FILE.replace("DEFLATED", "STORED")


@dataclass
class Built:
    """A module as Ansible keeps it for the rest of a run."""

    zip_data: bytes


def module_of(text: str) -> bytes:
    """Return a module that prints a text."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        path = "from pkgutil import extend_path\n__path__ = extend_path(__path__, __name__)\n"
        archive.writestr("ansible/__init__.py", f"name = {text!r}\n{path}")
        archive.writestr("ansible/module.py", f"print({text!r})\n")
    return pickle.dumps(Built(base64.b64encode(content.getvalue())))


def payload(file: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(base64.b64decode(pickle.loads(file.read_bytes()).zip_data)))


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """The folder for modules."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(built_modules, "digest", lambda: "digest")
    return tmp_path / "cache" / "deeplearning.cluster" / "modules" / "digest"


@pytest.fixture
def is_built(tmp_path, monkeypatch):
    """Simulate a run of Ansible, and return whether it has built the module."""

    def run(name: str) -> bool:
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(folder))
        with built_modules.kept_module("deeplearning.cluster.sge_info"):
            there = (folder / "ansiballz_cache" / FILE).exists()
            if not there:
                (folder / "ansiballz_cache" / FILE).write_bytes(module_of(name))
        return not there

    return run


def test_ansible_uses_the_module_of_an_earlier_run(tmp_path):
    environment = {**os.environ, "ANSIBLE_DEBUG": "1"}
    command = [
        sys.executable,
        "-m",
        "ansible",
        "adhoc",
        "-i",
        "localhost,",
        "-c",
        "local",
        "localhost",
        "-m",
        "deeplearning.cluster.sge_info",
    ]
    first, second = (subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout for _run in range(2))
    assert "ANSIBALLZ: Creating module" in first
    assert "ANSIBALLZ: using cached module" in second
    assert "ANSIBALLZ: Creating module" not in second
    assert {path.name for path in (tmp_path / "cache").glob("*/*/*/*")} == {FILE, SHORT_FILE}


def test_modules_of_other_files_are_not_used_and_deleted_after_a_week(is_built, kept, monkeypatch):
    assert is_built("first")
    assert not is_built("second")
    monkeypatch.setattr(built_modules, "digest", lambda: "other")
    assert is_built("third")
    assert b"first" in payload(kept / FILE).read("ansible/__init__.py")
    os.utime(kept, (0, time.time() - 8 * 24 * 3600))
    monkeypatch.setattr(built_modules, "digest", lambda: "latest")
    assert is_built("fourth")
    assert sorted(each.name for each in kept.parent.iterdir()) == ["latest", "other"]


def test_the_digest_changes_with_files_that_modules_import(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(built_modules, "PLUGINS", tmp_path)
    file = tmp_path / "module_utils" / "a.py"
    file.parent.mkdir()
    digests = []
    for text in ("a = 1\n", "a = 12\n"):
        file.write_text(text)
        digests.append(built_modules.digest.__wrapped__())
    os.utime(file, (0, 0))
    assert len({*digests, built_modules.digest.__wrapped__()}) == 3


def test_a_folder_to_which_others_can_write_is_not_used(is_built, kept):
    assert is_built("first")
    kept.chmod(0o770)
    assert is_built("second")


def test_the_folder_of_another_user_is_not_used(is_built, monkeypatch):
    assert is_built("first")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert is_built("second")


def test_no_unfinished_file_is_left_if_the_disk_is_full(is_built, kept, monkeypatch):
    def full(*_arguments, **_options):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert is_built("first")
    assert os.listdir(kept) == []


def test_ansible_builds_modules_if_the_folder_cannot_be_created(is_built, tmp_path):
    Path(tmp_path, "cache").write_text("a file")
    assert is_built("first")
    assert is_built("second")


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Run a version of a module, as on a host, and return what it prints."""
    folder = tmp_path / "host" / "modules"
    monkeypatch.setattr(kept_modules, "FOLDER", str(folder))

    def run(version: str, text: str = "ran") -> str:
        file = tmp_path / "module.zip"
        file.write_bytes(base64.b64decode(pickle.loads(built_modules.versions("sge_info", module_of(text))[version]).zip_data))
        code = f"import os, sys; os.umask(0o77); sys.path.insert(0, {str(file)!r}); import ansible.module; assert os.umask(0) == 0o77"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    return run


def test_the_short_version_uses_what_the_whole_one_has_left_on_the_host(host, tmp_path):
    assert json.loads(host(built_modules.SHORT))["files_missing"]
    assert host(built_modules.WHOLE) == "ran\n"
    assert host(built_modules.SHORT) == "ran\n"
    (folder,) = (tmp_path / "host" / "modules").iterdir()
    assert (folder.stat().st_mode & 0o777, folder.parents[1].stat().st_mode & 0o777) == (0o700, 0o755)
    (folder / "ansible" / "module.py").write_text("print('kept')\n")
    assert host(built_modules.SHORT) == "kept\n"
    assert host(built_modules.WHOLE) == "ran\n"
    assert json.loads(host(built_modules.SHORT, "of another version"))["files_missing"]


def test_files_of_other_versions_are_deleted_after_a_day_or_if_there_are_two(host, tmp_path):
    folder = tmp_path / "host" / "modules"
    for name, hours in (("sge_info-old", 25), ("sge_info-recent", 2), ("sge_info-new", 1), ("sge-old", 25)):
        (folder / name).mkdir(parents=True)
        os.utime(folder / name, (0, time.time() - hours * 3600))
    assert host(built_modules.WHOLE) == "ran\n"
    (own,) = {each.name for each in folder.iterdir()} - {"sge_info-new", "sge-old"}
    os.utime(folder / own, (0, 0))
    assert host(built_modules.SHORT) == "ran\n"
    assert (folder / own).stat().st_mtime > time.time() - 60, "the use counts"


@pytest.mark.parametrize("writable", ["modules", "files"])
def test_files_that_others_could_have_written_are_not_used(host, tmp_path, writable):
    assert host(built_modules.WHOLE) == "ran\n"
    folder = tmp_path / "host" / "modules"
    (files,) = folder.iterdir()
    (folder if writable == "modules" else files).chmod(0o777)
    assert json.loads(host(built_modules.SHORT))["files_missing"]
    files.rename(folder / "sge_info-other")
    assert host(built_modules.WHOLE) == "ran\n"
    assert len(list(folder.iterdir())) == (1 if writable == "modules" else 2)


def test_files_are_not_kept_if_the_memory_is_nearly_full(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_modules, "FREE", 1.1)
    kept_modules.keep(str(tmp_path / "modules" / "sge_info-1"))
    assert list((tmp_path / "modules").iterdir()) == []


@pytest.mark.parametrize("obstacle", ["file", "kept"])
def test_a_host_that_cannot_keep_the_files_runs_the_module(host, tmp_path, obstacle):
    folder = tmp_path / "host" / "modules"
    if obstacle == "kept":
        host(built_modules.WHOLE)
    else:
        folder.parent.write_text("")
    assert host(built_modules.WHOLE) == "ran\n"
    assert obstacle == "file" or len(list(folder.iterdir())) == 1
