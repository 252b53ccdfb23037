"""Tests of the table of queues."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.registry import QUEUES
from ansible_collections.deeplearning.cluster.plugins.modules import training_job

REPOSITORY = Path(__file__).parents[5]


@pytest.mark.parametrize("name", sorted(QUEUES))
def test_a_queue_has_a_playbook_and_programs(name):
    queue = QUEUES[name]
    assert (REPOSITORY / "playbooks" / f"{queue.playbook}.yml").is_file()
    commands = [queue.show_hosts, queue.show_own, queue.show_waiting, queue.cancel(["1"]), queue.allocation({}), queue.show_host("w1")]
    assert {command[0] for command in commands} <= set(queue.programs)


def test_documentation_and_roles_have_the_same_choices():
    options = yaml.safe_load(training_job.DOCUMENTATION)["options"]
    assert options["queue"]["choices"] == sorted(QUEUES)
    assert f"select('in', {sorted(QUEUES)!r})" in (REPOSITORY / "roles/training_job/vars/main.yml").read_text()
