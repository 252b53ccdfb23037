# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Staging from and to S3 with the AWS CLI, in the same way as on every host."""

from __future__ import annotations

import io
import itertools
import json
import tarfile
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import stager
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
        stager.run(spec, stager.StagingProgress(str(progress)))
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
    plan = stager.examine(whole)
    assert (dict(plan.files), plan.current) == ({path: len(content) for path, content in IMAGES.items()}, False)
    first, second = patterns(plan.files, 2)
    stage({**whole, "share": {"version": plan.version, "patterns": first}})
    download = Path(stager.places(whole, plan).download)
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
    facts = stager.upload_facts(str(folder))
    assert (facts["size"], facts["single"]) == (1, False)
    uploaded = spec(f"{folder}/", destination=f"s3://{bucket}/here", upload=facts)
    assert stage(uploaded)["changed"]
    assert objects(cloud, bucket, "here/") == {"sub/a", ".dataset.json", ".dataset.files"}
    assert stage(uploaded)["changed"] is False
    (folder / "sub/a").write_bytes(b"2")
    assert stager.upload_facts(str(folder))["version"] != facts["version"]


def test_what_s3_refuses_is_explained(bucket, spec, stage):
    assert "contains no objects" in stage(spec(f"s3://{bucket}/nothing"))
    assert "there is no bucket" in stage(spec(f"s3://{bucket}-none/train"))
