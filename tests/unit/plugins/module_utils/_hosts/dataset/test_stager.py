"""Tests that stage a data set from a URL, including failures."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import json
import os
import tarfile
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset.source import DataError, parse
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import (
    download,
    examination,
    free_space,
    stager,
    staging_progress,
)


class Server(http.server.ThreadingHTTPServer):
    """Serves one file, or `files` by name with query, each in full or in the requested range. `tag` is the ETag, if any.

    Each item of `limits` is the number of bytes after which one response breaks off.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.files, self.tag, self.limits, self.ranges = b"", {}, '"1"', [], []

    def url(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked = self.headers.get("Range", "bytes=0-")[len("bytes=") :]
        start, _dash, end = asked.partition("-")
        whole = self.server.files.get(self.path[1:], self.server.content)
        content = whole[int(start) : int(end) + 1 if end else None]
        self.server.ranges.append(asked)
        self.send_response(206)
        last = int(start) + len(content) - 1
        self.send_header("Content-Range", f"bytes {start}-{last}/{len(whole)}")
        self.send_header("Content-Length", str(len(content)))
        if self.server.tag:
            self.send_header("ETag", self.server.tag)
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(content[: self.server.limits.pop(0) if self.server.limits and asked != "0-0" else None])

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(download, "RETRIES", 0)
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


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
    assert len(server.ranges) == asked, "with a checksum, a second run sends no request"
    assert stage(server.url("set.tar.gz"), unpack=True, checksum=checksum, shards=[2, 3])["result"]["changed"] is True
    assert sorted(os.listdir(folder / ".dataset.shards")) == ["2", "3"]


def test_each_rank_gets_a_file(server, stage, tmp_path):
    server.content = tar(a=b"1", b=b"2", c=b"3")
    few = stage(server.url("set.tar.gz"), unpack=True, shards=[2, 8])
    assert few["error"] == (
        "dataset_shards: of 8 ranks, 5 would get no file, because the data set has only 3 files. Use at most 3 ranks, or divide the data"
        " into more files."
    )
    assert not (tmp_path / "datasets/set").exists()
    assert stage(server.url("set.tar.gz"), unpack=True, shards=[3])["result"]["changed"] is True
    assert sorted(os.listdir(tmp_path / "datasets/set/.dataset.shards")) == ["3"]
    assert "dataset_shards: of 4 ranks, 1 would get no file" in stage(server.url("set.tar.gz"), unpack=True, shards=[3, 4])["error"]
    assert stage(server.url("set.tar.gz"), unpack=True, shards=[0])["error"] == (
        "dataset_shards: 0 is not a number of ranks. Use numbers greater than 0."
    )


def test_an_interrupted_download_carries_on(server, stage, tmp_path):
    server.content, server.limits = bytes(range(256)) * 400, [40_000, 20_000, 0]
    stopped = stage(server.url("set.bin"))
    assert "The next run continues" in stopped["error"]
    assert not (tmp_path / "datasets/set.bin").exists()
    assert stage(server.url("set.bin"))["result"]["changed"]
    assert [asked for asked in server.ranges if asked != "0-0"] == ["0-", "40000-", "60000-", "60000-"]
    assert contents(tmp_path / "datasets/set.bin") == {"set.bin": server.content}


@pytest.fixture
def curl(tmp_path, monkeypatch):
    """Return a function that replaces curl with a script that writes to `$path`. Each run of the script adds a line to a file."""

    def replace(script):
        program, runs = tmp_path / "bin/curl", tmp_path / "runs"
        program.parent.mkdir()
        shift = 'for each do shift; [ "$each" != --output ] || path=$1; done'
        program.write_text(f"#!/bin/sh\necho >>{runs}\n{shift}\ncat >/dev/null\nrun=$(wc -l <{runs})\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return lambda: len(runs.read_text())

    return replace


@pytest.mark.parametrize(
    ("script", "count", "message"),
    [
        (
            '[ $run -gt 9 ] || echo >>"$path"; exit 23',
            1,
            "set.bin: download failed: cannot write to .*/set.bin. Check that the file system",
        ),
        ('[ $run -gt 9 ] || [ $((run % 2)) = 0 ] && exit 33; echo >>"$path"; exit 56', 4, "set.bin: download failed: curl ended with"),
    ],
    ids=["full disk", "no ranges"],
)
def test_a_download_that_cannot_end_is_not_repeated_forever(tmp_path, curl, script, count, message):
    runs = curl(script)
    with pytest.raises(DataError, match=message):
        download.download(parse("http://example.com/set.bin"), str(tmp_path / "set.bin"), None, lambda *_sizes: None)
    assert runs() == count
    assert (tmp_path / "set.bin").exists() is not message.startswith("set.bin: download failed: cannot write")


def test_a_download_without_a_length_leaves_free_space_to_others(tmp_path, curl, monkeypatch):
    curl('echo >>"$path"; exec sleep 600')
    monkeypatch.setattr(download, "POLL_SECONDS", 0.01)
    disk = {"f_frsize": 4096, "f_blocks": 1 << 14, "f_bavail": 1 << 5, "f_files": 0, "f_favail": 0}
    monkeypatch.setattr(free_space.os, "statvfs", lambda _path: SimpleNamespace(**disk))
    with pytest.raises(DataError, match=r"^dataset_source: http://example.com/set.bin: download failed: the file system of .* almost full"):
        download.download(parse("http://example.com/set.bin"), str(tmp_path / "set.bin"), None, lambda *_sizes: None)
    assert not (tmp_path / "set.bin").exists()


def test_a_new_version_takes_the_place_of_the_old_one(server, stage, tmp_path):
    server.content = b"old"
    stage(server.url("set.bin"))
    assert stage(server.url("set.bin"))["result"]["changed"] is False
    server.content, server.tag = b"new!", '"2"'
    assert stage(server.url("set.bin"))["result"]["changed"]
    assert contents(tmp_path / "datasets/set.bin") == {"set.bin": b"new!"}
    assert leftovers(tmp_path) == []


def test_another_query_is_another_version_and_another_signature_is_not(server, stage, tmp_path):
    server.files = {f"set.csv?date={date}&X-Amz-Signature={date}": date.encode() * 9 for date in "AB"}
    server.content = server.files["set.csv?date=A&X-Amz-Signature=A"]
    stage(server.url("set.csv?date=A&X-Amz-Signature=A"))
    assert stage(server.url("set.csv?date=A&X-Amz-Signature=new"))["result"]["changed"] is False
    assert stage(server.url("set.csv?date=B&X-Amz-Signature=B"))["result"]["changed"]
    assert contents(tmp_path / "datasets/set.csv") == {"set.csv": b"B" * 9}
    texts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any("Signature" in text or "date=" in text for text in texts)


def test_a_download_is_not_continued_with_the_contents_of_another_query(server, stage, tmp_path):
    server.files = {f"set.bin?date={date}": date.encode() * 90_000 for date in "AB"}
    server.limits = [40_000, 0]
    assert "The next run continues" in stage(server.url("set.bin?date=A"))["error"]
    stage(server.url("set.bin?date=B"))
    assert contents(tmp_path / "datasets/set.bin") == {"set.bin": b"B" * 90_000}


def test_contents_without_a_version_are_fetched_at_each_run_unless_a_checksum_identifies_them(server, stage, tmp_path):
    server.tag, server.content = "", b"old"
    stage(server.url("set.bin"))
    server.content = b"new"
    done = stage(server.url("set.bin"))["result"]
    assert done["changed"]
    assert done["warnings"] == [
        f"dataset_source: the server of {server.url('set.bin')} reports neither ETag nor Last-Modified, so each run fetches the data again."
        " Set the checksum of the file to keep data that is already staged."
    ]
    assert contents(tmp_path / "datasets/set.bin") == {"set.bin": b"new"}
    checksum = {"checksum": "sha256:" + hashlib.sha256(b"new").hexdigest()}
    assert [stage(server.url("set.bin"), **checksum)["result"]["changed"] for _run in range(2)] == [True, False]
    assert "warnings" not in stage(server.url("set.bin"), **checksum)["result"]


def test_a_download_without_a_version_begins_again(server, stage, tmp_path):
    server.tag, server.content, server.limits = "", b"a" * 90_000, [40_000, 0]
    assert stage(server.url("set.bin"))["error"].endswith(" Run the playbook again.")
    server.content = b"b" * 90_000
    stage(server.url("set.bin"))
    assert contents(tmp_path / "datasets/set.bin") == {"set.bin": b"b" * 90_000}


def test_one_source_without_a_version_makes_the_whole_data_set_unversioned(server, stage, coco, tmp_path):
    server.tag = ""
    assert server.url("weights.npz") in stage("", name="coco", sources=coco)["result"]["warnings"][0]
    server.files["weights.npz"] = b"v" * 300
    assert stage("", name="coco", sources=coco)["result"]["changed"]
    assert contents(tmp_path / "datasets/coco")["models/small/weights.npz"] == b"v" * 300
    coco[2]["checksum"] = digest(server, "weights.npz")
    assert [stage("", name="coco", sources=coco)["result"]["changed"] for _run in range(2)] == [True, False]


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


@pytest.mark.parametrize(
    ("name", "content"),
    [("set.tar.gz", tar(a=os.urandom(5000))), ("set.zip", zipfile.ZIP_STORED), ("set.zip", zipfile.ZIP_LZMA)],
    ids=["tar", "zip", "lzma"],
)
def test_a_broken_archive_is_an_error_and_never_half_a_data_set(server, stage, tmp_path, name, content):
    if isinstance(content, int):
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", content) as archive:
            archive.writestr("a", os.urandom(5000))
        content = written.getvalue()
    server.content = content[:1000] + b"garbage" + content[1007:] if name.endswith("zip") else content[:2500]
    assert f"dataset_unpack: {server.url(name)} cannot be unpacked" in stage(server.url(name), unpack=True)["error"]
    assert not (tmp_path / "datasets/set").exists()


def test_what_the_role_has_not_made_stays(server, stage, tmp_path):
    theirs = tmp_path / "datasets/set.bin/mine"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("precious")
    assert "was not staged by this role" in stage(server.url("set.bin"))["error"]
    assert theirs.read_text() == "precious"


@pytest.fixture
def coco(server):
    """Return the sources of a data set: two archives, and a file that is not unpacked."""
    server.files = {
        "train.tar.gz": tar(train__a=b"a" * 90, license=b"of train"),
        "labels.tar.gz": tar(labels__a=b"{}", license=b"of labels", **{".dataset.json": b"{}"}),
        "weights.npz": b"w" * 300,
    }
    archives = [
        {"source": server.url(name), "folder": "", "checksum": digest(server, name), "unpack": True} for name in list(server.files)[:2]
    ]
    return [*archives, {"source": server.url("weights.npz"), "folder": "models/small", "checksum": "", "unpack": False}]


def digest(server, name):
    return "sha256:" + hashlib.sha256(server.files[name]).hexdigest()


def test_several_sources_make_one_data_set(server, stage, coco, tmp_path):
    done = stage("", name="coco", sources=coco, shards=[2])["result"]
    folder = tmp_path / "datasets/coco"
    assert done == {"changed": True, "name": "coco", "path": str(folder), "version": done["version"]}
    files = {"license": b"of labels", "labels/a": b"{}", "models/small/weights.npz": b"w" * 300, "train/a": b"a" * 90}
    assert contents(folder) == files
    assert (folder / ".dataset.files").read_text() == "2\tlabels/a\n9\tlicense\n300\tmodels/small/weights.npz\n90\ttrain/a\n"
    facts = json.loads((folder / ".dataset.json").read_text())
    assert (facts["name"], facts["files"], facts["size"], facts["unpacked"]) == ("coco", 4, 401, True)
    assert facts["source"] == ", ".join(each["source"] for each in coco)
    assert leftovers(tmp_path) == []
    server.ranges.clear()
    assert stage("", name="coco", sources=coco, shards=[2])["result"]["changed"] is False
    assert server.ranges == ["0-0"], "only a source without a checksum is asked for"


def test_a_change_of_one_source_is_a_new_version(stage, coco):
    first = stage("", name="coco", sources=coco)["result"]["version"]
    coco[2]["folder"] = "models"
    assert stage("", name="coco", sources=coco)["result"]["version"] != first


@pytest.mark.parametrize(
    ("change", "option"), [({"checksum": "sha256:" + "0" * 64}, "dataset_checksum: expected"), ({"unpack": True}, "dataset_unpack: ")]
)
def test_the_old_version_remains_until_the_new_one_is_complete(stage, coco, tmp_path, change, option):
    stage("", name="coco", sources=coco)
    before = contents(tmp_path / "datasets/coco")
    coco[2].update(change)
    assert stage("", name="coco", sources=coco)["error"].startswith(option)
    assert contents(tmp_path / "datasets/coco") == before


def test_a_wrong_checksum_of_one_source_keeps_the_others(server, stage, coco, tmp_path):
    wrong = [coco[0], {**coco[1], "checksum": "sha256:" + "0" * 64}, coco[2]]
    failed = stage("", name="coco", sources=wrong)
    assert f"but {coco[1]['source']} has {digest(server, 'labels.tar.gz')}" in failed["error"]
    assert not (tmp_path / "datasets/coco").exists()
    server.ranges.clear()
    stage("", name="coco", sources=wrong)
    assert [asked for asked in server.ranges if asked != "0-0"] == ["0-"], "the first source is not fetched again"


@pytest.mark.parametrize("place", ["_prepare", "_touch", "move"])
@pytest.mark.parametrize("number", range(7))
def test_an_interrupted_run_goes_on_with_the_same_source(server, stage, coco, tmp_path, monkeypatch, place, number):
    """The test interrupts a run after each function call in turn, as if the process had been killed."""
    module = stager.unpacked if place == "move" else stager
    real, left = getattr(module, place), [number]

    def stop(*arguments):
        result = real(*arguments)
        left[0] -= 1
        if left[0] == -1:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as context:
        context.setattr(module, place, stop)
        with contextlib.suppress(KeyboardInterrupt):
            stage("", name="coco", sources=coco)
    fetched = {each["source"] for each, index in zip(coco, range(3)) if list(tmp_path.glob(f"datasets/.*/source{index}/fetched"))}
    server.ranges.clear()
    stage("", name="coco", sources=coco)
    assert contents(tmp_path / "datasets/coco").keys() == {"license", "labels/a", "models/small/weights.npz", "train/a"}
    assert len([asked for asked in server.ranges if asked != "0-0"]) == (3 - len(fetched) if left[0] < 0 else 0)


def test_progress_names_the_source(stage, coco, monkeypatch):
    seen, write = [], staging_progress.StagingProgress._write
    monkeypatch.setattr(staging_progress.StagingProgress, "_write", lambda self, state: (seen.append(state), write(self, state)))
    stage("", name="coco", sources=coco)
    numbers = [(state["stage"], state.get("source"), state.get("sources")) for state in seen]
    assert numbers[0] == ("examining", None, None)
    assert [number for number in numbers if number[0] == "checking"] == [("checking", count, 3) for count in (1, 2, 3)]
    assert numbers[-2:] == [("publishing", None, None), ("ended", None, None)]


def test_space_for_all_sources_is_needed_before_the_first_is_fetched(server, stage, coco, monkeypatch):
    sizes = [len(content) for content in server.files.values()]
    monkeypatch.setattr(examination, "_examine_source", lambda spec, real=examination._examine_source: real({**spec, "checksum": ""}))
    usage = type("Usage", (), {"free": sum(sizes) - 1})
    monkeypatch.setattr(stager.shutil, "disk_usage", lambda _path: usage)
    assert (
        f"requires {sum(sizes)} bytes, but the free space is only {sum(sizes) - 1} bytes" in stage("", name="coco", sources=coco)["error"]
    )
    assert all(asked == "0-0" for asked in server.ranges)
    usage.free += 1
    assert stage("", name="coco", sources=coco)["result"]["changed"]


def test_files_of_one_source_do_not_pass_through_links_of_another(server, stage, tmp_path):
    linked = io.BytesIO()
    with tarfile.open(fileobj=linked, mode="w:gz") as archive:
        inside = tarfile.TarInfo("real/x")
        archive.addfile(inside)
        link = tarfile.TarInfo("models")
        link.type, link.linkname = tarfile.SYMTYPE, "real"
        archive.addfile(link)
    server.files = {"a.tar.gz": linked.getvalue(), "w": b"1"}
    sources = [
        {"source": server.url("a.tar.gz"), "folder": "", "checksum": "", "unpack": True},
        {"source": server.url("w"), "folder": "models/w", "checksum": "", "unpack": False},
    ]
    assert "models: is a folder in one part of the data set, but not in another" in stage("", name="set", sources=sources)["error"]
    assert not (tmp_path / "datasets/set").exists()


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ("https://example.org/a", {"destination": "efs"}, "dataset_destination: 'efs' is not supported"),
        ("https://example.org/a", {"destination": "s3://bucket"}, "has no prefix. Add a prefix, such as s3://bucket/data"),
        (
            "https://example.org/a?x=1",
            {"destination": "direct"},
            "dataset_source 'https://example.org/a' is not on S3. To use 'direct', specify a dataset_source on S3. Otherwise, set",
        ),
        (
            "s3://b/a",
            {"destination": "direct", "unpack": True},
            "unchanged, but dataset_unpack is set. To use 'direct', remove dataset_unpack. Otherwise,",
        ),
        (
            "/a",
            {"destination": "direct", "unpack": True, "checksum": "sha256:x"},
            "but dataset_source '/a' is not on S3 and dataset_unpack is set and dataset_checksum is set. "
            "To use 'direct', specify a dataset_source on S3 and remove dataset_unpack and remove dataset_checksum.",
        ),
        ("/data/a", {"destination": "s3://bucket/a", "unpack": True}, "not supported for uploads"),
        ("https://example.org/a", {"checksum": "abc"}, "dataset_checksum: 'abc' is not a valid checksum"),
        ("", {}, "dataset_source: no source is specified. Set dataset_source to s3://bucket/prefix,"),
    ],
)
def test_what_cannot_be_asked_for_together(stage, given, options, message):
    assert message in stage(given, **options)["error"]


