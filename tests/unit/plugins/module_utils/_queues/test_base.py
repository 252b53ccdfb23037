"""Tests of the code that all queues share."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues import base


@pytest.mark.parametrize(
    ("output", "identity"),
    [("12\n", "12"), ("12;demo\n", "12"), ("7", "7"), ("application_1404198295326_0003", "application_1404198295326_0003")],
)
def test_the_id_of_a_new_entry(output, identity):
    assert base.read_id(output) == identity


@pytest.mark.parametrize(
    "output", ["", "Submitted batch job 12", "12 34", "x12", "1" * 19, "-1", "application_1404198295326", "application_1_x"]
)
def test_an_output_without_an_id_is_refused(output):
    with pytest.raises(base.QueueError) as error:
        base.read_id(output + " " * 300)
    assert str(error.value) == f"the queue returned {output!r} instead of the job's ID. Check the queue."


def test_a_long_output_is_cut():
    with pytest.raises(base.QueueError) as error:
        base.read_id("x" * 1000)
    assert f"{'x' * 200!r}" in str(error.value)


@pytest.mark.parametrize(
    ("stage", "is_active"), [(base.WAITING, True), (base.ALLOCATED, True), (base.ENDED, False), (base.CANCELLED, False)]
)
def test_an_entry_is_active_until_it_ends(stage, is_active):
    assert base.QueueEntry("1", stage, "", 0).is_active == is_active
