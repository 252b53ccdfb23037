"""Tests of how the role queue finds the master, a host with the MUNGE key, and the parameters that a host lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.ansible_templates import evaluated, task_of

TASKS = Path(__file__).resolve().parents[3] / "roles" / "queue" / "tasks"
HOSTS = ["a", "b", "c"]
KEY = "A" * 171 + "="


def fact(file, name, **variables):
    """Return the only fact that a task sets."""
    task = task_of(TASKS / file, name)
    (template,) = task["ansible.builtin.set_fact"].values()
    return evaluated(template, task["vars"], __queue_hosts=HOSTS, **variables)


@pytest.mark.parametrize(
    ("numbers", "expected"), [((2, 1, 3), "b"), ((2, "1", 3), "b"), ((2, None, 1), "c"), ((2, 3, 4), ""), ((None, None, None), "")]
)
def test_the_master_is_the_host_with_the_number_1(numbers, expected):
    known = {host: {"deeplearning_number": number} if number else {} for host, number in zip(HOSTS, numbers, strict=True)}
    assert fact("prepare.yml", "Find the master", hostvars=known) == expected


@pytest.mark.parametrize(
    ("results", "present", "expected"),
    [
        (({"skipped": True}, {"key": KEY}, {"key": KEY}), HOSTS, "b"),
        (({"skipped": True}, {"key": KEY}, {"key": KEY}), ["a", "c"], "c"),
        (({"skipped": True}, {"key": "none"}, {"msg": "no key"}), HOSTS, "a"),
        ((None, None, None), HOSTS, "a"),
    ],
)
def test_the_first_host_that_returns_a_whole_key_is_its_holder(results, present, expected):
    known = {host: {"__queue_key_read": result} if result else {} for host, result in zip(HOSTS, results, strict=True)}
    given = {"hostvars": known, "ansible_play_hosts": present, "__queue_master": "a"}
    assert fact("key.yml", "Find a host that returned the MUNGE key", **given) == expected


@pytest.mark.parametrize(("host", "expected"), [("new", ["x", "z", "x"]), ("a", [])])
def test_a_host_gets_the_parameters_that_it_lacks_once_from_each_holder(host, expected):
    task = task_of(TASKS / "parameters.yml", "Write the parameters")

    def answer(*names):
        return {"__queue_parameters": {"parameters": [{"name": name} for name in names]}}

    known = {"a": answer("x", "x", "y"), "b": {"__queue_parameters": {"msg": "failed"}}, "c": answer("z", "x")}
    transfers = {"holders": {"a": ["x"], "b": ["x"], "c": ["z"]}, "lacking": {"new": ["x", "z"]}}
    given = {"hostvars": known, "__queue_transfers": transfers, "inventory_hostname": host}
    found = evaluated(task["deeplearning.cluster.queued_jobs"]["parameters"], task["vars"], **given)
    assert [each["name"] for each in found] == expected
