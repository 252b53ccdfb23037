"""Tests of the plan: what it compares, what it refuses, and the order of the changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.errors import DuplicateResources, ForbiddenChange
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import (
    Action,
    Policy,
    make_plan,
    split_replacing,
    users_of,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import KNOWN_AFTER_APPLY, Address, Found, Ref, Wanted

from .boxes import BOX, KINDS, LID, WANTED

LABEL = Address("label", "main")
# A change of width or depth requires a new box
REPLACED = {**KINDS, "box": replace(KINDS["box"], replacing=frozenset({"width", "depth"}))}


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
    assert (change.found, change.wanted, change.policy) == (found[0], WANTED[1], Policy.IN_PLACE)


def test_forbidden_changes_are_named_together_with_advice():
    found = [Found(BOX, "box-1", {"colour": "red", "size": 2}), Found(LID, "lid-1", {"box": "box-2"})]
    with pytest.raises(ForbiddenChange) as error:
        make_plan(WANTED, found, KINDS)
    assert str(error.value) == (
        "lid main: box is 'box-2' and cannot be changed to 'box-1'. Take another lid. "
        f"box main: size is 2 and cannot be changed to 3. {KINDS['label'].advice}"
    )
    assert KINDS["label"].advice == "Restore the former value, or delete the cluster (the data is kept) and create it again."


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


def test_two_resources_for_one_are_refused_and_deleted_one_at_a_time():
    twice = [Found(BOX, "box-1", {"colour": "red"}), Found(BOX, "box-2", {"colour": "red"})]
    with pytest.raises(DuplicateResources, match=r"^box main: box-1 and box-2 have the tags of this resource\. .* uses\.$") as error:
        make_plan([Wanted(BOX, {"colour": "red"})], [*twice, Found(LID, "lid-1"), Found(LID, "lid-2")], KINDS)
    assert "lid" not in str(error.value), "it is not wanted, so it does not matter which of the two is the cluster's own"
    assert [change.address for change in make_plan([], twice, KINDS)] == [BOX]
    adopted = Found(BOX, "box-3", adopted=True)
    assert make_plan([Wanted(BOX, {"colour": "red"})], [twice[0], adopted], KINDS) == []
    assert make_plan([Wanted(BOX, {"colour": "red"})], [twice[0], twice[0]], KINDS) == []


def test_deletes_come_last():
    old_lid = Address("lid", "old")
    plan = make_plan([Wanted(BOX, {"colour": "red"})], [Found(old_lid, "lid-0")], KINDS)
    assert [change.address for change in plan] == [BOX, old_lid]


def test_a_circle_is_an_error_and_not_a_hang():
    with pytest.raises(ValueError, match=r"^The changes depend on each other: box main, lid main$"):
        make_plan([Wanted(BOX, {"x": Ref(LID)}), Wanted(LID, {"x": Ref(BOX)}), Wanted(LABEL)], [], KINDS)


def test_what_is_deleted_first_is_deleted_before_the_changes_that_come_after_it():
    kinds = {**KINDS, "label": replace(KINDS["label"], deleted_first=True)}
    found = [Found(Address("label", "old"), "label-1", {})]
    plan = make_plan([Wanted(BOX, {"colour": "red"}, after=(Address("label", "old"),)), Wanted(LID, {"box": Ref(BOX)})], found, kinds)
    assert [str(change.address) for change in plan] == ["label old", "box main", "lid main"]


def test_the_user_of_a_resource_may_declare_the_order_of_deletion():
    label = Found(Address("label", "main"), "label-1")
    kinds = {**KINDS, "label": replace(KINDS["label"], deleted_before=("lid",))}
    plan = make_plan([], [Found(LID, "lid-1"), label], kinds)
    assert [change.address for change in plan] == [label.address, LID]
    assert users_of("lid", kinds) == {"label"}


def test_a_change_as_modules_return_it():
    created, deleted = make_plan([Wanted(BOX, {"inside": Ref(LABEL), "sizes": {3, 1}})], [Found(LID, "lid-1", {"box": "box-0"})], KINDS)
    assert created.describe() == {
        "kind": "box",
        "key": "main",
        "action": "create",
        "policy": "in_place",
        "before": {},
        "after": {"inside": KNOWN_AFTER_APPLY, "sizes": [1, 3]},
    }
    assert deleted.describe() == {
        "kind": "lid",
        "key": "main",
        "action": "delete",
        "policy": "in_place",
        "before": {"box": "box-0"},
        "after": {},
    }
    assert (deleted.found, deleted.wanted) == (Found(LID, "lid-1", {"box": "box-0"}), Wanted(LID))


def test_a_change_as_ansible_shows_it_with_diff():
    created, deleted = make_plan([Wanted(BOX, {"inside": Ref(LABEL)})], [Found(LID, "lid-1", {"box": "box-0"})], KINDS)
    assert created.difference() == {
        "before_header": "create box main",
        "after_header": "create box main",
        "before": "",
        "after": {"inside": KNOWN_AFTER_APPLY},
    }
    assert deleted.difference() == {
        "before_header": "delete lid main",
        "after_header": "delete lid main",
        "before": {"box": "box-0"},
        "after": "",
    }


def test_an_applied_change_shows_the_ids_that_were_not_known_before():
    _box, lid = make_plan([Wanted(BOX), Wanted(LID, {"box": Ref(BOX), "label": None})], [], KINDS)
    assert lid.describe()["after"] == {"box": KNOWN_AFTER_APPLY}
    assert lid.applied({BOX: Found(BOX, "box-1")}) == replace(lid, after={"box": "box-1"})


@pytest.mark.parametrize(
    ("name", "policy"), [("colour", Policy.IN_PLACE), ("width", Policy.REPLACE), ("size", Policy.FORBIDDEN), ("other", Policy.FORBIDDEN)]
)
def test_what_a_change_of_a_property_means(name, policy):
    assert REPLACED["box"].policy(name) is policy
    both = replace(KINDS["box"], replacing=frozenset({"colour"}))
    assert both.policy("colour") is Policy.REPLACE


@pytest.mark.parametrize(
    ("properties", "policy"),
    [
        ({"colour": "blue", "width": 1, "depth": 1}, Policy.IN_PLACE),
        ({"colour": "red", "width": 2, "depth": 1}, Policy.REPLACE),
        ({"colour": "blue", "width": 2, "depth": 2}, Policy.REPLACE),
    ],
)
def test_an_update_replaces_where_one_of_its_properties_does(properties, policy):
    (change,) = make_plan([Wanted(BOX, properties)], [Found(BOX, "box-1", {"colour": "red", "width": 1, "depth": 1})], REPLACED)
    assert (change.policy, change.action) == (policy, Action.UPDATE)


def test_what_is_created_or_deleted_replaces_nothing():
    created, deleted = make_plan([Wanted(BOX, {"width": 1})], [Found(Address("box", "old"), "box-0", {"width": 1})], REPLACED)
    assert (created.policy, deleted.policy) == (Policy.IN_PLACE, Policy.IN_PLACE)


def test_a_plan_without_what_nodes_have_to_be_replaced_for():
    box, other, lid, label = BOX, Address("box", "other"), LID, LABEL
    wanted = [
        Wanted(box, {"colour": "blue", "width": 2}),
        Wanted(other, {"depth": 2}),
        Wanted(lid, {"colour": "red"}, after=(box, other)),
        Wanted(label, {"colour": "red"}, after=(lid,)),
    ]
    found = [Found(box, "box-1", {"colour": "red", "width": 1}), Found(other, "box-2", {"depth": 1})]
    now, later = split_replacing(make_plan(wanted, found, REPLACED), REPLACED)
    assert [(change.address, change.policy, dict(change.before), dict(change.after)) for change in now] == [
        (box, Policy.IN_PLACE, {"colour": "red"}, {"colour": "blue"}),
        (lid, Policy.IN_PLACE, {}, {"colour": "red"}),
        (label, Policy.IN_PLACE, {}, {"colour": "red"}),
    ]
    assert [change.prerequisites for change in now] == [set(), {box}, {lid}]
    assert [(change.address, change.policy, dict(change.before), dict(change.after)) for change in later] == [
        (box, Policy.REPLACE, {"width": 1}, {"width": 2}),
        (other, Policy.REPLACE, {"depth": 1}, {"depth": 2}),
    ]


def test_changes_wait_for_what_they_refer_to_or_come_after_as_far_as_it_changes():
    wanted = [Wanted(LID, {"box": Ref(BOX), "label": Ref(LABEL)}), Wanted(BOX, {}, after=(LABEL, Address("box", "other"))), Wanted(LABEL)]
    assert {change.address: change.prerequisites for change in make_plan(wanted, [], KINDS)} == {
        LABEL: set(),
        BOX: {LABEL},
        LID: {BOX, LABEL},
    }
    plan = make_plan(wanted, [Found(LABEL, "label-1")], KINDS)
    assert [(change.address, change.prerequisites) for change in plan] == [(BOX, set()), (LID, {BOX})]


def test_a_chain_is_followed_to_its_end():
    boxes = [Address("box", str(number)) for number in range(4)]
    wanted = [Wanted(box, {}, after=tuple(boxes[:number])) for number, box in enumerate(boxes)]
    assert [change.address for change in make_plan(wanted[::-1], [], KINDS)] == boxes


def test_deletes_wait_for_their_users_and_for_all_other_changes():
    gone = [Found(LID, "lid-1", {"box": "box-1"}), Found(Address("box", "old"), "box-0")]
    plan = make_plan([Wanted(BOX)], gone, KINDS)
    assert [(change.address, change.prerequisites) for change in plan] == [
        (BOX, set()),
        (LID, {BOX}),
        (Address("box", "old"), {BOX, LID}),
    ]


def test_a_kind_without_updates_says_so():
    with pytest.raises(TypeError, match=r"^A label has no properties that can be updated$"):
        KINDS["label"].update(None, Found(LABEL, "label-1"), {}, ["colour"])
