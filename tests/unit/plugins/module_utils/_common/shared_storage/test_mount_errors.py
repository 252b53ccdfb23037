"""Tests of the explanations of mounts that have failed."""

from __future__ import annotations

import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import mount_errors

from .described import BUCKET, LUSTRE, PLAIN, POINT, TLS


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
    assert re.search(expected, mount_errors.explain(output, described))
