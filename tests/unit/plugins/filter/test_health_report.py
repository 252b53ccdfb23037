"""Tests of the report that the role node_health shows."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.filter.health_report import health_report

FINDING = {"check": "disks", "severity": "restart", "message": "/: full."}


def test_healthy_nodes_have_a_text_and_no_advice():
    assert health_report({"c-1": []}) == {"text": "The node is healthy.", "advice": "", "unhealthy": []}


def test_unhealthy_and_unreachable_nodes():
    found = health_report({"c-1": [FINDING], "c-2": []}, unreachable=["c-3"], jobs=[{"name": "a", "words": "a runs on c-3"}])
    assert found == {
        "text": "restart  c-1: disks: /: full.\n"
        "c-3: not checked, because of the error above. Job a runs on c-3.\n1 of 3 nodes are healthy.",
        "advice": "Correct the cause on c-1, and then restart the jobs there.\nA job can run on an unreachable node. If you cannot reach "
        "c-3 again, replace it. Replace c-3, or run jobs without it (training_job_hosts).",
        "unhealthy": ["c-1"],
    }


def test_exclusions_are_shown_with_the_way_to_end_them():
    person = {"by": "person", "text": "since 2026-11-25 10:15 UTC by a person: bad cable."}
    check = {"by": "xid", "text": "since 2026-11-25 10:16 UTC by the check xid: Xid 79.\n\x1b[31m"}
    text = health_report({"c-1": [], "c-2": [], "c-3": []}, exclusions={"c-1": [person, check], "c-2": [], "c-3": [check]})["text"]
    assert text.splitlines() == [
        "All 3 nodes are healthy.",
        "excluded c-1: since 2026-11-25 10:15 UTC by a person: bad cable.",
        "excluded c-1: since 2026-11-25 10:16 UTC by the check xid: Xid 79.",
        "excluded c-3: since 2026-11-25 10:16 UTC by the check xid: Xid 79.",
        "To let jobs use c-1 again, run: ansible-playbook deeplearning.cluster.health -e node_health_include=c-1",
        "Jobs use c-1, c-3 again when the check that has excluded the node passes. After an Xid error, this requires a reboot.",
    ]
