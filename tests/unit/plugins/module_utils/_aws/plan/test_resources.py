# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""References and computed values of resources."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import (
    KNOWN_AFTER_APPLY,
    UNKNOWN,
    Computed,
    Found,
    Ref,
    printable,
    resolve,
)

from .boxes import BOX


def test_computed_values_wait_for_their_inputs():
    text = Computed(lambda box: f"inside {box}", (Ref(BOX),))
    assert resolve(text, {}) is UNKNOWN
    assert resolve(text, {BOX: Found(BOX, "box-7")}) == "inside box-7"
    assert resolve({"a": (1, Ref(BOX)), "b": frozenset({Ref(BOX)})}, {BOX: Found(BOX, "box-7")}) == {
        "a": (1, "box-7"),
        "b": frozenset({"box-7"}),
    }
    assert printable({"b": frozenset({"y", "x"}), "c": (UNKNOWN,)}) == {"b": ["x", "y"], "c": [KNOWN_AFTER_APPLY]}
