"""Tests of references and computed values of resources."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import (
    KNOWN_AFTER_APPLY,
    UNKNOWN,
    Computed,
    Found,
    Ref,
    printable,
    references,
    resolve,
)

from .boxes import BOX, LID


def test_computed_values_wait_for_their_inputs():
    text = Computed(lambda box: f"inside {box}", (Ref(BOX),))
    assert resolve(text, {}) is UNKNOWN
    assert resolve(text, {BOX: Found(BOX, "box-7")}) == "inside box-7"
    assert resolve({"a": (1, Ref(BOX)), "b": frozenset({Ref(BOX)})}, {BOX: Found(BOX, "box-7")}) == {
        "a": (1, "box-7"),
        "b": frozenset({"box-7"}),
    }
    assert printable({"b": frozenset({"y", "x"}), "c": (UNKNOWN,)}) == {"b": ["x", "y"], "c": [KNOWN_AFTER_APPLY]}


PINK = Computed(lambda box, lid: f"{box} under {lid}", (Ref(BOX), Ref(LID, "name")))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Ref(BOX), [BOX]),
        (PINK, [BOX, LID]),
        ({"a": Ref(BOX), "b": [Ref(LID)]}, [BOX, LID]),
        ([Ref(BOX), (Ref(LID), {"a": PINK})], [BOX, LID, BOX, LID]),
        ({Ref(LID)}, [LID]),
        (frozenset({Ref(LID)}), [LID]),
        ({BOX: 1}, []),
        ("box main", []),
        (None, []),
    ],
)
def test_what_a_value_refers_to(value, expected):
    assert list(references(value)) == expected


KNOWN = {BOX: Found(BOX, "box-7", attributes={"id": "other", "name": "case"}), LID: Found(LID, "lid-7", {"name": "wrong"}, {"name": "top"})}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Ref(BOX), "box-7"),
        (Ref(BOX, "name"), "case"),
        (PINK, "box-7 under top"),
        ([PINK, 3], ["box-7 under top", 3]),
        ((Ref(BOX),), ("box-7",)),
        ({Ref(BOX), "x"}, {"box-7", "x"}),
        ({"a": {"b": Ref(LID)}}, {"a": {"b": "lid-7"}}),
        ("text", "text"),
        (None, None),
    ],
)
def test_values_of_what_is_known(value, expected):
    found = resolve(value, KNOWN)
    assert found == expected
    assert type(found) is type(expected)


def test_a_value_is_unknown_as_long_as_one_of_its_references_is():
    assert resolve(PINK, {BOX: KNOWN[BOX]}) is UNKNOWN
    assert resolve([Ref(LID), Ref(BOX)], {BOX: KNOWN[BOX]}) == [UNKNOWN, "box-7"]
    with pytest.raises(KeyError, match="colour"):
        resolve(Ref(BOX, "colour"), KNOWN)


def test_unknown_values_are_one():
    assert (repr(UNKNOWN), type(UNKNOWN)() == UNKNOWN, UNKNOWN == KNOWN_AFTER_APPLY) == (KNOWN_AFTER_APPLY, True, False)
    assert len({UNKNOWN, type(UNKNOWN)()}) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (UNKNOWN, KNOWN_AFTER_APPLY),
        ({1: UNKNOWN, BOX: [UNKNOWN]}, {"1": KNOWN_AFTER_APPLY, "box main": [KNOWN_AFTER_APPLY]}),
        ({3, 20, 1}, [1, 20, 3]),
        ({"b", 3}, [3, "b"]),
        ((1, {"a"}), [1, ["a"]]),
        (None, None),
        (1.5, 1.5),
    ],
)
def test_values_that_json_can_hold(value, expected):
    assert printable(value) == expected


def test_an_address_reads_as_kind_and_key():
    assert str(BOX) == "box main"
