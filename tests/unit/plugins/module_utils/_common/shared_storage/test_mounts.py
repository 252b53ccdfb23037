"""Tests of the mounts of each kind of storage."""

from __future__ import annotations

import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import mounts

from .described import EITHER, ENTRY, LUSTRE, LUSTRE_SOURCE, PLAIN, POINT, SOURCE, TLS


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
