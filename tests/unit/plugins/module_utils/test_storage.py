"""The fstab entry, the boot script and the reading of mount tables."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils import storage

SOURCE = "fs-1.efs.us-east-1.amazonaws.com:/"
ENTRY = f"{SOURCE} /efs nfs4 nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,_netdev,nofail 0 0"


def test_fstab_entry():
    assert storage.fstab_entry("fs-1", "us-east-1", "/efs") == ENTRY
    assert storage.efs_source("fs-1", "cn-north-1") == "fs-1.efs.cn-north-1.amazonaws.com.cn:/"


@pytest.mark.parametrize("path", ["efs", "/", "/a b", "/a;b", ""])
def test_bad_mount_point(path):
    with pytest.raises(ValueError, match="mount point"):
        storage.fstab_entry("fs-1", "us-east-1", path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"{ENTRY}\n"),
        ("# /efs\nUUID=1 / ext4 defaults 0 1", f"# /efs\nUUID=1 / ext4 defaults 0 1\n{ENTRY}\n"),
        (f"fs-0:/ /efs nfs4 hard 0 0\nproc /proc proc\n{ENTRY}\n", f"{ENTRY}\nproc /proc proc\n"),
        (f"{ENTRY}\n", f"{ENTRY}\n"),
    ],
)
def test_replace_entry(before, after):
    assert storage.replace_entry(before, "/efs", ENTRY) == after


def test_replace_entry_respects_others():
    with pytest.raises(ValueError, match="/dev/sdb at /efs"):
        storage.replace_entry("/dev/sdb /efs ext4 defaults 0 0\n", "/efs", ENTRY)
    assert storage.replace_entry(f"proc /proc proc\n{ENTRY}\n", "/efs", "") == "proc /proc proc\n"


MOUNTINFO = f"""\
22 1 259:1 / / rw,relatime - ext4 /dev/root rw
90 22 0:45 / /efs rw,relatime shared:50 - nfs4 {SOURCE} rw,vers=4.1
91 22 0:46 / /my\\040data rw - ext4 /dev/sdb rw
92 22 259:1 /exports/fs-1 /bound rw - ext4 /dev/root rw
"""


@pytest.mark.parametrize(
    ("path", "source", "right"),
    [
        ("/efs", SOURCE, True),
        ("/efs", "fs-2.efs.us-east-1.amazonaws.com:/", False),
        ("/my data", SOURCE, False),
        ("/bound", SOURCE, True),
    ],
)
def test_is_mount_of(path, source, right):
    assert storage.is_mount_of(storage.mounted_at(MOUNTINFO, path), source) is right


def test_mounted_at_takes_the_topmost():
    assert storage.mounted_at(MOUNTINFO, "/data") is None
    assert storage.mounted_at(MOUNTINFO + "93 90 0:47 / /efs rw - tmpfs tmpfs rw\n", "/efs").kind == "tmpfs"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("mount.nfs4: Failed to resolve server fs-1: Name or service not known", "no mount target"),
        ("mount.nfs4: Connection timed out", "2049"),
        (" status 124", "2049"),
        ("mount.nfs4: access denied by server while mounting", "policy"),
        ("mount: unknown filesystem type 'nfs4'.", "nfs-common"),
        ("mount.nfs4: strange", "strange"),
    ],
)
def test_explain(output, expected):
    assert expected in storage.explain(output, SOURCE)


def test_cloud_config_has_the_entry_of_the_role():
    config = storage.cloud_config("fs-1", "us-east-1", "/efs", "ubuntu")
    script, unit = (file["content"] for file in config["write_files"])
    assert f"entry='{ENTRY}'" in script
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    assert config["write_files"][0]["path"] in unit
    assert ["systemctl", "start", "--no-block", storage.UNIT] in config["runcmd"]


def test_boot_tries_again_until_the_client_is_there_and_the_storage_is_mounted(tmp_path):
    """Neither the package servers nor the mount target answer the first time."""
    tools, log = tmp_path / "bin", tmp_path / "log"
    tools.mkdir()

    def tool(name, body):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{log}\n{body}\n')
        (tools / name).chmod(0o755)

    def fails_first(name, then):
        return f"test -e {tmp_path}/{name} && {{ {then}; exit; }}; touch {tmp_path}/{name}; exit 1"

    for name in ("cat", "date", "mkdir", "test", "touch"):
        (tools / name).symlink_to(shutil.which(name))
    tool("grep", "exit 1")
    tool("sleep", "")
    tool("chown", "")
    tool("timeout", 'shift; exec "$@"')
    tool("apt-get", f'[ "$1" = update ] || {{ {fails_first("install", f"ln {tools}/mount {tools}/mount.nfs4")}; }}')
    tool("mount", fails_first("mount", f"touch {tmp_path}/mounted"))
    tool("mountpoint", f"[ -e {tmp_path}/mounted ]")
    (tools / "ln").symlink_to(shutil.which("ln"))
    script = storage.boot_script("fs-1", "us-east-1", f"{tmp_path}/efs", "ubuntu").replace("/etc/fstab", f"{tmp_path}/fstab")
    subprocess.run(["/bin/sh"], input=script, text=True, check=True, env={"PATH": str(tools)})
    done = [line.split()[0] for line in log.read_text().splitlines() if line.split()[0] in ("apt-get", "mount", "chown")]
    assert done == ["apt-get", "apt-get", "apt-get", "apt-get", "mount", "mount", "chown"]
    assert (tmp_path / "fstab").read_text().startswith(SOURCE)
