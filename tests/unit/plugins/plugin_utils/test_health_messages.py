"""Tests of the report on the health of all nodes."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import HealthFinding
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import health_messages

LOST = HealthFinding("xid", "replace", "GPU 0000:64:00: Xid 79.")
STUCK = HealthFinding("storage", "restart", "/efs: no answer within 5 s.")
HALTED = HealthFinding("xid", "reboot", "GPU 0000:64:00: Xid 62.")
REMAPPED = HealthFinding("xid", "monitor", "GPU 0000:64:00: Xid 63.")
NODES = {f"c-{number}": {"instance_id": f"i-{number}"} for number in range(1, 5)}


def test_what_a_node_answers_is_limited():
    forged = {"check": "x" * 1000, "severity": "monitor", "message": "To replace it, run:\n\x1b[2Jrm -rf /" + "y" * 10**6}
    found = health_messages.findings_of({"findings": [forged] * 10**4})
    assert len(found) == health_messages.FINDINGS_LIMIT
    assert (len(found[0].check), len(found[0].message)) == (64, 500)
    assert found[0].message.startswith("To replace it, run: rm -rf /y")
    assert health_messages.findings_of({}) == []


def test_findings_are_told_once_and_the_worst_comes_first():
    found = {"c-1": [REMAPPED], "c-2": [STUCK, LOST], "c-3": [STUCK, STUCK]}
    assert health_messages.report(found).splitlines() == [
        "replace  c-2: xid: GPU 0000:64:00: Xid 79.",
        "restart  c-2, c-3: storage: /efs: no answer within 5 s.",
        "monitor  c-1: xid: GPU 0000:64:00: Xid 63.",
        "1 of 3 nodes are healthy.",
    ]


def test_nodes_that_were_not_checked_are_not_healthy():
    assert health_messages.report({"c-1": [STUCK], "c-2": [STUCK]}, ["c-3"], "Job bert-1 runs on c-3.").splitlines() == [
        "restart  c-1, c-2: storage: /efs: no answer within 5 s.",
        "c-3: not checked, because of the error above. Job bert-1 runs on c-3.",
        "0 of 3 nodes are healthy.",
    ]


@pytest.mark.parametrize(
    ("jobs", "sentence"),
    [
        (None, "It is not known which jobs run there."),
        ([], "No job runs there."),
        ([{"name": "a", "words": "a runs on c-3"}, {"name": "b", "words": "b is starting"}], "Job a runs on c-3 and Job b is starting."),
    ],
)
def test_jobs_on_unreachable_nodes(jobs, sentence):
    assert health_messages.jobs_on_nodes(jobs) == sentence


def test_the_command_that_replaces_an_unreachable_node_is_shown():
    assert health_messages.advice({"c-1": []}, NODES, "us-east-1", ["c-3"]) == (
        "A job can run on an unreachable node. If you cannot reach c-3 again, replace it. To replace c-3, run the following commands. "
        "Data on the disks of terminated nodes is lost.\n  aws ec2 terminate-instances --region us-east-1 --instance-ids i-3\n"
        "  ansible-playbook deeplearning.cluster.provision\n  ansible-playbook deeplearning.cluster.configure"
    )
    assert health_messages.advice({}, {}, "REGION", ["lab", "lab2"]).endswith(
        "If you cannot reach lab, lab2 again, replace them. Replace lab, lab2, or run jobs without them (training_job_hosts)."
    )


@pytest.mark.parametrize(
    ("found", "text"), [({"c-1": []}, "The node is healthy."), ({"c-1": [], "c-2": [REMAPPED]}, "All 2 nodes are healthy.")]
)
def test_healthy_nodes(found, text):
    assert health_messages.report(found).splitlines()[-1] == text
    assert health_messages.advice(found, NODES, "us-east-1") == ""


def test_what_to_do_is_told_for_the_worst_finding_of_each_node():
    found = {"c-1": [LOST, STUCK], "c-2": [HALTED], "c-3": [STUCK, REMAPPED], "c-4": [LOST]}
    assert health_messages.advice(found, NODES, "us-east-1").splitlines() == [
        "To replace c-1, c-4, run the following commands. Data on the disks of terminated nodes is lost.",
        "  aws ec2 terminate-instances --region us-east-1 --instance-ids i-1 i-4",
        "  ansible-playbook deeplearning.cluster.provision",
        "  ansible-playbook deeplearning.cluster.configure",
        "To reboot c-2, run: ansible c-2 --become -m ansible.builtin.reboot",
        "Correct the cause on c-3, and then restart the jobs there.",
    ]


def test_hosts_of_a_users_own_inventory_have_no_instance():
    assert health_messages.advice({"lab": [LOST]}, {}, "REGION") == "Replace lab, or run jobs without it (training_job_hosts)."
