"""Tests of the findings about the disks of a host."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import CheckedNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import local_disks

from .problems import severities

NODE = CheckedNode("ubuntu")
GIB = 1 << 30


@pytest.mark.parametrize(
    ("disk", "words"),
    [
        (local_disks.Disk("/", 100 * GIB, 2 * GIB, 1000, 500), []),
        (local_disks.Disk("/", 100 * GIB, GIB // 2, 1000, 500), ["512 of 102400 MiB"]),
        (local_disks.Disk("/tmp", GIB, GIB // 2, 1000, 500), []),
        (local_disks.Disk("/tmp", GIB, GIB // 30, 1000, 500), ["34 of 1024 MiB"]),
        (local_disks.Disk("/", 100 * GIB, 2 * GIB, 1000, 9), ["9 of 1000 inodes"]),
        (local_disks.Disk("/", 100 * GIB, 0, 1000, 0), ["MiB", "inodes"]),
        (local_disks.Disk("/", 100 * GIB, 2 * GIB, 0, 0), []),
    ],
)
def test_a_disk_must_have_space(disk, words):
    found = local_disks.decide_disks([disk], NODE)
    assert severities(found) == ["restart"] * len(words)
    assert all(word in message for word, (_severity, message) in zip(words, found, strict=True))


def test_each_disk_is_looked_at_once(tmp_path):
    (tmp_path / "a").mkdir()
    found = local_disks.read_disks(CheckedNode("ubuntu", disks=(str(tmp_path), str(tmp_path / "a"), str(tmp_path / "missing"))))
    assert [each.path for each in found] == [str(tmp_path)]
    assert found[0].size > found[0].free


@pytest.mark.parametrize(("options", "severity"), [("rw,relatime", []), ("ro,relatime", ["reboot"]), ("rw,errors=remount-ro", [])])
def test_the_root_file_system_is_writable(options, severity):
    table = f"22 1 259:1 / / {options} shared:1 - ext4 /dev/nvme0n1p1 rw\n30 22 0:27 / /efs ro,relatime - nfs4 fs-1:/ rw\n"
    assert severities(local_disks.decide_root(table, NODE)) == severity


def test_the_mount_table_of_this_machine_is_understood():
    assert local_disks.mounted_at(local_disks.read_mount_table(NODE), "/") is not None
