"""Tests of the table of queues."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.registry import QUEUES


@pytest.mark.parametrize("name", sorted(QUEUES))
def test_the_programs_of_a_queue_are_those_of_its_commands(name):
    queue = QUEUES[name]
    commands = [queue.show_hosts, queue.show_own, queue.show_waiting, queue.cancel(["1"]), queue.allocation({}), queue.show_host("w1")]
    assert {command[0] for command in commands} <= {*queue.programs, *(("GET", "PUT") if queue.reservations else ())}
