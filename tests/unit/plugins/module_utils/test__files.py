"""Files are replaced atomically, and nothing is left behind after an error."""

from __future__ import annotations

import contextlib
import errno
import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils import _files
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing import cache
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.staging_progress import StagingProgress
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_setup import runner
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report import publish
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records

WRITERS = {
    "record": lambda folder: records.write_json(f"{folder}/rank0.json", {}),
    "verdict": lambda folder: records.write_new_json(f"{folder}/over", {"not JSON": b""}),
    "progress of staging": lambda folder: StagingProgress(f"{folder}/progress.json").stage("examining"),
    "step": lambda folder: runner.write_json(f"{folder}/step.json", {}),
    "report": lambda folder: publish.put(__file__, str(folder), check_mode=False),
    "prices": lambda folder: cache.write(folder / "prices.json", {}),
}


def full(*_arguments, **_options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(params=[0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o400])
def test_a_file_is_replaced_with_the_given_permissions(tmp_path, mode):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o666)
    with path.open() as reader:
        _files.replace_file(path, b"new", mode)
        assert reader.read() == "old"
    assert (path.read_text(), path.stat().st_mode & 0o777, os.listdir(tmp_path)) == ("new", mode, ["file"])


def test_only_a_complete_file_has_the_name_and_others_cannot_read_it_before(tmp_path):
    with _files.replacing(tmp_path / "file") as file:
        file.write(b"new")
        (unfinished,) = tmp_path.iterdir()
        assert (unfinished.name[:6], unfinished.stat().st_mode & 0o777) == (".file.", 0o600)
    assert (tmp_path / "file").read_text() == "new"


def test_a_link_in_place_of_the_unfinished_file_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(_files.os, "urandom", bytes)
    (tmp_path / "victim").write_text("kept")
    (tmp_path / f".file.{'00' * 8}").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        _files.replace_file(tmp_path / "file", b"new")
    assert (tmp_path / "victim").read_text() == "kept"


def test_the_file_is_in_the_open_directory_even_if_a_link_has_replaced_it(tmp_path):
    (tmp_path / "job").mkdir()
    (tmp_path / "victim").mkdir()
    directory = os.open(tmp_path / "job", os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "job").rename(tmp_path / "moved")
    (tmp_path / "job").symlink_to("victim")
    _files.replace_file("file", b"new", directory=directory)
    os.close(directory)
    assert ((tmp_path / "moved/file").read_text(), os.listdir(tmp_path / "victim")) == ("new", [])


def test_an_existing_file_is_no_new_file(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(FileExistsError), _files.replacing(tmp_path / "file", is_new=True) as file:
        file.write(b"new")
    assert ((tmp_path / "file").read_text(), os.listdir(tmp_path)) == ("old", ["file"])


def test_an_unfinished_file_is_deleted_if_the_process_is_interrupted(tmp_path):
    with pytest.raises(KeyboardInterrupt), _files.replacing(tmp_path / "file"):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_no_writer_leaves_an_unfinished_file_after_an_error(tmp_path, monkeypatch, write):
    for name in ("replace", "link"):
        monkeypatch.setattr(os, name, full)
    with contextlib.suppress(OSError, TypeError):
        write(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "found"), [('{"a": "ä"}'.encode(), {"a": "ä"}), (b"[1]", {}), (b'{"a": ', {}), (b'{"a": "\xff"}', {}), (b"", {})]
)
def test_a_damaged_file_contains_nothing(tmp_path, content, found):
    (tmp_path / "file").write_bytes(content)
    assert _files.read_object(str(tmp_path / "file")) == found
    assert _files.read_object(str(tmp_path / "none")) == {}
