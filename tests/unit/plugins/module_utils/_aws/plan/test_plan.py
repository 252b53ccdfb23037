# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The plan: what is compared, what is refused, in which order things happen."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.execute import ApplyError, apply_plan
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, ForbiddenChange, Kind, make_plan
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import (
    KNOWN_AFTER_APPLY,
    UNKNOWN,
    Address,
    Computed,
    Found,
    Ref,
    Wanted,
    printable,
    resolve,
)

BOX, LID = Address("box", "main"), Address("lid", "main")


class Shelf:
    """Keeps what the kinds below do, in the order in which they do it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.lock = threading.Lock()

    def note(self, text: str) -> None:
        with self.lock:
            self.done.append(text)


def _create(shelf: Shelf, address: Address, properties: dict) -> Found:
    shelf.note(f"create {address} {properties}")
    return Found(address, f"{address.kind}-1", properties)


def _settle(shelf: Shelf, found: Found) -> Found:
    shelf.note(f"settle {found.address}")
    return found


KINDS = {
    "box": Kind(
        "box",
        _create,
        lambda shelf, found: shelf.note(f"delete {found.address}"),
        update=lambda shelf, found, _properties, changed: shelf.note(f"update {found.address} {sorted(changed)}"),
        settle=_settle,
        updatable=frozenset({"colour"}),
        deleted_after=("lid",),
    ),
    "lid": Kind("lid", _create, lambda shelf, found: shelf.note(f"delete {found.address}"), settle=_settle, advice="Take another lid."),
    "label": Kind("label", _create, lambda shelf, found: shelf.note(f"delete {found.address}")),
}
WANTED = [Wanted(LID, {"box": Ref(BOX)}), Wanted(BOX, {"colour": "red", "size": 3})]


def test_nothing_exists():
    plan = make_plan(WANTED, [], KINDS)
    assert [(change.address, change.action) for change in plan] == [(BOX, Action.CREATE), (LID, Action.CREATE)]
    assert plan[1].describe()["after"] == {"box": KNOWN_AFTER_APPLY}


def test_everything_is_as_wanted():
    found = [Found(BOX, "box-1", {"colour": "red", "size": 3, "weight": 9}), Found(LID, "lid-1", {"box": "box-1"})]
    assert make_plan(WANTED, found, KINDS) == []


def test_update_in_place_shows_only_what_differs():
    found = [Found(BOX, "box-1", {"colour": "blue", "size": 3}), Found(LID, "lid-1", {"box": "box-1"})]
    (change,) = make_plan(WANTED, found, KINDS)
    assert (change.action, change.before, change.after) == (Action.UPDATE, {"colour": "blue"}, {"colour": "red"})


def test_forbidden_changes_are_named_together_with_advice():
    found = [Found(BOX, "box-1", {"colour": "red", "size": 2}), Found(LID, "lid-1", {"box": "box-2"})]
    with pytest.raises(ForbiddenChange) as error:
        make_plan(WANTED, found, KINDS)
    assert "box main: size is 2 and cannot become 3" in str(error.value)
    assert "Take another lid." in str(error.value)


def test_omitted_properties_are_left_as_they_are():
    found = [Found(BOX, "box-1", {"colour": "blue"})]
    assert make_plan([Wanted(BOX, {"colour": None})], found, KINDS) == []


def test_what_is_not_wanted_is_deleted_after_its_users():
    found = [Found(BOX, "box-1"), Found(LID, "lid-1")]
    assert [(change.action, change.address) for change in make_plan([], found, KINDS)] == [(Action.DELETE, LID), (Action.DELETE, BOX)]


def test_adopted_and_kept_things_are_never_touched():
    adopted = Found(BOX, "box-1", {"colour": "blue"}, adopted=True)
    assert make_plan([Wanted(BOX, {"colour": "red"})], [adopted], KINDS) == []
    assert make_plan([], [adopted], KINDS) == []
    assert make_plan([], [Found(LID, "lid-1")], KINDS, keep=lambda found: found.address == LID) == []


def test_deletes_come_last():
    old_lid = Address("lid", "old")
    plan = make_plan([Wanted(BOX, {"colour": "red"})], [Found(old_lid, "lid-0")], KINDS)
    assert [change.address for change in plan] == [BOX, old_lid]


def test_computed_values_wait_for_their_inputs():
    text = Computed(lambda box: f"inside {box}", (Ref(BOX),))
    assert resolve(text, {}) is UNKNOWN
    assert resolve(text, {BOX: Found(BOX, "box-7")}) == "inside box-7"
    assert resolve({"a": (1, Ref(BOX)), "b": frozenset({Ref(BOX)})}, {BOX: Found(BOX, "box-7")}) == {
        "a": (1, "box-7"),
        "b": frozenset({"box-7"}),
    }
    assert printable({"b": frozenset({"y", "x"}), "c": (UNKNOWN,)}) == {"b": ["x", "y"], "c": [KNOWN_AFTER_APPLY]}


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


def test_without_waiting_only_what_others_need_is_settled():
    shelf = Shelf()
    apply_plan(shelf, make_plan(WANTED, [], KINDS), [], KINDS, wait_for_all=False)
    assert "settle box main" in shelf.done
    assert "settle lid main" not in shelf.done


def test_independent_changes_run_at_the_same_time():
    barrier = threading.Barrier(3, timeout=10)

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


def test_a_circle_is_an_error_and_not_a_hang():
    with pytest.raises(ValueError, match="wait for each other"):
        make_plan([Wanted(BOX, {"x": Ref(LID)}), Wanted(LID, {"x": Ref(BOX)})], [], KINDS)


def test_what_is_created_and_not_ready_counts_as_applied():
    def never(_shelf, _found):
        raise RuntimeError("still pending")

    kinds = {"box": Kind("box", _create, lambda *_: None, settle=never)}
    with pytest.raises(ApplyError, match="Could not create box main: it is there, and not ready: still pending") as error:
        apply_plan(Shelf(), make_plan([Wanted(BOX, {"colour": "red"})], [], kinds), [], kinds)
    assert [change.address for change in error.value.applied] == [BOX]


def test_no_change_is_made_once_the_run_is_to_end():
    shelf, to_end = Shelf(), threading.Event()

    def check():
        if to_end.is_set():
            raise RuntimeError("interrupted")

    def create(shelf, address, properties):
        to_end.set()
        return _create(shelf, address, properties)

    kinds = {**KINDS, "box": Kind("box", create, KINDS["box"].delete, settle=_settle)}
    with pytest.raises(ApplyError, match="interrupted") as error:
        apply_plan(shelf, make_plan(WANTED, [], kinds), [], kinds, before_each=check)
    assert [change.address for change in error.value.applied] == [BOX]
    assert not any("create lid" in text for text in shelf.done)
