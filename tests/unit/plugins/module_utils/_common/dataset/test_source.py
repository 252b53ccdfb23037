"""Tests that check how the source of a data set is parsed, and which objects are staged."""

from __future__ import annotations

import io
import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset import source
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset.source import DataError


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
    lines = [json.dumps([size, "e", name, "STANDARD"]) + "\n" for size, name in objects if name.startswith(key)]
    objects, is_single = source.listed([*lines, "None\n"], source.parse(given), [])
    assert ([path for path, _size, _tag in objects], is_single) == (found, single)


def test_keys_with_tabs_and_line_breaks_are_listed():
    keys = ["a\n1\te\tb", "a\rb", "a\u2028b"]
    lines = "".join(json.dumps([1, '"tag"', f"set/{key}", "STANDARD"]) + "\n" for key in keys)
    objects, _single = source.listed(io.StringIO(lines), source.parse("s3://b/set"), [])
    assert sorted(objects) == sorted((key, 1, '"tag"') for key in keys)


@pytest.mark.parametrize(
    ("name", "what"), [("a\nb", "control characters"), ("a\x1b[2J", "control"), ("a\u2028b", "control"), ("\udce9", "not UTF-8")]
)
def test_names_that_lists_of_files_cannot_contain(name, what):
    source.check_names([("é ü/a", 1)], source.parse("s3://b/set"))
    with pytest.raises(
        source.DataError, match=rf"dataset_source: s3://b/set cannot be staged: '.*' has a name .*{what}.*\. Rename the objects"
    ) as raised:
        source.check_names([("fine", 1), (name, 1)], source.parse("s3://b/set"))
    assert str(raised.value).isprintable()


def listed(*objects, given="s3://b/set"):
    lines = [json.dumps([size, "e", key, "STANDARD"]) + "\n" for key, size in objects]
    found, is_single = source.listed(lines, source.parse(given), [])
    return [(path, size) for path, size, _tag in found], is_single


def test_an_empty_object_beside_objects_below_it_marks_a_folder():
    assert listed(("set", 0), ("set/", 0), ("set/a", 1)) == ([("a", 1)], False)
    assert listed(("set", 0)) == ([("set", 0)], True)
    assert listed(("set", 1), ("set-2/a", 1)) == ([("set", 1)], True)
    assert listed(("set/", 0), ("set/a", 1), given="s3://b/set/") == ([("a", 1)], False)
    with pytest.raises(DataError, match=r"s3://b/set is an object, and a folder of other objects such as 'a'.*specify s3://b/set/\."):
        listed(("set", 1), ("set/a", 1))
    files = [("x", 0), ("x/y", 1), ("x/z", 0), ("x/z/a/b", 1), ("x/z/a", 0), ("empty", 0), ("w", 1), ("w/a", 1)]
    assert source.split_markers(files) == ([("x/y", 1), ("x/z/a/b", 1), ("empty", 0), ("w", 1), ("w/a", 1)], ["x", "x/z", "x/z/a"])


@pytest.mark.parametrize(
    ("paths", "problem"),
    [
        (["a", "/b"], "'/b' has an empty part between slashes"),
        (["a//b"], "'a//b' has an empty part between slashes"),
        ([".."], "'..' has the part '..'"),
        (["a/../b"], "'a/../b' has the part '..'"),
        (["./a"], "'./a' has the part '.'"),
        (["x", "x/y"], "'x' is a file, and also a folder of other files"),
        (["x/"], "'x/' has data"),
        (["a" * 256], "has a part of 256 bytes"),
        (["é" * 128], "has a part of 256 bytes"),
    ],
)
def test_names_that_are_no_paths_are_refused(paths, problem):
    files = [(path, 1) for path in paths]
    source.check_names(files, source.parse("s3://b/set"))
    with pytest.raises(DataError) as refused:
        source.check_names(files, source.parse("s3://b/set"), are_paths=True)
    assert problem in str(refused.value)


def test_other_names_are_paths():
    files = [(path, 1) for path in ("a" * 255, "/".join(["b"] * 500), " c ", "...", ".d", "caf\u00e9", "cafe\u0301", "x/y", "x-y", "e*[?]")]
    source.check_names(files, source.parse("s3://b/set"), are_paths=True)


def test_all_conflicts_are_named_at_once():
    with pytest.raises(DataError, match=r"'0//a' has .*, '4//a' has an empty part between slashes, and 2 more\. Rename the objects"):
        source.check_names([(f"{number}//a", 1) for number in range(7)], source.parse("s3://b/set"), are_paths=True)
    with pytest.raises(DataError, match=r"Rename the files\.$"):
        source.check_names([("a\nb", 1)], source.parse("/data"))
