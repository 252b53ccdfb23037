"""Tests that check where hosts copy a job's code, and what the copy replaces."""

from __future__ import annotations

import os
import pwd

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage.mount_table import MountTableEntry
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import local_code
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.refusal import RefusalError

from unit.files import write


def test_the_copy_is_equal_to_the_code_and_replaces_only_what_a_job_has_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    user, place = pwd.getpwuid(os.getuid()), tmp_path / "scratch/code"
    for name in ("one.py", "two.py"):
        write(tmp_path / name[:3], **{name: name, "src/x": "x"})
        local_code.check_directory(str(place), "/efs/jobs/digits")
        directory = local_code.open_directory(str(place), user)
        local_code.check_contents(str(place), directory)
        local_code.copy(str(tmp_path / name[:3]), directory)
        assert sorted(os.listdir(place)) == sorted([local_code.MARK, name, "src"])


def check(directory):
    local_code.check_directory(directory, "/proc/jobs/digits")
    local_code.check_contents(directory, local_code.open_directory(directory, None))


@pytest.mark.parametrize(
    ("directory", "message"),
    [
        ("~/code", "'~/code' is not a normalized absolute path"),
        ("{}/../code", "is not a normalized absolute path"),
        ("{}/full", "full' has files that no job has put there"),
        ("{}/full/file", "the path component 'file' is a link or a file"),
        ("{}/link/code", "the path component 'link' is a link or a file"),
        ("/proc/jobs/code", "is on shared storage"),
        ("/dev/shm/code", "is on shared storage"),
    ],
)
def test_a_directory_that_is_not_for_copies_is_refused(tmp_path, monkeypatch, directory, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "full", file="mine")
    (tmp_path / "link").symlink_to("/etc")
    monkeypatch.setattr(local_code, "mounted_at", lambda table, place: MountTableEntry("x", "nfs4" if place == "/dev/shm" else "ext4", "/"))
    with pytest.raises(RefusalError, match=message):
        check(directory.format(tmp_path))
    assert local_code.open_directory(f"{tmp_path}/new/code", None) is None
    local_code.check_directory(f"{tmp_path}/new/code", "/proc/jobs/digits")


def test_a_path_that_does_not_exist_is_on_its_parents_file_system():
    assert local_code.mount_point("/proc/none/such") == "/proc"


def test_the_storage_of_jobs(monkeypatch):
    monkeypatch.setattr(local_code, "mount_point", lambda path: "/efs" if path.startswith("/efs/") else "/")
    assert local_code.storage_of_jobs("/efs/jobs/digits") == "/efs"
    assert local_code.storage_of_jobs("/home/ubuntu/jobs/digits") == "/home/ubuntu/jobs"


def test_the_mount_points_of_shared_storage_are_found(monkeypatch):
    table = "90 22 0:45 / /lustre rw - lustre x rw\n91 22 0:46 / /scratch rw - ext4 /dev/sdb rw\n92 22 0:47 / /data rw - nfs4 x rw\n"
    monkeypatch.setattr(local_code, "_mount_table", lambda: table)
    assert local_code.shared_mounts() == ["/data", "/lustre"]
    assert [local_code.is_shared(mount) for mount in ("/data", "/scratch", "/nowhere")] == [True, False, False]
    table += "93 22 0:48 / /efs rw - ext4 /dev/sdc rw\n"
    assert local_code.shared_mounts() == ["/data", "/efs", "/lustre"]
