"""Tests of custom checks on the controller, and of the report on the health of all nodes."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.check import HealthFinding
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import health

LOST = HealthFinding("xid", "replace", "GPU 0000:64:00: Xid 79.")
STUCK = HealthFinding("storage", "restart", "/efs: no answer within 5 s.")
HALTED = HealthFinding("xid", "reboot", "GPU 0000:64:00: Xid 62.")
REMAPPED = HealthFinding("xid", "monitor", "GPU 0000:64:00: Xid 63.")
NODES = {f"c-{number}": {"instance_id": f"i-{number}"} for number in range(1, 5)}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "checks").mkdir()
    return tmp_path / "checks"


def program(folder, name, content=b"#!/bin/sh\n", mode=0o755):
    (folder / name).write_bytes(content)
    (folder / name).chmod(mode)


def test_executable_files_are_sent(folder, tmp_path, monkeypatch):
    warnings = []
    monkeypatch.setattr(health.Display, "warning", lambda self, text: warnings.append(text))
    program(folder, "b", b"\x7fELF\x00")
    program(folder, "a.sh")
    program(folder, ".hidden")
    program(folder, "README.md", mode=0o644)
    (folder / "lib").mkdir()
    sent = health.programs("checks", ["/nowhere", str(tmp_path)])
    assert [(each["name"], base64.b64decode(each["content"])) for each in sent] == [("a.sh", b"#!/bin/sh\n"), ("b", b"\x7fELF\x00")]
    assert [warning.split(" ", 2)[2] for warning in warnings] == [
        "is not executable, so it is not run. To run this file, make it executable with chmod +x."
    ]


def test_without_a_folder_nothing_is_sent():
    assert health.programs("", ["/"]) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("disks", b"", "checks: 'disks' is the name of one of the collection's checks"),
        ("clock", b"", "the name of one of the collection's checks"),
        ("a b", b"", "checks: 'a b' is not a valid check name"),
        ("a\nb", b"", "is not a valid check name"),
        ("disk.sh", b"#!/bin/sh\r\nexit 0\r\n", "checks: '.*disk.sh' has Windows line breaks"),
        ("disk.sh", b"\xef\xbb\xbf#!/bin/sh\nexit 0\n", "checks: '.*disk.sh' begins with a byte order mark"),
        ("large", bytes(health.PROGRAMS_LIMIT + 3), "but the limit is 1048576 bytes"),
    ],
)
def test_files_that_cannot_be_checks(folder, name, content, message):
    program(folder, name, content)
    with pytest.raises(ValueError, match=message):
        health.programs(str(folder), ["/"])


def test_a_folder_that_is_missing():
    with pytest.raises(ValueError, match="checks: 'nowhere' is not a directory on the controller"):
        health.programs("nowhere", ["/"])


def test_what_a_node_answers_is_limited():
    forged = {"check": "x" * 1000, "severity": "monitor", "message": "To replace it, run:\n\x1b[2Jrm -rf /" + "y" * 10**6}
    found = health.findings_of({"findings": [forged] * 10**4})
    assert len(found) == health.FINDINGS_LIMIT
    assert (len(found[0].check), len(found[0].message)) == (64, 500)
    assert found[0].message.startswith("To replace it, run: rm -rf /y")
    assert health.findings_of({}) == []


def test_findings_are_told_once_and_the_worst_comes_first():
    found = {"c-1": [REMAPPED], "c-2": [STUCK, LOST], "c-3": [STUCK, STUCK]}
    assert health.report(found).splitlines() == [
        "replace  c-2: xid: GPU 0000:64:00: Xid 79.",
        "restart  c-2, c-3: storage: /efs: no answer within 5 s.",
        "monitor  c-1: xid: GPU 0000:64:00: Xid 63.",
        "1 of 3 nodes are healthy.",
    ]


def test_nodes_that_were_not_checked_are_not_healthy():
    assert health.report({"c-1": [STUCK], "c-2": [STUCK]}, ["c-3"], "Job bert-1 runs on c-3.").splitlines() == [
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
    assert health.jobs_on_nodes(jobs) == sentence


def test_the_command_that_replaces_an_unreachable_node_is_shown():
    assert health.advice({"c-1": []}, NODES, "us-east-1", ["c-3"]) == (
        "A job can run on an unreachable node. If you cannot reach c-3 again, replace it. To replace c-3, run: aws ec2 terminate-instances "
        "--region us-east-1 --instance-ids i-3, and then: ansible-playbook deeplearning.cluster.provision, and: ansible-playbook "
        "deeplearning.cluster.configure. Data on the disks of terminated nodes is lost."
    )
    assert health.advice({}, {}, "REGION", ["lab", "lab2"]).endswith(
        "If you cannot reach lab, lab2 again, replace them. Replace lab, lab2, or run jobs without them (training_job_hosts)."
    )


@pytest.mark.parametrize(
    ("found", "text"), [({"c-1": []}, "The node is healthy."), ({"c-1": [], "c-2": [REMAPPED]}, "All 2 nodes are healthy.")]
)
def test_healthy_nodes(found, text):
    assert health.report(found).splitlines()[-1] == text
    assert health.advice(found, NODES, "us-east-1") == ""


def test_what_to_do_is_told_for_the_worst_finding_of_each_node():
    found = {"c-1": [LOST, STUCK], "c-2": [HALTED], "c-3": [STUCK, REMAPPED], "c-4": [LOST]}
    assert health.advice(found, NODES, "us-east-1").splitlines() == [
        "To replace c-1, c-4, run: aws ec2 terminate-instances --region us-east-1 --instance-ids i-1 i-4, and then: ansible-playbook "
        "deeplearning.cluster.provision, and: ansible-playbook deeplearning.cluster.configure. "
        "Data on the disks of terminated nodes is lost.",
        "To reboot c-2, run: ansible c-2 --become -m ansible.builtin.reboot",
        "Correct the cause on c-3, and then restart the jobs there.",
    ]


def test_hosts_of_a_users_own_inventory_have_no_instance():
    assert health.advice({"lab": [LOST]}, {}, "REGION") == "Replace lab, or run jobs without it (training_job_hosts)."
