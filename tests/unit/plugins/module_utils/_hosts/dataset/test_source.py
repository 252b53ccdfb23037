"""Tests that check how the source of a data set is parsed, and which objects are staged."""

from __future__ import annotations

import io
import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import source
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.source import DataError


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


@pytest.mark.parametrize("given", ["", "s3://", "data/train", "ftp://example.org/x", "https://example.org/", "s3://sets--use1-az4--x-s3/a"])
def test_what_is_no_source_is_refused(given):
    with pytest.raises(DataError, match=f"dataset_source: '{given}' is not supported"):
        source.parse(given)


@pytest.mark.parametrize("given", ["https://example.org/x\noutput = /etc/x\n#", "s3://data/a\x1b[2J", "/data/a\rb", "/data/caf\udce9"])
def test_a_source_with_control_characters_is_refused(given):
    """A line break in a URL would add options to the configuration of curl."""
    with pytest.raises(DataError, match=r"^dataset_source: '[ -~]*' contains control characters"):
        source.parse(given)


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "x" * 101])
def test_names_stay_in_their_directory(name):
    with pytest.raises(DataError, match="is not a valid name"):
        source.name_of(source.parse("s3://data"), name)


@pytest.mark.parametrize("given", ["sha256", "sha256:12", "crc:" + "0" * 64, "sha256:" + "x" * 64])
def test_bad_checksums_are_refused(given):
    with pytest.raises(DataError, match="is not a valid checksum"):
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
    objects = [(0, "train/"), (1, "train/a"), (2, "train/sub/b"), (3, "train2/c"), (9, "train/.dataset.json")]
    key = source.parse(given).key
    lines = [json.dumps([size, "e", name]) + "\n" for size, name in objects if name.startswith(key)]
    objects, is_single = source.listed([*lines, "None\n"], source.parse(given))
    assert ([path for path, _size, _tag in objects], is_single) == (found, single)


def test_keys_with_tabs_and_line_breaks_are_listed():
    keys = ["a\n1\te\tb", "a\rb", "a\u2028b"]
    lines = "".join(json.dumps([1, '"tag"', f"set/{key}"]) + "\n" for key in keys)
    objects, _single = source.listed(io.StringIO(lines), source.parse("s3://b/set"))
    assert sorted(objects) == sorted((key, 1, '"tag"') for key in keys)


@pytest.mark.parametrize(
    ("name", "what"), [("a\nb", "control characters"), ("a\x1b[2J", "control"), ("a\u2028b", "control"), ("\udce9", "not UTF-8")]
)
def test_names_that_lists_of_files_cannot_contain(name, what):
    source.check_names([("é ü/a", 1)], source.parse("s3://b/set"))
    with pytest.raises(source.DataError, match=rf"dataset_source: '.*' in s3://b/set has a name .*{what}.*\. Rename the file\.") as raised:
        source.check_names([("fine", 1), (name, 1)], source.parse("s3://b/set"))
    assert str(raised.value).isprintable()
