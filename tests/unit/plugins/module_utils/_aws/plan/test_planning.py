# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The plan: what is compared, what is refused, and what comes before what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, ForbiddenChange, make_plan, users_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import KNOWN_AFTER_APPLY, Address, Found, Ref, Wanted

from .boxes import BOX, KINDS, LID, WANTED


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


def test_a_circle_is_an_error_and_not_a_hang():
    with pytest.raises(ValueError, match="wait for each other"):
        make_plan([Wanted(BOX, {"x": Ref(LID)}), Wanted(LID, {"x": Ref(BOX)})], [], KINDS)


def test_the_user_of_a_resource_may_declare_the_order_of_deletion():
    label = Found(Address("label", "main"), "label-1")
    kinds = {**KINDS, "label": replace(KINDS["label"], deleted_before=("lid",))}
    plan = make_plan([], [Found(LID, "lid-1"), label], kinds)
    assert [change.address for change in plan] == [label.address, LID]
    assert users_of("lid", kinds) == {"label"}
