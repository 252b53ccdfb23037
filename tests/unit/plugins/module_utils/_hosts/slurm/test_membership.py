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


# What scontrol shows after the reason, one field or several. Source: slurm_sprint_node_table() in src/api/node_info.c of Slurm.
AFTER_REASON = (
    "Comment=GPU 3 is slow [see ticket]",
    'Extra={"a": "b c"}',
    "InstanceId=i-1 InstanceType=p5.48xlarge",
    "ReservationName=maintenance",
)


@pytest.mark.parametrize("fields", [*AFTER_REASON, " ".join(AFTER_REASON)])
def test_other_fields_are_no_part_of_a_reason(fields):
    line = f"NodeName=w2 State=IDLE+DRAIN+MAINTENANCE+RESERVED Reason={REASON} [root@2026-11-23T10:00:00] {fields}"
    assert parse_states(line)["w2"] == state("IDLE", "DRAIN", "MAINTENANCE", "RESERVED", reason=REASON)


def test_the_other_lines_of_a_reason_are_left_out():
    line = "NodeName=w2 State=DOWN Reason=bad memory [root@2026-11-23T10:00:00]        ask the operator"
    assert parse_states(line)["w2"].reason == "bad memory"


def test_states_and_reasons_are_read():
    assert parse_states(LISTING) == {
        "demo-master": state("IDLE"),
        "demo-worker2": state("MIXED", "DRAIN", reason=REASON),
        "demo-worker3": state("DOWN", "NOT_RESPONDING", "POWERED_DOWN", reason="Not responding"),
    }
    assert parse_states("No nodes in the system\n") == {}


@pytest.mark.parametrize(
    ("flags", "registered"),
    [
        (("IDLE",), True),
        (("MIXED", "DRAIN"), True),
        (("RESERVED",), True),
        (("DOWN",), False),
        (("IDLE", "NOT_RESPONDING"), False),
        (("UNKNOWN",), False),
        (("IDLE", "INVALID_REG"), False),
        (("IDLE", "DRAIN", "INVALID_REG"), False),
        (("INVAL",), False),
        (("ERROR",), False),
        (("SOMETHING_NEW",), False),
    ],
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


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("gres/gpu count reported lower than configured (0 < 8)", True),
        ("gres/gpu count too low (0 < 8)", True),
        ("Low RealMemory (reported:1 < 100.00% of configured:2)", True),
        ("Low TmpDisk", True),
        ("Low socket*core count", True),
        ("Lower the power of this node", False),
        ("bad gres/gpu count", False),
        (REASON, False),
    ],
)
def test_a_node_that_once_had_too_little_hardware_can_come_back(reason, expected):
    assert state("IDLE", "DRAIN", reason=reason).had_too_little is expected
    assert not state("IDLE", reason=reason).had_too_little


@pytest.mark.parametrize(
    ("shown", "flags"),
    [
        ("IDLE+DRAIN+INVALID_REG", {"IDLE", "DRAIN", "INVALID_REG"}),
        ("IDLE*", {"IDLE", "NOT_RESPONDING"}),
        ("DOWN*+DRAIN", {"DOWN", "NOT_RESPONDING", "DRAIN"}),
        ("MIXED-", {"MIXED"}),
        ("IDLE$", {"IDLE"}),
        ("MAINT@", {"MAINT"}),
    ],
)
def test_marks_after_a_state_are_no_part_of_it(shown, flags):
    assert parse_states(f"NodeName=w2 Arch=x86_64 State={shown} ThreadsPerCore=1\n")["w2"].flags == flags


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
    assert parse_jobs("12\n12\n9\n103\n") == ["9", "12", "103"]
    assert parse_jobs("") == []


@pytest.mark.parametrize("word", ["12_[1-39:2]", "13_[1,3,5,7,...]", "56_[60-89,91-94%2]", "12.batch", "12+0", "JOBID"])
def test_an_unknown_form_of_an_id_is_an_error_instead_of_an_empty_queue(word):
    """The directory of an empty queue is deleted."""
    with pytest.raises(ValueError, match="squeue returned"):
        parse_jobs(f"11\n{word}\n")
