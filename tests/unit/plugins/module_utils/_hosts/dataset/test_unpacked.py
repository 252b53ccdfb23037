"""Tests of archives whose authors try to read or write outside the data set."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import s3, stager, tools, unpacked
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.source import DataError

KEY = b"ssh-ed25519 AAAA attacker"
PLAN = SimpleNamespace(name="set", source=SimpleNamespace(shown="s3://data/set", kind="url"), version="0" * 12)


def entry(name, content=b"", **attributes):
    """Return a tar archive entry and the content of the entry."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, content


def link(name, target):
    return entry(name, type=tarfile.SYMTYPE, linkname=str(target))


class Prepared:
    """A download in a partial folder, next to a home directory that must not change."""

    def __init__(self, folder):
        self.home = folder / "home"
        self.home.mkdir()
        (self.home / "keys").write_text("mine\n")
        (self.home / "folder").mkdir()
        self.places = stager.DatasetPaths(str(folder / "set"), str(folder / "partial"))
        self.spec = {"source": "s3://data/set", "unpack": True, "shards": [], "checksum": "", "destination": "local"}

    @property
    def data(self):
        return Path(self.places.data)

    def tar(self, path, *entries):
        target = Path(self.places.download, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(target, "w") as archive:
            for info, content in entries:
                archive.addfile(info, io.BytesIO(content))

    def file(self, path, content):
        target = Path(self.places.download, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    def stage(self):
        """Unpack and describe the data set as `stager.stage` does, and return its files."""
        files = stager._prepare(self.spec, self.places, SimpleNamespace(stage=lambda *_values: None))
        stager._describe(self.spec, PLAN, self.places.data, files)
        return dict(files)

    def untouched(self):
        tree = {str(path.relative_to(self.home)) for path in self.home.rglob("*")}
        return tree == {"keys", "folder"} and (self.home / "keys").read_text() == "mine\n"


@pytest.fixture
def prepared(tmp_path):
    return Prepared(tmp_path)


@pytest.mark.parametrize("name", [".dataset.files", ".dataset.json", ".dataset.shards"])
def test_a_link_in_place_of_a_description_is_refused(prepared, name):
    prepared.spec["shards"] = [1]
    prepared.tar("set.tar", link(name, prepared.home / ("folder" if name.endswith("shards") else "keys")), entry("a", b"12"))
    with pytest.raises(DataError, match="is a link"):
        prepared.stage()
    assert prepared.untouched()


def test_descriptions_in_archives_are_dropped(prepared):
    prepared.spec["shards"] = [1]
    prepared.tar(
        "set.tar",
        *(entry("a", b"12"), entry(".dataset.more", b"1"), entry(".dataset.shards/7/0", b"other")),
        *(link(name, "a") for name in (".dataset.files", ".dataset.json")),
    )
    assert prepared.stage() == {"a": 2}
    assert (prepared.data / "a").read_bytes() == b"12"
    assert (prepared.data / ".dataset.files").read_text() == "2\ta\n"
    assert os.listdir(prepared.data / ".dataset.shards") == ["1"]
    assert sorted(os.listdir(prepared.data)) == [".dataset.files", ".dataset.json", ".dataset.shards", "a"]


def test_links_of_a_staged_data_set_are_not_followed(prepared):
    prepared.data.mkdir(parents=True)
    (prepared.data / ".dataset.files").symlink_to(prepared.home / "keys")
    (prepared.data / ".dataset.json").symlink_to(prepared.home / "new")
    (prepared.data / ".dataset.shards").symlink_to(prepared.home / "folder")
    prepared.spec["shards"] = [1]
    stager._describe(prepared.spec, PLAN, prepared.places.data, [("a", 1)])
    assert prepared.untouched()
    assert (prepared.data / ".dataset.shards/1/0").read_text() == "a\n"


def test_a_list_of_files_that_is_a_link_is_not_read(prepared):
    prepared.data.mkdir(parents=True)
    (prepared.data / ".dataset.files").symlink_to(prepared.home / "keys")
    with pytest.raises(OSError, match="symbolic links"):
        stager._read(str(prepared.data / ".dataset.files"))


@pytest.mark.parametrize(
    "entries",
    [
        [link("x", "/etc")],
        [link("x", "..")],
        [link("x", "../home")],
        [entry("a", type=tarfile.DIRTYPE, mode=0o755), link("a/x", "../../home")],
        # The target seems to be inside the archive, but the path leads outside, because p/s is a link to the archive's top folder.
        [entry("p", type=tarfile.DIRTYPE, mode=0o755), link("p/s", ".."), link("t", "p/s/../home")],
        [entry("hidden", type=tarfile.DIRTYPE, mode=0o755), link("hidden/x", "/etc"), entry("hidden", type=tarfile.DIRTYPE, mode=0)],
    ],
    ids=["absolute", "parent", "beside", "deep", "through-link", "unreadable-folder"],
)
def test_a_link_out_of_the_archive_is_refused(prepared, entries):
    prepared.tar("set.tar", entry("a-file", b"1"), *entries)
    with pytest.raises(DataError, match=r"set\.tar: .* is a link to .*, which may lead out of the data set\. Remove"):
        prepared.stage()
    assert not os.path.lexists(prepared.data)
    assert prepared.untouched()
    assert os.listdir(prepared.places.partial) == ["download"]


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (entry("train\n" + KEY.decode(), b""), "control characters"),
        (entry("a\x1b[2J", b""), "control characters"),
        (entry("caf\udce9", b""), "not UTF-8"),
        (entry("pipe", type=tarfile.FIFOTYPE), "neither a file"),
    ],
    ids=["newline", "escape", "latin-1", "fifo"],
)
def test_what_a_data_set_cannot_contain_is_refused(prepared, bad, what):
    prepared.tar("set.tar", bad)
    with pytest.raises(DataError, match=rf"set\.tar: .*{what}"):
        prepared.stage()
    assert not os.path.lexists(prepared.data)


