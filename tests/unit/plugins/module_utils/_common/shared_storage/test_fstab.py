"""Tests of how /etc/fstab is read and changed."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import fstab

from .described import EITHER, ENTRY, LUSTRE, PLAIN, TLS


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"{ENTRY}\n"),
        ("# /efs\nUUID=1 / ext4 defaults 0 1", f"# /efs\nUUID=1 / ext4 defaults 0 1\n{ENTRY}\n"),
        (f"fs-0:/ /efs nfs4 hard 0 0\nproc /proc proc\n{ENTRY}\n", f"{ENTRY}\nproc /proc proc\n"),
        (f"{ENTRY}\n", f"{ENTRY}\n"),
        (f"{TLS.entry}\n", f"{ENTRY}\n"),
        (LUSTRE.entry.replace("/fsx", "/efs"), f"{ENTRY}\n"),
    ],
)
def test_replace_entry(before, after):
    assert fstab.replace_entry(before, "/efs", ENTRY) == after


OLD = "fs-0aaa:/ /efs efs tls,noresvport,nosuid,nodev,_netdev,nofail 0 0"


@pytest.mark.parametrize(
    "older",
    [
        OLD,
        "/dev/sdb /efs ext4 defaults 0 0",
        "fs-1.efs.us-east-1.amazonaws.com:/ /efs/ nfs4 _netdev,noauto,x-systemd.automount 0 0",
        "user@host#2222:/data /efs fuse.sshfs _netdev 0 0",
        f"{OLD}\n{OLD}",
    ],
)
def test_older_entries_for_the_mount_point_are_replaced_and_named(older):
    text = f"proc /proc proc\n{older}\n10.0.0.9:/x /mnt/with\\040space nfs hard 0 0\n"
    assert fstab.replace_entry(text, "/efs", PLAIN.entry) == text.replace(older, PLAIN.entry)
    assert fstab.older_entries(text, PLAIN) == older.splitlines()


@pytest.mark.parametrize("entry", [PLAIN.entry, TLS.entry, ENTRY.replace("hard", "soft"), f"#{OLD}"])
def test_an_entry_for_the_same_storage_is_not_older(entry):
    assert fstab.older_entries(f"{entry}\n", EITHER) == []


def test_only_shared_storage_is_removed():
    disk = "/dev/sdb /efs ext4 defaults 0 0\n"
    assert fstab.replace_entry(disk, "/efs", "") == disk
    assert fstab.replace_entry(f"proc /proc proc\n{ENTRY}\n", "/efs", "") == "proc /proc proc\n"
