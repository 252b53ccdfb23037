"""Tests that check the contents of the fstab entry, and how mount tables are read."""

from __future__ import annotations

import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage import mounts

from .described import BUCKET, EITHER, ENTRY, LUSTRE, LUSTRE_SOURCE, PLAIN, POINT, SOURCE, TLS


@pytest.mark.parametrize(
    ("described", "entry"),
    [
        (PLAIN, ENTRY),
        (EITHER, ENTRY),
        (mounts.efs("fs-1", "us-east-1", "/efs", address="10.1.0.4"), ENTRY.replace(SOURCE, "10.1.0.4:/")),
        (
            mounts.efs("fs-1", "cn-north-1", "/efs", dns_suffix="amazonaws.com.cn"),
            ENTRY.replace("us-east-1.amazonaws.com", "cn-north-1.amazonaws.com.cn"),
        ),
        (TLS, "fs-1:/ /efs efs tls,noresvport,nosuid,nodev,_netdev,nofail 0 0"),
        (
            mounts.efs("fs-1", "us-east-1", "/efs", address="10.1.0.4", encrypted=True),
            "fs-1:/ /efs efs tls,noresvport,nosuid,nodev,mounttargetip=10.1.0.4,_netdev,nofail 0 0",
        ),
        (POINT, "fs-1:/ /efs efs tls,noresvport,nosuid,nodev,accesspoint=fsap-1,_netdev,nofail 0 0"),
        (LUSTRE, f"{LUSTRE_SOURCE} /fsx lustre noatime,flock,nosuid,nodev,_netdev,nofail 0 0"),
    ],
)
def test_fstab_entry(described, entry):
    assert described.entry == entry


@pytest.mark.parametrize("path", ["/home/ubuntu/data", "/var/lib/data", "/opt/data", "/data/team.a", "/mnt", "/etcetera"])
def test_good_mount_point(path):
    assert mounts.lustre(LUSTRE_SOURCE, path).mount_point == path


@pytest.mark.parametrize("path", ["/etc", "/etc/cron.d", "/root/data", "/usr/lib/python3", "/home", "/var", "/opt", "/tmp"])
def test_a_mount_point_hides_no_system_files(path):
    with pytest.raises(ValueError, match="because it would hide system files"):
        mounts.bucket("s3://bert-data", path)


@pytest.mark.parametrize("path", ["efs", "/", "/a b", "/a;b", "", "/efs/../etc/cron.d", "/home/ubuntu/.ssh", "/./etc"])
def test_bad_mount_point(path):
    with pytest.raises(ValueError, match="is not an access point ID"):
        mounts.efs("fs-1", "us-east-1", "/efs", access_point=f"fsap-1{path},x")
    with pytest.raises(ValueError, match="mount point"):
        mounts.efs("fs-1", "us-east-1", path)
    with pytest.raises(ValueError, match="mount point"):
        mounts.lustre(LUSTRE_SOURCE, path)


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
    assert mounts.replace_entry(before, "/efs", ENTRY) == after


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
    assert mounts.replace_entry(text, "/efs", PLAIN.entry) == text.replace(older, PLAIN.entry)
    assert mounts.older_entries(text, PLAIN) == older.splitlines()


@pytest.mark.parametrize("entry", [PLAIN.entry, TLS.entry, ENTRY.replace("hard", "soft"), f"#{OLD}"])
def test_an_entry_for_the_same_storage_is_not_older(entry):
    assert mounts.older_entries(f"{entry}\n", EITHER) == []


def test_only_shared_storage_is_removed():
    disk = "/dev/sdb /efs ext4 defaults 0 0\n"
    assert mounts.replace_entry(disk, "/efs", "") == disk
    assert mounts.replace_entry(f"proc /proc proc\n{ENTRY}\n", "/efs", "") == "proc /proc proc\n"


@pytest.mark.parametrize(
    ("type_", "shared"),
    [("nfs", True), ("nfs4", True), ("efs", True), ("lustre", True), ("nfsd", False), ("ext4", False), ("fuse.sshfs", False)],
)
def test_one_table_says_what_is_shared(type_, shared):
    assert mounts.is_shared(type_) is shared


@pytest.mark.parametrize(
    ("source", "mounted"),
    [
        ("s3://sets", "s3://sets/"),
        ("s3://sets/", "s3://sets/"),
        ("s3://sets/images", "s3://sets/images/"),
        ("s3://my.sets-1/a=1/b_2@x/", "s3://my.sets-1/a=1/b_2@x/"),
    ],
)
def test_a_bucket_is_mounted_as_mountpoint_documents_it(source, mounted):
    assert mounts.bucket(source, "/data").entry == f"{mounted} /data mount-s3 ro,allow-other,nosuid,nodev,_netdev,nofail 0 0"