def test_links_inside_an_archive_are_kept(prepared):
    prepared.tar("set.tar", entry("a/file", b"12"), link("a/same", "./file"), link("b", "a"), link("a/up", "../a/file"))
    assert prepared.stage() == {"a/file": 2, "a/same": 2, "a/up": 2}
    assert os.readlink(prepared.data / "b") == "a"


@pytest.mark.parametrize("second", ["tar", "zip", "file"])
def test_a_later_archive_does_not_write_through_a_link_of_an_earlier_one(prepared, second):
    prepared.tar("a.tar", entry("real/file", b"1"), link("x", "real"))
    if second == "tar":
        prepared.tar("x/b.tar", entry("file", KEY))
    elif second == "zip":
        prepared.file("x/b.zip", b"")
        with zipfile.ZipFile(Path(prepared.places.download, "x/b.zip"), "w") as archive:
            archive.writestr("file", KEY)
    else:
        prepared.file("x/file", KEY)
    with pytest.raises(DataError, match="x: is a folder in one part of the data set, but not in another"):
        prepared.stage()
    assert (prepared.data / "real/file").read_bytes() == b"1"


def test_a_folder_of_a_later_archive_does_not_follow_a_link_of_an_earlier_one(prepared):
    prepared.tar("a.tar", entry("real/file", b"1"), link("x", "real"))
    prepared.tar("b.tar", entry("x/file", KEY))
    with pytest.raises(DataError, match="x: is a folder in one part"):
        prepared.stage()
    assert (prepared.data / "real/file").read_bytes() == b"1"


def test_a_link_that_an_interrupted_run_left_is_not_followed(prepared):
    prepared.data.mkdir(parents=True)
    (prepared.data / "x").symlink_to(prepared.home)
    prepared.tar("x/b.tar", entry("keys", KEY))
    with pytest.raises(DataError, match="x: is a folder"):
        prepared.stage()
    assert prepared.untouched()


def test_archives_share_folders(prepared):
    prepared.tar("a.tar", entry("train/1", b"1"), entry("both/1", b"1"), entry("same", b"old"))
    prepared.tar("b.tar", entry("test/2", b"22"), entry("both/2", b"22"), entry("same", b"newer"))
    prepared.tar("both/c.tar", entry("3", b"333"))
    prepared.file("both/4", b"4444")
    assert prepared.stage() == {"train/1": 1, "test/2": 2, "both/1": 1, "both/2": 2, "both/3": 3, "both/4": 4, "same": 5}
    assert not os.path.exists(os.path.join(prepared.places.partial, "unpacked"))


def test_read_only_folders_can_be_moved_and_setuid_bits_are_removed(prepared):
    prepared.tar("set.tar", entry("a", type=tarfile.DIRTYPE, mode=0o555), entry("a/program", b"1", mode=0o6755))
    prepared.tar("b.tar", entry("other", b"1"))
    assert prepared.stage() == {"a/program": 1, "other": 1}
    assert (prepared.data / "a/program").stat().st_mode & 0o7777 == 0o755


def test_an_upload_follows_no_links_and_lacks_no_file(prepared, monkeypatch):
    copied = []
    monkeypatch.setattr(s3, "copy", lambda _access, *arguments, **_options: copied.append(arguments))
    prepared.spec.update(destination="s3://bucket/set", region=None)
    prepared.tar("set.tar", entry("file", b"12"), link("same", "file"), link("loop", "."), link("nothing", "missing"))
    assert prepared.stage() == {"file": 2, "same": 2}
    assert not (prepared.data / "same").is_symlink()
    monkeypatch.setattr(stager, "_mark_incomplete", lambda *_arguments: True)
    stager._upload(prepared.spec, PLAN, prepared.places, SimpleNamespace(moved=lambda _stage: None))
    assert "--no-follow-symlinks" in copied[0]


def test_links_to_files_of_other_archives_are_not_uploaded(prepared):
    """Each archive may be small, but an upload would contain a copy of the file for each link."""
    prepared.spec.update(destination="s3://bucket/set", region=None)
    prepared.tar("a.tar", link("one", "file"), link("two", "file"))
    prepared.tar("b.tar", entry("file", b"12"))
    with pytest.raises(DataError, match=r"^dataset_unpack: 'one' is a link to a file that is not in the same archive"):
        prepared.stage()


