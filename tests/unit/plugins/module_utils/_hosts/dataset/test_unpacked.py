"""Tests of archives whose authors try to read or write outside the data set."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset import layout
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset.source import DataError
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import file_lists, s3, s3_destination, stager, unpacked

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
        self.places = layout.DatasetPaths(str(folder / "set"), str(folder / "partial"))
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
        file_lists.describe(self.spec, PLAN, self.places.data, files)
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
    file_lists.describe(prepared.spec, PLAN, prepared.places.data, [("a", 1)])
    assert prepared.untouched()
    assert (prepared.data / ".dataset.shards/1/0").read_text() == "a\n"


def test_a_list_of_files_that_is_a_link_is_not_read(prepared):
    prepared.data.mkdir(parents=True)
    (prepared.data / ".dataset.files").symlink_to(prepared.home / "keys")
    with pytest.raises(OSError, match="symbolic links"):
        layout.read_text(str(prepared.data / ".dataset.files"))


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
    monkeypatch.setattr(s3_destination, "mark_incomplete", lambda *_arguments: True)
    s3_destination.upload(prepared.spec, PLAN, prepared.places, SimpleNamespace(moved=lambda _stage: None))
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


def test_an_error_about_a_name_like_a_checkpoint_is_reported(prepared):
    name = "deeplearning checkpoint 5"
    prepared.tar("set.tar", entry(name, type=tarfile.DIRTYPE, mode=0o755), entry(f"{name}/x", b"1"), entry(name, b"1"))
    with pytest.raises(DataError, match=rf"cannot be unpacked: tar: {name}: Cannot open"):
        prepared.stage()


class RawName(zipfile.ZipInfo):
    """An entry of a zip archive whose name is UTF-8. Without `is_marked`, the archive does not say so."""

    __slots__ = ("is_marked",)

    def _encodeFilenameFlags(self):  # noqa: N802
        return self.filename.encode(), 0x800 * self.is_marked


def zip_entry(name, content=b"", mode=0, system=3, utf8=True):
    """Return an entry of a zip archive and its content."""
    info = RawName("x")
    info.is_marked = utf8
    info.create_system, info.external_attr = system, mode << 16
    info.filename = info.orig_filename = name
    return info, content


def write_zip(prepared, *entries):
    target = Path(prepared.places.download, "set.zip")
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w") as archive:
        for info, content in entries:
            archive.writestr(info, content)


def test_a_zip_keeps_links_and_permissions(prepared):
    write_zip(
        prepared,
        zip_entry("a.bin", b"123456", 0o100644),
        zip_entry("b.bin", b"a.bin", 0o120777),
        zip_entry("run.sh", b"#!", 0o100755),
        zip_entry("private", b"1", 0o100600),
    )
    assert prepared.stage() == {"a.bin": 6, "b.bin": 6, "private": 1, "run.sh": 2}
    assert os.readlink(prepared.data / "b.bin") == "a.bin"
    modes = {path.name: path.stat().st_mode & 0o7777 for path in prepared.data.iterdir() if ".dataset" not in path.name}
    assert modes == {"a.bin": 0o644, "b.bin": 0o644, "run.sh": 0o755, "private": 0o644}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "entries",
    [
        [("out", b"../home", 0o120777)],
        [("out", b"/etc", 0o120777)],
        [("out", b"../home", 0o120777), ("out/keys", b"theirs", 0o100644)],
        [("out/keys", b"theirs", 0o100644), ("out", b"../home", 0o120777)],
        [("out", b"../home/keys", 0o120777), ("out", b"theirs", 0o120777), ("out", b"../home", 0o120777)],
        [("out", b"x" * 5000, 0o120777)],
    ],
)
def test_links_in_a_zip_do_not_lead_out(prepared, entries):
    write_zip(prepared, *(zip_entry(*each) for each in entries))
    with pytest.raises(DataError, match=r"set\.zip"):
        prepared.stage()
    assert prepared.untouched()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_in_place_of_an_earlier_link_of_a_zip_is_a_file(prepared):
    write_zip(prepared, zip_entry("a", b"b", 0o120777), zip_entry("a", b"content", 0o100644))
    assert prepared.stage() == {"a": 7}
    assert not (prepared.data / "a").is_symlink()


def test_zips_of_windows_and_macos_are_read_like_there(prepared):
    double = b"\x00\x05\x16\x07" + bytes(22)
    write_zip(
        prepared,
        zip_entry("train\\cat\\1.jpg", b"1", system=0),
        zip_entry("..\\..\\home\\keys", b"22", system=0),
        zip_entry("café.txt", b"333", utf8=False),
        zip_entry("back\\slash", b"4444", 0o100644),
        zip_entry("__MACOSX/train/._1.jpg", double, 0o100644),
        zip_entry("train/._2.jpg", double, 0o100644),
        zip_entry("train/._mine", b"", 0o100644),
    )
    expected = {"train/cat/1.jpg": 1, "home/keys": 2, "café.txt": 3, "back\\slash": 4, "train/._mine": 0}
    assert prepared.stage() == expected
    assert prepared.untouched()


def test_names_in_the_code_page_of_dos_stay(prepared):
    write_zip(prepared, zip_entry("x", b"1", system=0, utf8=False))
    archive = Path(prepared.places.download, "set.zip")
    archive.write_bytes(archive.read_bytes().replace(b"x", b"\x82", 2))  # é in code page 437
    assert prepared.stage() == {"é": 1}


def test_files_of_one_user_become_readable_for_the_users_of_jobs(prepared):
    prepared.tar("set.tar", entry("d", type=tarfile.DIRTYPE, mode=0o700), entry("d/a", b"1", mode=0o600), entry("d/run", b"1", mode=0o700))
    prepared.tar("other.tar", entry("none", b"1", mode=0), entry("all", b"1", mode=0o666))
    prepared.stage()
    modes = {name: (prepared.data / name).stat().st_mode & 0o7777 for name in ("d", "d/a", "d/run", "none", "all")}
    assert modes == {"d": 0o755, "d/a": 0o644, "d/run": 0o755, "none": 0o444, "all": 0o666}


@pytest.mark.parametrize("part", ["x.tar.gz.aa", "x.tar.ab", "x.zip.001", "sub/x.tgz.part1", "x.z01", "x.TAR.GZ.AA"])
def test_parts_of_split_archives_are_refused(prepared, part):
    prepared.tar("y.tar", entry("a", b"1"))
    prepared.file(part, b"half")
    with pytest.raises(DataError, match=rf"^dataset_unpack: '{part}' in s3://data/set is a part of a split archive\. Join the parts"):
        prepared.stage()


def test_other_files_beside_archives_are_kept(prepared):
    prepared.tar("y.tar", entry("a", b"1"))
    for name in ("y.tar.md5", "y.tar.sha256", "notes.gz", "a.zip.txt", "data.001", "b.tar.json"):
        prepared.file(name, b"1")
    assert len(prepared.stage()) == 7


def test_the_reason_for_an_error_of_tar_is_shown(prepared):
    prepared.file("set.tar.gz", b"\x1f\x8b broken")
    with pytest.raises(DataError, match=r"cannot be unpacked: gzip: stdin: .*\. Check that the file is a complete archive"):
        prepared.stage()