@pytest.mark.parametrize(
    "source",
    [
        "",
        "sets",
        "s3://",
        "s3://Sets",
        "s3://sets//images",
        "s3://sets/a b",
        "s3://sets/a,rw",
        "s3://sets/a\nb",
        "s3://sets/'a",
        "s3://s",
        "s3://sets--use1-az4--x-s3/a",
    ],
)
def test_what_is_no_bucket_is_not_put_into_fstab(source):
    with pytest.raises(ValueError, match="is not a bucket or prefix"):
        mounts.bucket(source, "/data")


@pytest.mark.parametrize(
    ("fstab", "right"), [("", True), (f"{BUCKET.entry}\n", True), (f"{BUCKET.entry.replace('images', 'others')}\n", False)]
)
def test_all_that_mountpoint_mounts_looks_alike_so_that_fstab_tells(fstab, right):
    mount = mounts.MountTableEntry("mountpoint-s3", "fuse", "/", "ro,nosuid,nodev")
    assert mount.is_shared
    assert (mounts.mounted_alternative(mount, BUCKET, fstab, []) == BUCKET) is right
    assert mounts.mounted_alternative(mount._replace(source="sshfs"), BUCKET, fstab, []) is None


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
    assert mounts.is_mount_of(mounts.mounted_at(MOUNTINFO, path), expected, ["fs-1.tls.20049", "fs-1.tls.20049+"]) is right


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
    mount = mounts.mounted_at(MOUNTINFO, path)
    alternative = mounts.mounted_alternative(mount, either(path, file_system), fstab, ["fs-1.tls.20049"])
    assert (alternative and alternative.kind) == kind


@pytest.mark.parametrize(("options", "safe"), [("rw,nosuid,nodev,relatime", True), ("rw,nosuid,relatime", False), ("rw", False)])
def test_a_mount_is_safe_without_setuid_files_and_devices(options, safe):
    mount = mounts.mounted_at(f"90 22 0:45 / /efs {options} shared:50 - nfs4 {SOURCE} rw,nosuid,nodev,vers=4.1\n", "/efs")
    assert mount.is_safe is safe


def test_the_helper_of_efs_remembers_the_file_system():
    tunnel = mounts.MountTableEntry(mounts.TUNNEL, "nfs4", "/")
    deep = mounts.efs("fs-1", "us-east-1", "/mnt/efs", encrypted=True)
    assert mounts.is_mount_of(tunnel, deep, ["fs-1.mnt.efs.20049"])
    assert not mounts.is_mount_of(tunnel, deep, ["fs-1.mnt.20049", "fs-1.efs.20049", "fs-2.mnt.efs.20049"])


@pytest.mark.parametrize(("file_system", "right"), [("fs-1", True), ("fs-2", False)])
def test_a_tunnel_that_a_former_mount_has_left_behind_is_not_that_of_the_mount(file_system, right):
    tunnels = ["fs-2.tls.20388", "fs-2.tls.20388+", "fs-1.tls.20049"]
    mount = mounts.mounted_at(MOUNTINFO, "/tls")
    assert mounts.is_mount_of(mount, mounts.efs(file_system, "us-east-1", "/tls", encrypted=True), tunnels) is right


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
    "mount", [mounts.MountTableEntry(mounts.TUNNEL, "nfs4", "/"), mounts.MountTableEntry("/dev/root", "ext4", "/exports/fs-1")]
)
def test_what_is_mounted_through_an_access_point_is_not_the_whole(mount, mounted, expected, right):
    alternative = mounts.mounted_alternative(mount, expected, mounted.entry, ["fs-1.efs.20049"])
    assert (alternative is not None and alternative.kind == "efs") is right


def test_an_access_point_is_not_mounted_in_the_clear():
    with pytest.raises(ValueError, match=r"^encrypt_in_transit: EFS requires TLS for access point fsap-1"):
        mounts.efs("fs-1", "us-east-1", "/efs", access_point="fsap-1", encrypted=False)


