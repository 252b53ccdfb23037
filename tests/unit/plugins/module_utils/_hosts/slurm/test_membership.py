"""Tests that check what happens to nodes that join and leave a cluster."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.membership import (
    REASON,
    NodeState,
    NodeStates,
    decide,
    parse_jobs,
    parse_states,
)

LISTING = """\
NodeName=demo-master Arch=x86_64 CoresPerSocket=1 CPUAlloc=0 NodeAddr=10.0.0.4 State=IDLE ThreadsPerCore=1 Partitions=trainers
NodeName=demo-worker2 Arch=x86_64 State=MIXED+DRAIN Reason=deeplearning.cluster: leaves the cluster [root@2026-11-23T10:00:00]
NodeName=demo-worker3 State=DOWN*+POWERED_DOWN ThreadsPerCore=1 Reason=Not responding [slurm@2026-11-23T10:00:00]
"""


def state(*flags, reason=""):
    return NodeState(frozenset(flags), reason)


def test_states_and_reasons_are_read():
    assert parse_states(LISTING) == {
        "demo-master": state("IDLE"),
        "demo-worker2": state("MIXED", "DRAIN", reason=REASON),
        "demo-worker3": state("DOWN", "NOT_RESPONDING", "POWERED_DOWN", reason="Not responding"),
    }
    assert parse_states("No nodes in the system\n") == {}


@pytest.mark.parametrize(
    ("flags", "registered"),
    [(("IDLE",), True), (("MIXED", "DRAIN"), True), (("DOWN",), False), (("IDLE", "NOT_RESPONDING"), False), (("UNKNOWN",), False)],
)
def test_a_registered_node_answers(flags, registered):
    assert state(*flags).is_registered is registered


@pytest.mark.parametrize(
    ("found", "leaving"),
    [
        (state("IDLE", "DRAIN", reason=REASON), True),
        (state("IDLE", "DRAIN", reason="bad memory"), False),
        (state("MIXED", reason=REASON), False),
    ],
)
def test_nodes_that_an_operator_drained_are_not_ours(found, leaving):
    assert found.is_leaving is leaving


NOTHING = NodeStates(keep=[], down=[], drain=[])


@pytest.mark.parametrize(
    ("states", "decision"),
    [
        ({"a": state("IDLE"), "b": state("IDLE")}, NOTHING),
        ({"b": state("IDLE", "DRAIN", reason=REASON)}, NOTHING),
        ({"b": state("ALLOCATED")}, NOTHING._replace(keep=["b"], drain=["b"])),
        ({"b": state("COMPLETING", "DRAIN", reason=REASON)}, NOTHING._replace(keep=["b"])),
        ({"b": state("MIXED", "NOT_RESPONDING")}, NOTHING._replace(down=["b"])),
        ({"b": state("DOWN", "COMPLETING")}, NOTHING),
        ({"a": state("IDLE", "DRAIN", reason=REASON)}, NOTHING),
        ({}, NOTHING),
    ],
)
def test_running_jobs_keep_a_node_that_leaves(states, decision):
    """`a` stays in the cluster, and `b` leaves it."""
    assert decide(["a", "b"], ["a"], states) == decision


def test_a_new_node_needs_nothing():
    assert decide(["a"], ["a", "b"], {"a": state("MIXED")}) == NOTHING


def test_ids_of_jobs_are_read():
    assert parse_jobs("12\n13_4\n14_[1-3,5%2]\n15+1\n$(reboot)\n\n") == ["12", "13_4", "14_[1-3,5%2]", "15+1"]
