"""Tests of archives that are out of proportion or would fill the disk."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset.source import DataError
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import (
    archives,
    free_space,
)


def bomb(path, size):
    """Write an archive of one file of this many zeros."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("zeros", bytes(size))
        return
    info = tarfile.TarInfo("zeros")
    info.size = size
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(info, io.BytesIO(bytes(size)))


@pytest.mark.parametrize("name", ["bomb.zip", "bomb.tar.gz"])
def test_an_archive_that_grows_out_of_proportion_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(archives, "ALWAYS_UNPACKED", 1 << 24)
    bomb(tmp_path / name, 1 << 27)
    with pytest.raises(DataError, match=rf"^dataset_unpack: {name} contains more than 2\d\.\d MiB, which is more than 200 times its size"):
        archives.unpack(str(tmp_path / name), str(tmp_path / "folder"), name)
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("name", ["zeros.zip", "zeros.tar.gz"])
def test_other_archives_with_zeros_are_unpacked(tmp_path, name):
    bomb(tmp_path / name, 1 << 25)
    archives.unpack(str(tmp_path / name), str(tmp_path / "folder"), name)
    assert (tmp_path / "folder/zeros").stat().st_size == 1 << 25


def test_many_empty_files_count(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "ALWAYS_UNPACKED", 1 << 16)
    monkeypatch.setattr(archives, "RATIO", 1)
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for number in range(1000):
            archive.writestr(str(number), b"")
    with pytest.raises(DataError, match="contains more than"):
        archives.unpack(str(tmp_path / "many.zip"), str(tmp_path / "folder"), "many.zip")


@pytest.mark.parametrize("kind", ["sparse", "symbolic", "hard"])
def test_sparse_files_and_links_count_with_the_size_that_readers_see(tmp_path, monkeypatch, kind):
    """An upload to S3 contains all zeros of a sparse file, and a copy of the file for each link to it."""
    monkeypatch.setattr(archives, "ALWAYS_UNPACKED", 1 << 24)
    (tmp_path / "source").mkdir()
    with (tmp_path / "source/file").open("wb") as file:
        file.truncate(1 << 40 if kind == "sparse" else 1 << 20)
    for number in range(0 if kind == "sparse" else 20):
        if kind == "hard":
            os.link(tmp_path / "source/file", tmp_path / f"source/{number}")
        else:
            (tmp_path / f"source/{number}").symlink_to("file")
    subprocess.run(["tar", "--sparse", "-cf", "set.tar", "-C", "source", "."], cwd=tmp_path, check=True)
    with pytest.raises(DataError, match=r"^dataset_unpack: set.tar contains more than 16.0 MiB"):
        archives.unpack(str(tmp_path / "set.tar"), str(tmp_path / "folder"), "set.tar")
    assert not (tmp_path / "folder").exists()


def test_a_zip_file_larger_than_the_free_space_is_not_unpacked(tmp_path, monkeypatch):
    bomb(tmp_path / "set.zip", 1 << 25)
    disk = {"f_frsize": 4096, "f_blocks": 1 << 14, "f_bavail": 1 << 13, "f_files": 1 << 20, "f_favail": 1 << 19}
    monkeypatch.setattr(free_space.os, "statvfs", lambda _path: SimpleNamespace(**disk))
    monkeypatch.setattr(zipfile.ZipFile, "extractall", lambda *_arguments: pytest.fail("would fill the file system"))
    with pytest.raises(DataError, match=r"^dataset_unpack: set.zip cannot be unpacked: the file system of .* is almost full"):
        archives.unpack(str(tmp_path / "set.zip"), str(tmp_path / "folder"), "set.zip")


def test_a_file_system_without_a_number_of_files_is_not_full(tmp_path, monkeypatch):
    bomb(tmp_path / "set.zip", 1 << 10)
    disk = {"f_frsize": 4096, "f_blocks": 1 << 14, "f_bavail": 1 << 13, "f_files": 0, "f_favail": 0}
    monkeypatch.setattr(free_space.os, "statvfs", lambda _path: SimpleNamespace(**disk))
    archives.unpack(str(tmp_path / "set.zip"), str(tmp_path / "folder"), "set.zip")


@pytest.mark.parametrize("name", ["set.zip", "set.tar.gz"])
@pytest.mark.parametrize("scarce", ["f_bavail", "f_favail"])
def test_unpacking_leaves_free_space_to_others(tmp_path, monkeypatch, name, scarce):
    bomb(tmp_path / name, 1 << 25)
    disk = {"f_frsize": 4096, "f_blocks": 1 << 30, "f_bavail": 1 << 29, "f_files": 1 << 20, "f_favail": 1 << 19, scarce: 1 << 10}
    monkeypatch.setattr(free_space.os, "statvfs", lambda _path: SimpleNamespace(**disk))
    with pytest.raises(DataError, match=rf"^dataset_unpack: {name} cannot be unpacked: the file system of .* is almost full"):
        archives.unpack(str(tmp_path / name), str(tmp_path / "folder"), name)
    assert not (tmp_path / "folder").exists()