def test_a_full_disk_is_noticed_before_it_is_full(server, stage, monkeypatch):
    server.content = b"x" * 100
    monkeypatch.setattr(stager.shutil, "disk_usage", lambda _path: type("Usage", (), {"free": 10}))
    assert "the free space is only 10 bytes" in stage(server.url("set.bin"))["error"]


def objects(*keys):
    return lambda _access, _source: [json.dumps([1, "e", key, storage_class]) + "\n" for key, storage_class in keys]


ARCHIVED = objects(("set/a", "STANDARD"), ("set/b", "DEEP_ARCHIVE"), ("set/c", "GLACIER"), ("set/d", "GLACIER_IR"), ("set-2/e", "GLACIER"))


def test_archived_objects_are_named_before_the_download(stage, monkeypatch):
    monkeypatch.setattr(stager.s3, "list_objects", ARCHIVED)
    monkeypatch.setattr(stager.s3, "is_restored", lambda _access, _source, key: key != "set/b")
    assert stage("s3://b/set")["error"] == (
        "dataset_source: 2 of 4 objects in s3://b/set are archived, for example 'set/b'. Restore them first: "
        "https://docs.aws.amazon.com/AmazonS3/latest/userguide/restoring-objects.html"
    )
    assert "result" in stage("s3://b/set", destination="direct"), "the objects can be restored later"


def test_restored_objects_are_downloaded(stage, monkeypatch, tmp_path):
    monkeypatch.setattr(stager.s3, "list_objects", ARCHIVED)
    monkeypatch.setattr(stager.s3, "is_restored", lambda *_arguments: True)
    (tmp_path / "aws").write_text('#!/bin/sh\necho "$@" >>"$0.calls"\nfor name in a b c d; do printf 1 >"$4/$name"; done\n')
    (tmp_path / "aws").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert stage("s3://b/set")["result"]["changed"]
    assert "--force-glacier-transfer" in (tmp_path / "aws.calls").read_text()
