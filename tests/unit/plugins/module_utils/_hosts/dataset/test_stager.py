"""Data sets: what a source is, how it is divided, and staging from a URL with all that can go wrong."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import http.server
import io
import json
import os
import signal
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.action.dataset import text
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import call, shares, source, stager, tools
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.background import Background
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.source import DataError
from local_cloud.testing import wait_until

# What a source is


@pytest.mark.parametrize(
    ("given", "kind", "name"),
    [
        ("s3://data/coco-2017.tar", source.S3, "coco-2017"),
        ("s3://data/train/", source.S3, "train"),
        ("s3://data", source.S3, "data"),
        ("https://example.org/sets/cifar-10.tar.gz?token=x", source.URL, "cifar-10"),
        ("https://example.org/my%20set.zip", source.URL, "my-set"),
        ("/data/imagenet/", source.PATH, "imagenet"),
    ],
)
def test_a_source_has_a_kind_and_a_name(given, kind, name):
    parsed = source.parse(given)
    assert (parsed.kind, source.name_of(parsed, None)) == (kind, name)
    assert "token" not in parsed.shown


@pytest.mark.parametrize("given", ["", "s3://", "data/train", "ftp://example.org/x", "https://example.org/"])
def test_what_is_no_source_is_refused(given):
    with pytest.raises(DataError, match=f"dataset_source is '{given}'"):
        source.parse(given)


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "x" * 101])
def test_names_stay_in_their_directory(name):
    with pytest.raises(DataError, match="dataset_name is"):
        source.name_of(source.parse("s3://data"), name)


@pytest.mark.parametrize("given", ["sha256", "sha256:12", "crc:" + "0" * 64, "sha256:" + "x" * 64])
def test_bad_checksums_are_refused(given):
    with pytest.raises(DataError, match="dataset_checksum is"):
        source.parse_checksum(given)


@pytest.mark.parametrize(
    ("given", "found", "single"),
    [
        ("s3://b/train", ["a", "sub/b"], False),
        ("s3://b/train/", ["a", "sub/b"], False),
        ("s3://b/train/a", ["a"], True),
        ("s3://b", ["train/.dataset.json", "train/a", "train/sub/b", "train2/c"], False),
    ],
)
def test_listed_objects_are_those_below_the_prefix(given, found, single):
    lines = ["0\te\ttrain/", "1\te\ttrain/a", "2\te\ttrain/sub/b", "3\te\ttrain2/c", "9\te\ttrain/.dataset.json", "None"]
    key = source.parse(given).key
    objects, is_single = source.listed([line for line in lines if line.rpartition("\t")[2].startswith(key)], source.parse(given))
    assert ([path for path, _size, _tag in objects], is_single) == (found, single)


# How it is divided

FILES = [(f"class{number % 7}/image-{number:04d}[x].jpg", 1 + number * 37 % 1000) for number in range(500)]


@pytest.mark.parametrize("count", [1, 3, 8, 600])
def test_shards_are_balanced_complete_and_the_same_everywhere(count):
    divided = shares.shards(FILES, count)
    assert sorted(file for shard in divided for file in shard) == sorted(FILES)
    assert divided == shares.shards(FILES[::-1], count)
    sizes = [sum(size for _path, size in shard) for shard in divided]
    assert max(sizes) - min(sizes) <= 1000


@pytest.mark.parametrize("files", [FILES, [("a", 5), ("ab", 5), ("abc", 5), ("b", 0)], [("one", 1)]], ids=["many", "nested", "one"])
@pytest.mark.parametrize("count", [2, 5])
def test_patterns_name_each_object_once(files, count):
    divided = shares.patterns(files, count)
    assert len(divided) == count
    for path, _size in files:
        assert sum(fnmatch.fnmatchcase(path, pattern) for share in divided for pattern in share) == 1
    if files is FILES:
        assert all(len(share) <= 12 for share in divided)
        sizes = [sum(size for path, size in files if any(fnmatch.fnmatchcase(path, each) for each in share)) for share in divided]
        assert max(sizes) < 1.5 * sum(sizes) / count


# What people see


@pytest.mark.parametrize(
    ("line", "bytes_"),
    [
        ("Completed 1.5 MiB/~20.0 MiB (2.1 MiB/s) with ~12 file(s) remaining (calculating...)", (1572864, 20971520)),
        ("Completed 7 Bytes/7 Bytes (88 Bytes/s) with 1 file(s) remaining", (7, 7)),
        ("download: s3://data/a to ./a", None),
    ],
)
def test_the_progress_of_the_aws_cli(line, bytes_):
    assert tools.completed_bytes(line) == bytes_


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ("An error occurred (AccessDenied) when calling the ListObjectsV2 operation: Access Denied", "deeplearning_read_buckets"),
        ("Unable to locate credentials", "instance profile"),
        ("An error occurred (NoSuchBucket): The specified bucket does not exist", "s3://data: .*does not exist"),
        ("", "without a word"),
    ],
)
def test_what_s3_refuses_is_explained(errors, message):
    with pytest.raises(DataError, match=message):
        raise DataError(tools.explain_s3(source.parse("s3://data"), errors))


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        ({"stage": "examining", "done": 0, "total": 0}, "examining"),
        ({"stage": "fetching", "done": 1 << 30, "total": 18 << 30}, "fetching 1.0 GiB of 18.0 GiB"),
        ({"stage": "fetching", "done": 2048, "total": 0}, "fetching 2.0 KiB"),
        ({"stage": "unpacking", "done": 1, "total": 3}, "unpacking archive 2 of 3"),
        ({}, ""),
    ],
)
def test_progress_in_words(progress, shown):
    assert text(progress) == shown


# Staging from a URL


class Server(http.server.ThreadingHTTPServer):
    """Serves one file, part of it when asked for a range, and hangs up after the first of C(limits) bytes of it."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.tag, self.limits, self.ranges = b"", '"1"', [], []

    def url(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked = self.headers.get("Range", "bytes=0-")[len("bytes=") :]
        start, _dash, end = asked.partition("-")
        content = self.server.content[int(start) : int(end) + 1 if end else None]
        self.server.ranges.append(asked)
        self.send_response(206)
        last = int(start) + len(content) - 1
        self.send_header("Content-Range", f"bytes {start}-{last}/{len(self.server.content)}")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", self.server.tag)
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(content[: self.server.limits.pop(0) if self.server.limits and asked != "0-0" else None])

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(tools, "RETRIES", 0)
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture
def stage(tmp_path):
    """Stages what the options say, as the module does, and returns the end of its progress."""

    def run(url, **options):
        spec = {
            "source": url,
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
        stager.run(spec, stager.Progress(str(progress)))
        return json.loads(progress.read_text())

    return run


def tar(**files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path.replace("__", "/"))
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def contents(folder):
    files = [path for path in Path(folder).rglob("*") if path.is_file() and ".dataset." not in str(path)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def leftovers(tmp_path):
    return [path.name for path in (tmp_path / "datasets").iterdir() if path.name.startswith(".")]


def test_an_archive_is_unpacked_once(server, stage, tmp_path):
    server.content = tar(train__a=b"1" * 100, train__b=b"2" * 50, readme=b"x")
    checksum = "sha256:" + hashlib.sha256(server.content).hexdigest()
    done = stage(server.url("set.tar.gz"), unpack=True, checksum=checksum, shards=[2])
    assert done["result"] == {"changed": True, "name": "set", "path": str(tmp_path / "datasets/set"), "version": done["result"]["version"]}
    folder = tmp_path / "datasets/set"
    assert contents(folder) == {"readme": b"x", "train/a": b"1" * 100, "train/b": b"2" * 50}
    assert (folder / ".dataset.files").read_text() == "1\treadme\n100\ttrain/a\n50\ttrain/b\n"
    assert [(folder / ".dataset.shards/2" / rank).read_text() for rank in "01"] == ["train/a\n", "readme\ntrain/b\n"]
    assert leftovers(tmp_path) == []
    asked = len(server.ranges)
    assert stage(server.url("set.tar.gz"), unpack=True, checksum=checksum, shards=[2])["result"]["changed"] is False
    assert len(server.ranges) == asked, "with a checksum, a second run does not even ask"
    assert stage(server.url("set.tar.gz"), unpack=True, checksum=checksum, shards=[2, 3])["result"]["changed"] is True
    assert sorted(os.listdir(folder / ".dataset.shards")) == ["2", "3"]


def test_an_interrupted_download_carries_on(server, stage, tmp_path):
    server.content, server.limits = bytes(range(256)) * 400, [40_000, 20_000, 0]
    stopped = stage(server.url("set.bin"))
    assert "the next run carries on" in stopped["error"]
    assert not (tmp_path / "datasets/set.bin").exists()
    assert stage(server.url("set.bin"))["result"]["changed"]
    assert [asked for asked in server.ranges if asked != "0-0"] == ["0-", "40000-", "60000-", "60000-"]
    assert contents(tmp_path / "datasets/set.bin") == {"set.bin": server.content}


def test_a_new_version_takes_the_place_of_the_old_one(server, stage, tmp_path):
    server.content = b"old"
    stage(server.url("set.bin"))
    assert stage(server.url("set.bin"))["result"]["changed"] is False
    server.content, server.tag = b"new!", '"2"'
    assert stage(server.url("set.bin"))["result"]["changed"]
    assert contents(tmp_path / "datasets/set.bin") == {"set.bin": b"new!"}
    assert leftovers(tmp_path) == []


def test_another_set_s_beginnings_are_left_alone(server, stage, tmp_path):
    other = tmp_path / "datasets" / ".set.bin.more.0123456789ab.partial"
    other.mkdir(parents=True)
    stage(server.url("set.bin"))
    assert leftovers(tmp_path) == [other.name]


def test_a_wrong_checksum_keeps_nothing(server, stage, tmp_path):
    server.content = b"content"
    failed = stage(server.url("set.bin"), checksum="sha256:" + "0" * 64)
    assert hashlib.sha256(b"content").hexdigest() in failed["error"]
    assert contents(tmp_path / "datasets") == {}


@pytest.mark.parametrize(("name", "content"), [("set.tar.gz", tar(a=os.urandom(5000))), ("set.zip", None)], ids=["tar", "zip"])
def test_a_broken_archive_is_an_error_and_never_half_a_data_set(server, stage, tmp_path, name, content):
    if content is None:
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as archive:
            archive.writestr("a", os.urandom(5000))
        content = written.getvalue()
    server.content = content[:1000] + b"garbage" + content[1007:] if name.endswith("zip") else content[:2500]
    assert f"{name} cannot be unpacked" in stage(server.url(name), unpack=True)["error"]
    assert not (tmp_path / "datasets/set").exists()


def test_what_the_role_has_not_made_stays(server, stage, tmp_path):
    theirs = tmp_path / "datasets/set.bin/mine"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("precious")
    assert "was not staged by this role, and stays" in stage(server.url("set.bin"))["error"]
    assert theirs.read_text() == "precious"


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ("https://example.org/a", {"destination": "efs"}, "dataset_destination is 'efs'"),
        ("https://example.org/a", {"destination": "s3://bucket"}, "name a prefix in the bucket too, such as s3://bucket/data"),
        ("https://example.org/a", {"destination": "direct"}, "direct is for a dataset_source on S3"),
        ("s3://data/a", {"destination": "direct", "unpack": True}, "without dataset_unpack"),
        ("/data/a", {"destination": "s3://bucket/a", "unpack": True}, "goes as it is"),
        ("https://example.org/a", {"checksum": "abc"}, "dataset_checksum is 'abc'"),
    ],
)
def test_what_cannot_be_asked_for_together(stage, given, options, message):
    assert message in stage(given, **options)["error"]


def test_a_full_disk_is_noticed_before_it_is_full(server, stage, monkeypatch):
    server.content = b"x" * 100
    monkeypatch.setattr(stager.shutil, "disk_usage", lambda _path: type("Usage", (), {"free": 10}))
    assert "has 10 bytes left" in stage(server.url("set.bin"))["error"]


def test_shared_storage_has_to_be_mounted():
    call.refuse_own_disk("shared", "/proc/self/datasets/new")
    call.refuse_own_disk("local", "/no-such-folder/datasets")
    with pytest.raises(DataError, match="/no-such-folder/datasets is on the host's own disk"):
        call.refuse_own_disk("shared", "/no-such-folder/datasets")


# Work in the background


def test_work_goes_on_in_the_background_one_at_a_time(tmp_path):
    work, go, calls = Background(str(tmp_path / "work")), tmp_path / "go", tmp_path / "calls"

    def task():
        with calls.open("a") as file:
            file.write("x")
        wait_until(go.exists)
        Path(work.progress).write_text('{"stage": "ended"}')

    work.start({"attempt": "1"}, task)
    wait_until(calls.exists)
    work.start({"attempt": "2"}, task)
    assert (work.is_running(), work.attempt(), work.wait(0.1)) == (True, {"attempt": "1"}, False)
    go.touch()
    os.utime(tmp_path / "work" / "attempt.json", (0, time.time() - 90))
    assert 90 <= work.seconds() < 180
    assert work.wait(20)
    assert (work.state(), calls.read_text()) == ({"stage": "ended"}, "x")


def test_what_the_work_has_started_holds_the_lock_too(tmp_path):
    work, pid = Background(str(tmp_path / "work")), tmp_path / "pid"

    def task():
        process = tools._start(["sleep", "60"])
        pid.write_text(f"{os.getpid()} {process.pid}")
        process.wait()

    work.start({}, task)
    wait_until(lambda: pid.exists() and len(pid.read_text().split()) == 2)
    own, started = map(int, pid.read_text().split())
    os.kill(own, signal.SIGKILL)
    time.sleep(0.2)
    assert work.is_running(), "curl must not be joined by another one that appends to the same file"
    os.kill(started, signal.SIGKILL)
    assert work.wait(20)
    assert work.state() == {}
