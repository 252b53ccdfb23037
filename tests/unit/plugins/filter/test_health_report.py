# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the report that the role node_health shows."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.filter.health_report import health_report

FINDING = {"check": "disks", "severity": "restart", "message": "/: full."}


def test_healthy_nodes_have_a_text_and_no_advice():
    assert health_report({"c-1": []}) == {"text": "The node is healthy.", "advice": "", "unhealthy": []}


def test_unhealthy_and_unreachable_nodes():
    found = health_report({"c-1": [FINDING], "c-2": []}, unreachable=["c-3"])
    assert found == {
        "text": "restart  c-1: disks: /: full.\n"
        "c-3: not checked, because of the error above. If a node stays unreachable, replace it.\n1 of 3 nodes are healthy.",
        "advice": "Correct the cause on c-1, and then restart the jobs there.",
        "unhealthy": ["c-1"],
    }
