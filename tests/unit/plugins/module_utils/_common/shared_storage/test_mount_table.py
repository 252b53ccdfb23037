"""Tests of how mount tables are read."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import mount_table, mounts

from .described import BUCKET, EITHER, LUSTRE, PLAIN, POINT, SOURCE, TLS


@pytest.mark.parametrize(
    ("fstab", "right"), [("", True), (f"{BUCKET.entry}\n", True), (f"{BUCKET.entry.replace('images', 'others')}\n", False)]
)
def test_all_that_mountpoint_mounts_looks_alike_so_that_fstab_tells(fstab, right):
    mount = mount_table.MountTableEntry("mountpoint-s3", "fuse", "/", "ro,nosuid,nodev")
    assert mount.is_shared
    assert (mount_table.mounted_alternative(mount, BUCKET, fstab, []) == BUCKET) is right
    assert mount_table.mounted_alternative(mount._replace(source="sshfs"), BUCKET, fstab, []) is None


MOUNTINFO = f"""\
22 1 259:1 / / rw,relatime - ext4 /dev/root rw
90 22 0:45 / /efs rw,relatime shared:50 - nfs4 {SOURCE} rw,vers=4.1
91 22 0:46 / /my\\040data rw - ext4 /dev/sdb rw
92 22 259:1 /exports/fs-1 /bound rw - ext4 /dev/root rw
93 22 0:47 / /tls rw - nfs4 127.0.0.1:/ rw,vers=4.1,port=20049
94 22 0:48 / /fsx rw - lustre 10.0.1.7@tcp:/abcdefgh rw,flock
"""


@pytest.mark.parametrize(
    ("path", "expected", "right"),
    [
        ("/efs", PLAIN, True),
        ("/efs", mounts.efs("fs-2", "us-east-1", "/efs"), False),
        ("/efs", TLS, False),
        ("/my data", PLAIN, False),
        ("/bound", PLAIN, True),
        ("/bound", LUSTRE, True),
        ("/tls", mounts.efs("fs-1", "us-east-1", "/tls", encrypted=True), True),
        ("/tls", mounts.efs("fs-2", "us-east-1", "/tls", encrypted=True), False),
        ("/tls", TLS, False),
        ("/tls", PLAIN, False),
        ("/fsx", LUSTRE, True),
        ("/fsx", mounts.lustre("fs-2.fsx.us-east-1.amazonaws.com@tcp:/other", "/fsx"), False),
        ("/fsx", PLAIN, False),
    ],
)
def test_is_mount_of(path, expected, right):
    assert mount_table.is_mount_of(mount_table.mounted_at(MOUNTINFO, path), expected, ["fs-1.tls.20049", "fs-1.tls.20049+"]) is right


def either(path, file_system="fs-1"):
    return mounts.efs(file_system, "us-east-1", path)


@pytest.mark.parametrize(
    ("path", "fstab", "file_system", "kind"),
    [
        ("/efs", "", "fs-1", "nfs4"),
        ("/efs", "", "fs-2", None),
        ("/tls", f"{PLAIN.entry.replace('/efs', '/tls')}\n", "fs-1", "efs"),
        ("/tls", "", "fs-2", None),
        ("/bound", "", "fs-1", "nfs4"),
        ("/bound", "fs-1:/ /bound efs tls 0 0\n", "fs-1", "efs"),
        ("/fsx", "", "fs-1", None),
    ],
)
def test_either_way_of_efs_is_right_where_it_is_mounted(path, fstab, file_system, kind):
    mount = mount_table.mounted_at(MOUNTINFO, path)
    alternative = mount_table.mounted_alternative(mount, either(path, file_system), fstab, ["fs-1.tls.20049"])
    assert (alternative and alternative.kind) == kind


@pytest.mark.parametrize(("options", "safe"), [("rw,nosuid,nodev,relatime", True), ("rw,nosuid,relatime", False), ("rw", False)])
def test_a_mount_is_safe_without_setuid_files_and_devices(options, safe):
    mount = mount_table.mounted_at(f"90 22 0:45 / /efs {options} shared:50 - nfs4 {SOURCE} rw,nosuid,nodev,vers=4.1\n", "/efs")
    assert mount.is_safe is safe


def test_the_helper_of_efs_remembers_the_file_system():
    tunnel = mount_table.MountTableEntry(mount_table.TUNNEL, "nfs4", "/")
    deep = mounts.efs("fs-1", "us-east-1", "/mnt/efs", encrypted=True)
    assert mount_table.is_mount_of(tunnel, deep, ["fs-1.mnt.efs.20049"])
    assert not mount_table.is_mount_of(tunnel, deep, ["fs-1.mnt.20049", "fs-1.efs.20049", "fs-2.mnt.efs.20049"])


@pytest.mark.parametrize(("file_system", "right"), [("fs-1", True), ("fs-2", False)])
def test_a_tunnel_that_a_former_mount_has_left_behind_is_not_that_of_the_mount(file_system, right):
    tunnels = ["fs-2.tls.20388", "fs-2.tls.20388+", "fs-1.tls.20049"]
    mount = mount_table.mounted_at(MOUNTINFO, "/tls")
    assert mount_table.is_mount_of(mount, mounts.efs(file_system, "us-east-1", "/tls", encrypted=True), tunnels) is right


@pytest.mark.parametrize(
    ("mounted", "expected", "right"),
    [
        (POINT, POINT, True),
        (TLS, POINT, False),
        (POINT, TLS, False),
        (POINT, EITHER, False),
        (mounts.efs("fs-1", "us-east-1", "/efs", access_point="fsap-2"), POINT, False),
    ],
)
@pytest.mark.parametrize(
    "mount",
    [mount_table.MountTableEntry(mount_table.TUNNEL, "nfs4", "/"), mount_table.MountTableEntry("/dev/root", "ext4", "/exports/fs-1")],
)
def test_what_is_mounted_through_an_access_point_is_not_the_whole(mount, mounted, expected, right):
    alternative = mount_table.mounted_alternative(mount, expected, mounted.entry, ["fs-1.efs.20049"])
    assert (alternative is not None and alternative.kind == "efs") is right


def test_all_mount_points_are_listed():
    assert mount_table.mount_points("90 22 0:45 / /efs rw - nfs4 x rw\n91 22 0:46 / /my\\040data rw - tmpfs tmpfs rw\nbroken\n") == {
        "/efs",
        "/my data",
    }


def test_mounted_at_takes_the_topmost():
    assert mount_table.mounted_at(MOUNTINFO, "/data") is None
    assert mount_table.mounted_at(MOUNTINFO + "93 90 0:47 / /efs rw - tmpfs tmpfs rw\n", "/efs").kind == "tmpfs"


def test_an_automount_point_is_no_mount():
    automount = "40 22 0:40 / /efs rw,relatime shared:1 - autofs systemd-1 rw,fd=52,pgrp=1,timeout=0\n"
    mounted = "55 40 0:50 / /efs rw,nosuid,nodev shared:2 - nfs4 fs-1:/ rw\n"
    assert mount_table.mounted_at(automount, "/efs") is None
    assert mount_table.mounted_at(automount + mounted, "/efs").kind == "nfs4"
    assert mount_table.automounts(automount + mounted) == {"/efs"}
