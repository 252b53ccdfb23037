"""Tests of the names of jobs, processes, units and slices."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import naming


@pytest.mark.parametrize("name", ["a", "digits", "digits-2", "2026", "a" * 63])
def test_names(name):
    assert naming.check_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a_b", "a/b", "../a", "a b", "a\n", "a.b", "ü", "a" * 64])
def test_what_is_not_a_name(name):
    with pytest.raises(ValueError, match=r"^name: .* is not a valid job name"):
        naming.check_name(name)


def test_no_jobs_slice_is_inside_that_of_another():
    names = ["a", "a-b", "a-b-c", "ab"]
    slices = [naming.slice_name(name) for name in names]
    assert len(set(slices)) == len(names)
    assert slices == ["deeplearning-a.slice", "deeplearning-a_b.slice", "deeplearning-a_b_c.slice", "deeplearning-ab.slice"]


@pytest.mark.parametrize("name", ["rank0", "ps12", "scheduler"])
def test_no_unit_of_one_job_has_the_name_of_anothers(name):
    assert naming.PROCESS_NAME.fullmatch(name)
    assert not naming.PROCESS_NAME.fullmatch("a-" + name)
    assert naming.unit_name("digits", name) == f"deeplearning-digits-{name}.service"


@pytest.mark.parametrize(("name", "words"), [("rank0", "rank 0"), ("ps12", "ps 12"), ("scheduler", "scheduler")])
def test_title(name, words):
    assert naming.title(name) == words
