"""Tests that read a job's JSON files, and that check which contents are allowed and how messages describe invalid files."""

from __future__ import annotations

import math
import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import schema

MOST = 1 << 32


def word():
    return schema.text(5, "[a-z]+", "a word")


@pytest.mark.parametrize(
    ("make", "good", "bad"),
    [
        (lambda: schema.text(3), ["", "abc", "a\nb"], ["abcd", None, 3, b"abc", ["a"]]),
        (schema.text, ["a" * (1 << 14)], ["a" * ((1 << 14) + 1)]),
        (word, ["a", "abcde"], ["", "abcdef", "abc1", "ab\n", "1ab", None, 5]),
        (lambda: schema.integer(2, 5), [2, 3, 5], [1, 6, 2.0, "3", None, True]),
        (lambda: schema.integer(0, 1), [0, 1], [True, False, -1, 2]),
        (schema.seconds, [0, 0.5, MOST], [-0.1, MOST + 1, math.nan, math.inf, "1", None, True]),
        (lambda: schema.seconds(10), [0, 1, 10.0], [10.5, False]),
        (schema.flag, [True, False], [0, 1, None, "true", []]),
        (lambda: schema.one_of("yes", "no"), ["yes", "no"], ["y", "", "yesno", None, 1, ["yes"]]),
        (lambda: schema.list_of(word(), 2), [[], ["a"], ["a", "b"]], [["a", "b", "c"], ["A"], ["a", 1], "ab", ("a",), None, {"a": 1}]),
        (lambda: schema.list_of(schema.flag()), [[True] * (1 << 17)], [[True] * ((1 << 17) + 1)]),
        (schema.mapping, [{}, {"a": [1]}], [None, [], "{}", 1]),
        (lambda: schema.mapping({"word": word()}), [{"word": "a"}, {"word": "a", "more": 1}], [{}, {"word": 1}, {"word": None}, [], None]),
        (lambda: schema.mapping({"word": schema.optional(word())}), [{}, {"word": None}, {"word": "a"}], [{"word": 1}]),
    ],
)
def test_values_of_a_field(make, good, bad):
    field = make()
    assert [value for value in good if not field.accepts(value)] == []
    assert [value for value in bad if field.accepts(value)] == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: schema.text(3), "text of up to 3 characters"),
        (schema.text, "text of up to 16384 characters"),
        (word, "a word"),
        (lambda: schema.integer(2, 5), "an integer from 2 to 5"),
        (schema.seconds, "a number of seconds"),
        (schema.number, "a number from 0 to 1e+15"),
        (schema.flag, "true or false"),
        (lambda: schema.one_of("yes", "no"), "one of yes, no"),
        (lambda: schema.list_of(word(), 2), "a list of up to 2 elements, each of them a word"),
        (lambda: schema.list_of(word()), "a list of up to 131072 elements, each of them a word"),
        (schema.mapping, "an object"),
        (lambda: schema.mapping({"word": word()}), "an object with valid values"),
    ],
)
def test_a_field_says_what_it_accepts(make, words):
    field = make()
    assert (field.words, field.is_optional) == (words, False)
    optional = schema.optional(field)
    assert (optional.words, optional.is_optional, optional.accepts) == (words, True, field.accepts)


def test_a_value_that_is_not_valid_for_a_lenient_field_is_left_out():
    fields = {"size": schema.lenient(schema.number(9))}
    documents = ({"size": 9}, {"size": 9.5}, {"size": "3"}, {"size": None}, {})
    assert [schema.conform(document, fields) for document in documents] == [{"size": 9}, {}, {}, {}, {}]


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (None, 1),
        ([], 4),
        ([1, 2, "three"], 7),
        ({"a": 1, "b": [2], "c": {}}, 1 + 3 + 3 + 1 + 3 + 3),
        ([[[[]]]], 1 + 4 * 3 + 3),
    ],
)
def test_the_number_of_values_counts_containers_four_times(value, count):
    assert schema.count_values(value, count) == count
    assert schema.count_values([[value] * 9], count) > count


def test_a_large_document_is_not_counted_to_its_end():
    assert schema.count_values([[1]] * 9, 12) == 1 + 9 + 3
    assert schema.count_values([[1]] * 9, 13) == 1 + 9 + 3 + 1 + 3


