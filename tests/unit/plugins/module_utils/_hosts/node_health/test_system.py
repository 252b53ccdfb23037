"""Tests of the findings about the operating system of a host."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import system
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.check import CheckedNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.ssh_trust.certificates import DAY, parse_certificate

from ..ssh_trust.signing import signed

GIB = system.GIB
NODE = CheckedNode("ubuntu")


def severities(problems):
    return [severity for severity, _message in problems]


@pytest.mark.parametrize(
    ("disk", "words"),
    [
        (system.Disk("/", 100 * GIB, 2 * GIB, 1000, 500), []),
        (system.Disk("/", 100 * GIB, GIB // 2, 1000, 500), ["512 of 102400 MiB"]),
        (system.Disk("/tmp", GIB, GIB // 2, 1000, 500), []),
        (system.Disk("/tmp", GIB, GIB // 30, 1000, 500), ["34 of 1024 MiB"]),
        (system.Disk("/", 100 * GIB, 2 * GIB, 1000, 9), ["9 of 1000 inodes"]),
        (system.Disk("/", 100 * GIB, 0, 1000, 0), ["MiB", "inodes"]),
        (system.Disk("/", 100 * GIB, 2 * GIB, 0, 0), []),
    ],
)
def test_a_disk_must_have_space(disk, words):
    found = system.decide_disks([disk], NODE)
    assert severities(found) == ["restart"] * len(words)
    assert all(word in message for word, (_severity, message) in zip(words, found, strict=True))


def test_each_disk_is_looked_at_once(tmp_path):
    (tmp_path / "a").mkdir()
    found = system.read_disks(CheckedNode("ubuntu", disks=(str(tmp_path), str(tmp_path / "a"), str(tmp_path / "missing"))))
    assert [each.path for each in found] == [str(tmp_path)]
    assert found[0].size > found[0].free


@pytest.mark.parametrize(("options", "severity"), [("rw,relatime", []), ("ro,relatime", ["reboot"]), ("rw,errors=remount-ro", [])])
def test_the_root_file_system_is_writable(options, severity):
    table = f"22 1 259:1 / / {options} shared:1 - ext4 /dev/nvme0n1p1 rw\n30 22 0:27 / /efs ro,relatime - nfs4 fs-1:/ rw\n"
    assert severities(system.decide_root(table, NODE)) == severity


def test_the_mount_table_of_this_machine_is_understood():
    assert system.mounted_at(system.read_mount_table(NODE), "/") is not None


def test_little_memory_is_told():
    memory = system.read_memory(NODE)
    assert memory["MemTotal"] > memory["MemAvailable"] > 0
    assert severities(system.decide_memory({"MemTotal": 1000, "MemAvailable": 49}, NODE)) == ["monitor"]
    assert system.decide_memory({"MemTotal": 1000, "MemAvailable": 50}, NODE) == []


def metadata(folder, *workers):
    document = {"cluster": "c", "generation": "g", "number": 1, "workers": list(workers), "gpu_count": 8}
    (folder / "metadata.json").write_text(json.dumps(document))
    return CheckedNode("ubuntu", metadata_directory=str(folder))


def test_names_resolve_to_the_addresses_of_the_metadata(tmp_path, monkeypatch):
    monkeypatch.setattr(system.socket, "gethostbyname", {"c-master": "10.0.0.1", "deeplearning-worker1": "10.0.0.1"}.__getitem__)
    node = metadata(tmp_path, {"number": 1, "name": "c-master", "address": "10.0.0.1"})
    assert system.decide_names(system.read_names(node), node) == []


def test_names_that_resolve_to_something_else(tmp_path, monkeypatch):
    def resolve(name):
        if name == "c-worker2":
            raise OSError("unknown")
        return "10.0.0.9"

    monkeypatch.setattr(system.socket, "gethostbyname", resolve)
    node = metadata(tmp_path, {"number": 2, "name": "c-worker2", "address": "10.0.0.2"})
    found = system.decide_names(system.read_names(node), node)
    assert severities(found) == ["restart", "restart"]
    assert found[0][1].startswith("c-worker2: resolves to no address, but the host's address is 10.0.0.2.")
    assert found[1][1].startswith("deeplearning-worker2: resolves to 10.0.0.9, but")


@pytest.mark.parametrize(
    "content", [None, "no json", "[]", '{"cluster": 1}', '{"cluster": 1, "generation": 1, "number": 1, "workers": 3, "gpu_count": 1}']
)
def test_a_host_without_metadata_is_not_configured(tmp_path, content):
    if content is not None:
        (tmp_path / "metadata.json").write_text(content)
    node = CheckedNode("ubuntu", metadata_directory=str(tmp_path))
    ((severity, message),) = system.decide_names(system.read_names(node), node)
    assert severity == "restart"
    assert message.startswith(f"{tmp_path}/metadata.json: ")
    assert system.read_configured_gpus(node) in (None, 1)


@pytest.mark.parametrize(
    ("moment", "severity"),
    [
        ("before - 1.1 * DAY", []),
        ("before - 0.9 * DAY", ["monitor"]),
        ("before", ["restart"]),
        ("before + 9 * DAY", ["restart"]),
        ("after", []),
        ("after - 1", ["restart"]),
    ],
)
def test_certificates_are_valid(moment, severity):
    text = signed("host", validity_days=9)
    certificate = parse_certificate(text)
    now = eval(moment, {"after": certificate.valid_after, "before": certificate.valid_before, "DAY": DAY})
    assert severities(system.decide_certificates({"/etc/x-cert.pub": text}, NODE, now)) == severity


def test_a_damaged_certificate():
    assert severities(system.decide_certificates({"/etc/x-cert.pub": "nonsense"}, NODE)) == ["restart"]
    assert system.decide_certificates({}, NODE) == []


@pytest.mark.parametrize(
    ("before", "host", "after", "severity", "words"),
    [
        (100, 101, 102, [], ""),
        (100, 96, 102, [], ""),
        (100, 106.9, 102, [], ""),
        (100, 90, 102, ["monitor"], "10 s behind"),
        (100, 112, 102, ["monitor"], "10 s ahead of"),
        (100, 30, 102, ["restart"], "70 s behind"),
        (100, 170, 102, ["restart"], "68 s ahead of"),
        (100, 150, 200, [], ""),
    ],
)
def test_a_clock_is_wrong_by_what_the_duration_does_not_explain(before, host, after, severity, words):
    found = system.decide_clock((before, host, after), NODE)
    assert severities(found) == severity
    assert words in "".join(message for _severity, message in found)
