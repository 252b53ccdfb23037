from __future__ import annotations

from pathlib import Path

import pytest

from unit.ansible_templates import evaluated, loaded

PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"


@pytest.mark.parametrize(
    ("definition", "are_checked"),
    [
        ({"deeplearning_worker_count": 2}, False),
        ({"deeplearning_worker_count": "3"}, False),
        ({"deeplearning_worker_count": 1, "deeplearning_spares": 1}, False),
        ({"deeplearning_worker_count": 1}, True),
        ({"deeplearning_worker_count": 0}, True),
        ({"deeplearning_worker_count": "many"}, True),
        ({"deeplearning_worker_count": None}, True),
        ({}, True),
        ({"deeplearning_worker_count": 2, "deeplearning_replace_nodes": "true"}, True),
        ({"deeplearning_worker_count": 2, "deeplearning_state": "absent"}, True),
        ({"deeplearning_worker_count": 2, "deeplearning_state": ""}, False),
    ],
)
@pytest.mark.parametrize("is_of_run", [False, True])
def test_jobs_are_looked_for_unless_the_definition_keeps_all_nodes(definition, are_checked, is_of_run):
    """The definition consists of variables of the inventory, or of variables of the run or of an imported playbook."""
    (play,) = loaded(PLAYBOOKS / "check_jobs.yml")
    given = {"groups": {"workers": ["a", "b"]}, "hostvars": {"localhost": {} if is_of_run else definition}}
    found = evaluated(play["hosts"], play["vars"], given, definition if is_of_run else {})
    assert found == ("trainers" if are_checked else "trainers:!trainers")


def test_variables_of_the_run_take_precedence():
    (play,) = loaded(PLAYBOOKS / "check_jobs.yml")
    hostvars = {"localhost": {"deeplearning_worker_count": 2, "deeplearning_state": "present"}}
    given = {"groups": {"workers": ["a", "b"]}, "hostvars": hostvars}
    assert evaluated(play["hosts"], play["vars"], given) == "trainers:!trainers"
    assert evaluated(play["hosts"], play["vars"], given, deeplearning_worker_count=1) == "trainers"
    assert evaluated(play["hosts"], play["vars"], given, deeplearning_state="absent") == "trainers"
