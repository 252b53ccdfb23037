"""Staging from and to S3 with the AWS CLI, in the same way as on every host."""

from __future__ import annotations

import io
import itertools
import json
import os
import tarfile
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset import local_source
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset.source import DataError
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import examination, stager, staging_progress
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.shares import patterns

IMAGES = {f"class{number % 3}/{number:02d}.jpg": bytes([number]) * (number + 1) for number in range(12)}


@pytest.fixture
def bucket(cloud, name):
    """A bucket with a few images and an object that has the marker file's name."""
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket=f"{name}-images")
    for path, content in {**IMAGES, ".dataset.json": b"{}"}.items():
        s3.put_object(Bucket=f"{name}-images", Key=f"train/{path}", Body=content)
    s3.put_object(Bucket=f"{name}-images", Key="train-small/a.jpg", Body=b"")
    return f"{name}-images"


@pytest.fixture
def spec(tmp_path):
    """Return a function that returns options of the module `dataset`, with this test's directory."""

    def make(source, **options):
        default = {"destination": "local", "name": None, "checksum": "", "unpack": False, "region": "us-east-1", "anonymous": False}
        internal = {"directory": str(tmp_path / "datasets"), "sources": [], "shards": [], "share": None, "upload": None}
        return {**default, **internal, "source": source, **options}

    return make


@pytest.fixture
def stage(tmp_path):
    """Stage a data set, and return the result or the error."""

    def run(spec):
        progress = tmp_path / "progress.json"
        stager.run(spec, staging_progress.StagingProgress(str(progress)))
        end = json.loads(progress.read_text())
        return end.get("error") or end["result"]

    return run


