"""Tests that apply a plan and check the order, the concurrency, and the description of failures."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import replace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.errors import ApplyError, half_deleted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.execute import apply_plan
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Kind, make_plan, split_replacing
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found, Wanted

from .boxes import BOX, KINDS, LID, WANTED, Shelf, create, settle


def test_apply_gives_ids_to_dependents_and_settles_in_between():
    shelf = Shelf()
    after = apply_plan(shelf, make_plan(WANTED, [], KINDS), [], KINDS)
    assert shelf.done == [
        "create box main {'colour': 'red', 'size': 3}",
        "settle box main",
        "create lid main {'box': 'box-1'}",
        "settle lid main",
    ]
    assert after[LID].properties == {"box": "box-1"}


def test_what_is_deferred_stays_as_it_is():
    """The result of a run says what exists, not what a later run may change."""
    kinds = {"box": Kind("box", create, lambda *_: None, update=update, updatable=frozenset({"colour"}), replacing=frozenset({"size"}))}
    found = [Found(BOX, "box-1", {"colour": "red", "size": 3})]
    now, later = split_replacing(make_plan([Wanted(BOX, {"colour": "blue", "size": 4})], found, kinds), kinds)
    assert ([each.after for each in now], [each.after for each in later]) == ([{"colour": "blue"}], [{"size": 4}])
    assert apply_plan(Shelf(), now, found, kinds)[BOX].properties == {"colour": "blue", "size": 3}


def test_an_update_gets_no_value_of_what_the_definition_leaves_open():
    kinds = {"box": Kind("box", create, lambda *_: None, update=update, updatable=frozenset({"colour"}))}
    plan = make_plan([Wanted(BOX, {"colour": "blue", "size": None})], [Found(BOX, "box-1", {"colour": "red", "size": None})], kinds)
    assert apply_plan(Shelf(), plan, [], kinds)[BOX].properties == {"colour": "blue"}


def update(_shelf, found, properties, _changed):
    return replace(found, properties=properties)


def test_without_waiting_only_what_others_need_is_settled():
    shelf = Shelf()
    apply_plan(shelf, make_plan(WANTED, [], KINDS), [], KINDS, wait_for_all=False)
    assert "settle box main" in shelf.done
    assert "settle lid main" not in shelf.done


def test_independent_changes_run_at_the_same_time():
    barrier = threading.Barrier(3, timeout=60)

    def meet(_shelf, address, properties):
        barrier.wait()
        return Found(address, address.key, properties)

    kinds = {"box": Kind("box", meet, lambda *_: None)}
    plan = make_plan([Wanted(Address("box", key)) for key in "abc"], [], kinds)
    assert len(apply_plan(None, plan, [], kinds)) == 3


def test_a_failure_tells_what_was_applied_and_starts_nothing_more():
    def refuse(_shelf, _address, _properties):
        raise RuntimeError("no more lids")

    shelf = Shelf()
    kinds = {**KINDS, "lid": Kind("lid", refuse, KINDS["lid"].delete)}
    label = Wanted(Address("label", "new"), after=(LID,))
    with pytest.raises(ApplyError, match="Could not create lid main: no more lids") as error:
        apply_plan(shelf, make_plan([*WANTED, label], [], kinds), [], kinds)
    assert [change.address for change in error.value.applied] == [BOX]
    assert not any("label" in line for line in shelf.done)


def test_what_is_created_and_not_ready_counts_as_applied():
    def never(_shelf, _found):
        raise RuntimeError("still pending")

    kinds = {"box": Kind("box", create, lambda *_: None, settle=never)}
    with pytest.raises(ApplyError, match="Could not create box main: the resource exists, but is not ready: still pending") as error:
        apply_plan(Shelf(), make_plan([Wanted(BOX, {"colour": "red"})], [], kinds), [], kinds)
    assert [change.address for change in error.value.applied] == [BOX]


@pytest.mark.parametrize("is_half", [True, False])
def test_what_is_half_deleted_counts_as_applied(is_half):
    def refuse(_shelf, _found):
        with half_deleted() if is_half else nullcontext():
            raise RuntimeError("not allowed")

    kinds = {"box": Kind("box", create, refuse)}
    found = [Found(BOX, "box-1", {})]
    with pytest.raises(ApplyError, match="Could not delete box main: not allowed") as error:
        apply_plan(Shelf(), make_plan([], found, kinds), found, kinds)
    assert [change.address for change in error.value.applied] == ([BOX] if is_half else [])
    assert type(error.value.cause) is RuntimeError


def test_no_change_is_made_once_the_run_is_to_end():
    shelf, to_end = Shelf(), threading.Event()

    def check():
        if to_end.is_set():
            raise RuntimeError("interrupted")

    def create_and_end(shelf, address, properties):
        to_end.set()
        return create(shelf, address, properties)

    kinds = {**KINDS, "box": Kind("box", create_and_end, KINDS["box"].delete, settle=settle)}
    with pytest.raises(ApplyError, match="interrupted") as error:
        apply_plan(shelf, make_plan(WANTED, [], kinds), [], kinds, before_each=check)
    assert [change.address for change in error.value.applied] == [BOX]
    assert not any("create lid" in text for text in shelf.done)