def conform(document):
    return schema.conform(document, {"word": word(), "size": schema.optional(schema.integer(0, 9))})


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"word": "a", "size": 3}, {"word": "a", "size": 3}),
        ({"word": "a", "other": 1}, {"word": "a"}),
        ({"word": "a", "size": None}, {"word": "a"}),
        ({"size": 0, "word": "a"}, {"word": "a", "size": 0}),
    ],
)
def test_what_a_schema_knows_of_a_document(document, found):
    assert conform(document) == found


def test_optional_values_of_inner_objects_may_be_null_and_are_left_out():
    inner = schema.mapping({"word": schema.optional(word())})
    fields = {"one": inner, "more": schema.optional(schema.list_of(schema.mapping({"in": inner}))), "any": schema.lenient(schema.mapping())}
    document = {"one": {"word": None, "other": 1}, "more": [{"in": {"word": None}}, {"in": {"word": "a"}}], "any": {"word": None}}
    assert schema.conform(document, fields) == {"one": {}, "more": [{"in": {}}, {"in": {"word": "a"}}], "any": {"word": None}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "it has no 'word'"),
        ({"word": None}, "its 'word' is None, not a word"),
        ({"word": "a", "size": "3"}, "its 'size' is '3', not an integer from 0 to 9"),
        ({"word": {"a": 1}}, "its 'word' is an object, not a word"),
        ({"word": ["a"]}, "its 'word' is a list, not a word"),
        ({"word": "é" * 50}, "its 'word' is '" + r"\xe9" * 40 + "', not a word"),
        ({"word": 1 << 70}, f"its 'word' is {1 << 70}, not a word"),
    ],
)
def test_what_is_wrong_with_a_document(document, message):
    with pytest.raises(schema.SchemaError) as error:
        conform(document)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b'{"a": [1, 2.5, "\xc3\xa4"]}', {"a": [1, 2.5, "ä"]}),
        (b'{"a": 123456789012345678}', {"a": 123456789012345678}),
        (b'{"a": 1234567890123456789}', {"a": 1234567890123456789.0}),
        (b'{"a": ' + b"9" * 5000 + b"}", {"a": math.inf}),
    ],
)
def test_json(content, value):
    found = schema.parse_document(content)
    assert found == value
    assert type(found["a"]) is type(value["a"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1]", "the JSON text is not an object"),
        (b'"text"', "the JSON text is not an object"),
        (b"{", "Expecting property name"),
        (b'{"a": "\xff"}', "invalid start byte"),
        (b"[" * 200_000, "the JSON text is nested too deeply"),
        (b" " * ((1 << 20) + 1), "the JSON text has more than 1048576 bytes"),
    ],
)
def test_what_is_no_document(content, message):
    with pytest.raises(ValueError, match=message) as error:
        schema.parse_document(content)
    assert message not in ("the JSON text is nested too deeply", "the JSON text is not an object") or str(error.value) == message
    assert error.value.__suppress_context__ == (message == "the JSON text is nested too deeply")


def test_the_largest_document_is_read_whole(tmp_path):
    path = tmp_path / "largest"
    path.write_bytes(b"{}".ljust(1 << 20))
    assert schema.read_document(str(path)) == {}
    path.write_bytes(b"{}".ljust((1 << 20) + 5))
    assert len(schema.read_content(str(path))) == (1 << 20) + 1
    with pytest.raises(schema.SchemaError, match="has more than"):
        schema.read_document(str(path))


def test_regular_files_are_opened_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("{}")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").symlink_to(".")
    for path in ("file", f"{tmp_path}/file"):
        with schema.open_regular(path) as file:
            assert file.read() == b"{}"
            assert not os.get_inheritable(file.fileno())
    for path in ("fifo", str(tmp_path)):
        with pytest.raises(OSError, match=f"^{path} is not a regular file$"):
            schema.open_regular(path)
    for path in ("link", f"{tmp_path}/folder/file", f"{tmp_path}/missing", f"{tmp_path}/file/file"):
        with pytest.raises(OSError, match=r"symbolic links|Not a directory|No such file"):
            schema.open_regular(path)


def test_no_descriptor_stays_open(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text("{}")
    before = os.listdir("/proc/self/fd")
    schema.read_content(str(tmp_path / "file"))
    for name in ("fifo", "missing"):
        with pytest.raises(OSError, match=name):
            schema.open_regular(str(tmp_path / name))
    assert os.listdir("/proc/self/fd") == before


def test_a_document_is_replaced_for_all_readers(tmp_path):
    path = tmp_path / "folder/document"
    schema.replace_document(str(path), {"a": 1})
    assert (schema.read_document(str(path)), path.stat().st_mode & 0o777) == ({"a": 1}, 0o644)