@pytest.mark.parametrize(
    ("name", "target", "inside"),
    [
        ("a", "b", True),
        ("a", "./b//c/.", True),
        ("a/b", "../c", True),
        ("a/b/c", "../../d/e", True),
        ("a", "..", False),
        ("a/b", "../..", False),
        ("a/b", "./../../c", False),
        ("a", "/b", False),
        ("a/b", "c/../d", False),
        ("a/b", "../c/..", False),
    ],
)
def test_links_that_stay_inside(name, target, inside):
    assert unpacked.stays_inside(name, target) is inside


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
    monkeypatch.setattr(tools, "ALWAYS_UNPACKED", 1 << 24)
    bomb(tmp_path / name, 1 << 27)
    with pytest.raises(DataError, match=rf"^dataset_unpack: {name} contains more than 2\d\.\d MiB, which is more than 200 times its size"):
        tools.unpack(str(tmp_path / name), str(tmp_path / "folder"), name)
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("name", ["zeros.zip", "zeros.tar.gz"])
def test_other_archives_with_zeros_are_unpacked(tmp_path, name):
    bomb(tmp_path / name, 1 << 25)
    tools.unpack(str(tmp_path / name), str(tmp_path / "folder"), name)
    assert (tmp_path / "folder/zeros").stat().st_size == 1 << 25


def test_many_empty_files_count(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "ALWAYS_UNPACKED", 1 << 16)
    monkeypatch.setattr(tools, "RATIO", 1)
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for number in range(1000):
            archive.writestr(str(number), b"")
    with pytest.raises(DataError, match="contains more than"):
        tools.unpack(str(tmp_path / "many.zip"), str(tmp_path / "folder"), "many.zip")


@pytest.mark.parametrize("kind", ["sparse", "symbolic", "hard"])
def test_sparse_files_and_links_count_with_the_size_that_readers_see(tmp_path, monkeypatch, kind):
    """An upload to S3 contains all zeros of a sparse file, and a copy of the file for each link to it."""
    monkeypatch.setattr(tools, "ALWAYS_UNPACKED", 1 << 24)
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
        tools.unpack(str(tmp_path / "set.tar"), str(tmp_path / "folder"), "set.tar")
    assert not (tmp_path / "folder").exists()


def test_an_error_about_a_name_like_a_checkpoint_is_reported(prepared):
    name = "deeplearning checkpoint 5"
    prepared.tar("set.tar", entry(name, type=tarfile.DIRTYPE, mode=0o755), entry(f"{name}/x", b"1"), entry(name, b"1"))
    with pytest.raises(DataError, match=rf"cannot be unpacked: tar: {name}: Cannot open"):
        prepared.stage()


def test_a_zip_file_larger_than_the_free_space_is_not_unpacked(tmp_path, monkeypatch):
    bomb(tmp_path / "set.zip", 1 << 25)
    disk = {"f_frsize": 4096, "f_blocks": 1 << 14, "f_bavail": 1 << 13, "f_files": 1 << 20, "f_favail": 1 << 19}
    monkeypatch.setattr(tools.os, "statvfs", lambda _path: SimpleNamespace(**disk))
    monkeypatch.setattr(zipfile.ZipFile, "extractall", lambda *_arguments: pytest.fail("would fill the file system"))
    with pytest.raises(DataError, match=r"^dataset_unpack: set.zip cannot be unpacked: the file system of .* is almost full"):
        tools.unpack(str(tmp_path / "set.zip"), str(tmp_path / "folder"), "set.zip")


def test_a_file_system_without_a_number_of_files_is_not_full(tmp_path, monkeypatch):
    bomb(tmp_path / "set.zip", 1 << 10)
    disk = {"f_frsize": 4096, "f_blocks": 1 << 14, "f_bavail": 1 << 13, "f_files": 0, "f_favail": 0}
    monkeypatch.setattr(tools.os, "statvfs", lambda _path: SimpleNamespace(**disk))
    tools.unpack(str(tmp_path / "set.zip"), str(tmp_path / "folder"), "set.zip")


@pytest.mark.parametrize("name", ["set.zip", "set.tar.gz"])
@pytest.mark.parametrize("scarce", ["f_bavail", "f_favail"])
def test_unpacking_leaves_free_space_to_others(tmp_path, monkeypatch, name, scarce):
    bomb(tmp_path / name, 1 << 25)
    disk = {"f_frsize": 4096, "f_blocks": 1 << 30, "f_bavail": 1 << 29, "f_files": 1 << 20, "f_favail": 1 << 19, scarce: 1 << 10}
    monkeypatch.setattr(tools.os, "statvfs", lambda _path: SimpleNamespace(**disk))
    with pytest.raises(DataError, match=rf"^dataset_unpack: {name} cannot be unpacked: the file system of .* is almost full"):
        tools.unpack(str(tmp_path / name), str(tmp_path / "folder"), name)
    assert not (tmp_path / "folder").exists()