def contents(folder):
    files = [path for path in Path(folder).rglob("*") if path.is_file() and ".dataset." not in str(path)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def objects(cloud, bucket, prefix):
    listed = cloud.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
    return {each["Key"][len(prefix) :] for each in listed}


def test_hosts_fetch_a_tree_together_and_once(cloud, bucket, spec, stage, tmp_path):
    whole = spec(f"s3://{bucket}/train")
    plan = examination.examine(whole)
    assert (dict(plan.files), plan.current) == ({path: len(content) for path, content in IMAGES.items()}, False)
    first, second = patterns(plan.files, 2)
    stage({**whole, "share": {"version": plan.version, "patterns": first}})
    download = Path(examination.places(whole, plan).download)
    (download / "class0/00.jpg.4eA1b2C3").write_bytes(b"left behind by an AWS CLI that was killed")
    assert 0 < len(contents(download)) < len(IMAGES)
    stage({**whole, "share": {"version": plan.version, "patterns": second}})
    assert contents(download).keys() >= IMAGES.keys()
    cloud.control.forget_calls()
    assert stage(whole)["changed"]
    assert {call["action"] for call in cloud.control.calls()} == {"ListObjectsV2"}, "files from the shares are not fetched again"
    assert contents(tmp_path / "datasets/train") == IMAGES
    assert stage(whole)["changed"] is False
    cloud.client("s3").put_object(Bucket=bucket, Key="train/class0/00.jpg", Body=b"new")
    assert stage(whole)["changed"]
    assert contents(tmp_path / "datasets/train")["class0/00.jpg"] == b"new"
    assert [path.name for path in (tmp_path / "datasets").iterdir()] == ["train"]


def test_data_that_stays_on_s3_has_lists(bucket, spec, stage, tmp_path):
    direct = spec(f"s3://{bucket}/train/", destination="direct", shards=[4])
    assert stage(direct)["changed"]
    lists = [(tmp_path / "datasets/train/.dataset.shards/4" / str(rank)).read_text().splitlines() for rank in range(4)]
    assert sorted(itertools.chain(*lists)) == sorted(f"s3://{bucket}/train/{path}" for path in IMAGES)
    assert {len(shard) for shard in lists} == {3}
    assert stage(direct)["changed"] is False


@pytest.mark.exhaustive
def test_from_bucket_to_bucket_and_an_archive_on_the_way(cloud, bucket, spec, stage, tmp_path):
    copied = spec(f"s3://{bucket}/train", destination=f"s3://{bucket}/copy")
    assert stage(copied)["changed"]
    assert objects(cloud, bucket, "copy/") == {*IMAGES, ".dataset.json", ".dataset.files"}
    cloud.control.forget_calls()
    assert stage(copied)["changed"] is False
    assert all(call["read_only"] for call in cloud.control.calls())
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        entry = tarfile.TarInfo("folder/a")
        file.addfile(entry)
    cloud.client("s3").put_object(Bucket=bucket, Key="sets/a.tar", Body=archive.getvalue())
    unpacked = spec(f"s3://{bucket}/sets/a.tar", destination=f"s3://{bucket}/unpacked/", unpack=True)
    assert stage(unpacked)["path"] == f"s3://{bucket}/unpacked/"
    assert objects(cloud, bucket, "unpacked/") == {"folder/a", ".dataset.json", ".dataset.files"}
    assert contents(tmp_path / "datasets") == {}


def test_from_the_controller_to_s3(cloud, bucket, spec, stage, tmp_path):
    folder = tmp_path / "here"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/a").write_bytes(b"1")
    facts = local_source.upload_facts(str(folder))
    assert (facts["size"], facts["single"]) == (1, False)
    uploaded = spec(f"{folder}/", destination=f"s3://{bucket}/here", upload=facts)
    assert stage(uploaded)["changed"]
    assert objects(cloud, bucket, "here/") == {"sub/a", ".dataset.json", ".dataset.files"}
    assert stage(uploaded)["changed"] is False
    (folder / "sub/a").write_bytes(b"2")
    assert local_source.upload_facts(str(folder))["version"] != facts["version"]


def test_what_s3_refuses_is_explained(bucket, spec, stage):
    assert "contains no objects" in stage(spec(f"s3://{bucket}/nothing"))
    assert "there is no bucket" in stage(spec(f"s3://{bucket}-none/train"))


@pytest.mark.parametrize(
    ("keys", "problems"),
    [
        (
            {"data//b.bin": b"22", "data/a/../b.bin": b"1", "data/..": b""},
            ["'/b.bin' has an empty part", "'..' has the part", "'a/../b.bin'"],
        ),
        ({"data/x": b"one", "data/x/y": b"two"}, ["'x' is a file, and also a folder of other files"]),
        ({"data": b"one", "data/y": b"two"}, ["s3://bucket/data is an object, and a folder of other objects"]),
    ],
)
def test_names_that_are_no_paths_are_refused_before_the_download(cloud, name, spec, stage, tmp_path, keys, problems):
    bucket = f"{name}-names"
    cloud.client("s3").create_bucket(Bucket=bucket)
    for key, content in {"data/fine": b"0", **keys}.items():
        cloud.client("s3").put_object(Bucket=bucket, Key=key, Body=content)
    error = stage(spec(f"s3://{bucket}/data"))
    assert all(problem.replace("bucket", bucket) in error for problem in problems), error
    assert error.endswith("with aws s3 mv.")
    assert not (tmp_path / "datasets").exists()
    staged = stage(spec(f"s3://{bucket}/data", destination="direct"))
    assert staged == error if "data" in keys else staged["changed"], "only the names of files matter"


def test_empty_objects_with_the_names_of_folders_are_markers_of_folders(cloud, name, spec, stage, tmp_path):
    bucket = f"{name}-markers"
    cloud.client("s3").create_bucket(Bucket=bucket)
    keys = {
        "data": b"",
        "data/": b"",
        "data/x": b"",
        "data/x/y": b"1",
        "data/empty": b"",
        "data/a b ": b"2",
        "data/caf\u00e9": b"3",
        "data/cafe\u0301": b"4",
    }
    for key, content in keys.items():
        cloud.client("s3").put_object(Bucket=bucket, Key=key, Body=content)
    found = {"x/y": b"1", "empty": b"", "a b ": b"2", "caf\u00e9": b"3", "cafe\u0301": b"4"}
    for _run, source in enumerate([f"s3://{bucket}/data", f"s3://{bucket}/data/"]):
        assert stage(spec(source))["changed"]
        assert contents(tmp_path / "datasets/data") == found
    cloud.client("s3").put_object(Bucket=bucket, Key="other//a", Body=b"1")
    assert stage(spec(f"s3://{bucket}/other//"))["changed"]
    assert contents(tmp_path / "datasets/other") == {"a": b"1"}


def test_a_file_of_the_same_size_replaces_a_newer_object(cloud, bucket, spec, stage, tmp_path):
    def put(label):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as file:
            entry = tarfile.TarInfo("labels.txt")
            entry.size, entry.mtime = 4, 1577836800
            file.addfile(entry, io.BytesIO(label))
        cloud.client("s3").put_object(Bucket=bucket, Key="sets/a.tar", Body=archive.getvalue())

    def labels():
        return cloud.client("s3").get_object(Bucket=bucket, Key="out/labels.txt")["Body"].read()

    unpacked = spec(f"s3://{bucket}/sets/a.tar", destination=f"s3://{bucket}/out", unpack=True)
    for label in (b"0 1\n", b"1 0\n"):
        put(label)
        assert stage(unpacked)["changed"]
        assert labels() == label
    here = tmp_path / "here"
    here.mkdir()
    (here / "labels.txt").write_bytes(b"2 2\n")
    os.utime(here / "labels.txt", (1577836800, 1577836800))
    assert stage(spec(f"{here}/", destination=f"s3://{bucket}/out", upload=local_source.upload_facts(str(here))))["changed"]
    assert labels() == b"2 2\n"
    cloud.client("s3").put_object(Bucket=bucket, Key="early/labels.txt", Body=b"3 3\n")
    cloud.client("s3").put_object(Bucket=bucket, Key="out/labels.txt", Body=b"4 4\n")
    assert stage(spec(f"s3://{bucket}/early", destination=f"s3://{bucket}/out"))["changed"]
    assert labels() == b"3 3\n"


def test_an_interrupted_upload_to_a_new_place_continues(cloud, bucket, spec, stage, monkeypatch):
    copied = spec(f"s3://{bucket}/train", destination=f"s3://{bucket}/copy")
    copy = stager.s3.copy

    def interrupt(access, source, target, *arguments, **options):
        if source.endswith("/train/"):
            copy(access, source, target, *arguments, "--exclude", "class0/*", **options)
            raise DataError("interrupted")
        copy(access, source, target, *arguments, **options)

    monkeypatch.setattr(stager.s3, "copy", interrupt)
    assert stage(copied) == "interrupted"
    monkeypatch.setattr(stager.s3, "copy", copy)
    cloud.control.forget_calls()
    assert stage(copied)["changed"]
    copies = [call for call in cloud.control.calls() if call["action"] == "CopyObject"]
    assert len(copies) == sum(path.startswith("class0/") for path in IMAGES)
    assert objects(cloud, bucket, "copy/") == {*IMAGES, ".dataset.json", ".dataset.files"}