@pytest.mark.parametrize(("access_point", "allowed"), [("fsap-1", True), ("", False), (None, False)])
def test_a_host_that_may_access_one_directory_needs_an_access_point(access_point, allowed):
    of_efs = dict.fromkeys(("address", "encrypt_in_transit", "dns_suffix", "adopted"))
    parameters = {**of_efs, "region": "us-east-1", "path": "/efs", "access_point": access_point, "directory": "/teams/bert"}
    if allowed:
        assert mounts.KINDS["efs"]("fs-1", parameters) == POINT._replace(adopted=None)
        return
    with pytest.raises(ValueError, match=r"^directory: this host has no access point to /teams/bert, so it could access the whole"):
        mounts.KINDS["efs"]("fs-1", parameters)


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        (
            lambda: mounts.efs("fs-x", "us-east-1", "/efs"),
            "source: 'fs-x' is not a file system ID. Use an ID such as fs-01234",
        ),
        (
            lambda: mounts.efs("fs-1", "us-east-1", "/efs", address="x"),
            "address: 'x' is not an IPv4 address. Use an address",
        ),
        (lambda: mounts.lustre("fs-1", "/fsx"), "source: 'fs-1' is not a Lustre source. Use a source such as fs-0123456789abcdef0.fsx."),
        (lambda: mounts.bucket("s3://Sets", "/data"), "source: 's3://Sets' is not a bucket or prefix. Use letters, digits"),
        (
            lambda: mounts.bucket("s3://sets", "/etc"),
            "path: '/etc' is not a valid mount point, because it would hide",
        ),
    ],
)
def test_messages_name_the_option_of_the_module(mount, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        mount()


def test_all_mount_points_are_listed():
    assert mounts.mount_points("90 22 0:45 / /efs rw - nfs4 x rw\n91 22 0:46 / /my\\040data rw - tmpfs tmpfs rw\nbroken\n") == {
        "/efs",
        "/my data",
    }


def test_mounted_at_takes_the_topmost():
    assert mounts.mounted_at(MOUNTINFO, "/data") is None
    assert mounts.mounted_at(MOUNTINFO + "93 90 0:47 / /efs rw - tmpfs tmpfs rw\n", "/efs").kind == "tmpfs"


@pytest.mark.parametrize(
    ("output", "described", "expected"),
    [
        ("mount.nfs4: Failed to resolve server fs-1: Name or service not known", PLAIN, "check that there is a mount target"),
        ("mount.nfs4: Connection timed out", PLAIN, "port 2049"),
        (" status 124", PLAIN, "port 2049"),
        (" status 124", LUSTRE, "fs-2.fsx.us-east-1.amazonaws.com does not respond.*988"),
        ("mount.lustre: Can't parse NID 'fs-2'", LUSTRE, "cannot resolve"),
        ("mount.nfs4: access denied by server while mounting", PLAIN, "policy.*If that policy requires TLS, install amazon-efs"),
        (
            "mount.nfs4: access denied by server while mounting 127.0.0.1:/",
            TLS,
            "fs-1 denies this host access. The file system's policy.*without an IAM",
        ),
        ("mount.nfs4: Connection timed out", TLS, "^fs-1 does not respond.*port 2049. See /var/log/amazon/efs/mount.log on this host.$"),
        (
            "mount.nfs4: Connection reset by peer",
            TLS,
            "^mount reports: mount.nfs4: Connection reset by peer. See /var/log/amazon/efs/mount.log on this host.$",
        ),
        ("access denied by server", POINT, "connect through access point fsap-1"),
        ("mount: unknown filesystem type 'nfs4'.", PLAIN, "nfs-common"),
        ("mount: unknown filesystem type 'efs'.", TLS, "amazon-efs-utils, which encrypts data in transit, is not installed"),
        ("mount.lustre: mount failed: No such device", LUSTRE, "no Lustre client"),
        ("mount.nfs4: strange", PLAIN, "strange"),
        ("mount.lustre: mount fs-2@tcp:/abc at /fsx failed: Invalid argument", LUSTRE, "another version than the file system.*Invalid"),
        ("Traceback (most recent call last):\n  File x\nFileNotFoundError: '/sbin/status'", TLS, "^mount reports: FileNotFoundError"),
        (
            "Error: Failed to create S3 client: Access Denied",
            BUCKET,
            "IAM role must be allowed.*Access Denied",
        ),
        ("mount: unknown filesystem type 'mount-s3'.", BUCKET, "Mountpoint for Amazon S3 .*is not installed"),
    ],
)
def test_explain(output, described, expected):
    assert re.search(expected, mounts.explain(output, described))


def test_an_automount_point_is_no_mount():
    automount = "40 22 0:40 / /efs rw,relatime shared:1 - autofs systemd-1 rw,fd=52,pgrp=1,timeout=0\n"
    mounted = "55 40 0:50 / /efs rw,nosuid,nodev shared:2 - nfs4 fs-1:/ rw\n"
    assert mounts.mounted_at(automount, "/efs") is None
    assert mounts.mounted_at(automount + mounted, "/efs").kind == "nfs4"
    assert mounts.automounts(automount + mounted) == {"/efs"}
