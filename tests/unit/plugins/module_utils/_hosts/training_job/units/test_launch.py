"""Tests of the checks that run before the processes of a job start on a host."""

from __future__ import annotations

import os
import pwd

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import launch, systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.refusal import RefusalError


@pytest.mark.parametrize(
    ("own", "other", "message"),
    [
        ({"gpus": [0, 1]}, {"gpus": [1, 2, 3]}, "job other uses GPU 1 of w1.*give each job its own gpus"),
        ({"gpus": [0, 1]}, {"gpus": [2, 3]}, None),
        ({"cwd": "/scratch/code"}, {"cwd": "/scratch/code"}, "job other runs in /scratch/code on w1.*its own sync_directory"),
        ({"cwd": "/scratch/code"}, {"cwd": "/scratch"}, "job other runs in /scratch on w1"),
        ({"cwd": "/scratch/code"}, {"cwd": "/scratch/code2"}, None),
    ],
)
def test_jobs_on_one_host_have_gpus_and_directories_of_their_own(paths, monkeypatch, own, other, message):
    beside = {"job": "other", "gpus": [], "cwd": "/efs/jobs/other/code", **other}
    monkeypatch.setattr(systemd, "other_jobs", lambda name: [beside])
    specs = [{"name": "rank0", "host": "w1", "gpus": [], "cwd": paths.code, **own}]
    if message is None:
        launch.check_place("digits", specs)
    else:
        with pytest.raises(RefusalError, match=message):
            launch.check_place("digits", specs)


def test_the_directory_for_metrics_is_created_and_belongs_to_the_user(tmp_path, monkeypatch):
    owners = []
    monkeypatch.setattr(os, "fchown", lambda descriptor, *owner: owners.append((os.readlink(f"/proc/self/fd/{descriptor}"), *owner)))
    user = pwd.getpwuid(os.geteuid())
    place = str(tmp_path / "collector/jobs")
    launch.make_metrics_directory(place + "/", user)
    (tmp_path / "collector/jobs/other.prom").touch()
    launch.make_metrics_directory(place, user)
    launch.make_metrics_directory(str(tmp_path), user)
    launch.make_metrics_directory(None, user)
    assert os.path.isdir(place)
    assert owners == [(place, user.pw_uid, user.pw_gid)]


def test_the_directory_for_metrics_is_not_created_through_a_link(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(RefusalError, match=r"^metrics_directory '.*/link/jobs': the path component 'link' is a link"):
        launch.make_metrics_directory(str(tmp_path / "link/jobs"), pwd.getpwuid(os.geteuid()))
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_directory_for_metrics_in_which_the_user_cannot_write_is_refused(paths, tmp_path):
    os.makedirs(paths.status)
    params = {"name": "digits", "user": "trainer", "sync_directory": None}
    launch.occupy({**params, "metrics_directory": str(tmp_path)}, paths, [], None)
    launch.occupy({**params, "metrics_directory": None}, paths, [], None)
    (tmp_path / "file").touch()
    with pytest.raises(RefusalError, match=r"^metrics_directory: user 'trainer' cannot write to '.*/file'. Make this user the owner"):
        launch.occupy({**params, "metrics_directory": str(tmp_path / "file")}, paths, [], None)


@pytest.mark.parametrize(
    ("place", "mount", "source", "hosts", "is_local"),
    [
        ("/opt/dlami/nvme/ckpt", "/opt/dlami/nvme", "ext4 /dev/nvme1n1", 2, True),
        ("/opt/dlami/nvme/ckpt", "/opt/dlami/nvme", "ext4 /dev/nvme1n1", 1, False),
        ("/dev/shm/ckpt", "/dev/shm", "tmpfs tmpfs", 2, True),
        ("/fsx/ckpt", "/", "ext4 /dev/nvme0n1p1", 2, True),  # /fsx is not mounted
        ("/fsx/ckpt", "/fsx", "lustre 10.0.0.1@tcp:/abc", 2, False),
        ("/efs/ckpt", "/efs", "nfs4 127.0.0.1:/", 2, False),
        ("/efs/ckpt", "/efs", "ext4 /dev/sda1", 2, False),  # like the job's directory
        ("/other/ckpt", "/other", "beegfs beegfs_nodev", 2, False),
        ("s3://bucket/ckpt", "/", "ext4 /dev/nvme0n1p1", 2, False),
        ("", "/", "ext4 /dev/nvme0n1p1", 2, False),
    ],
)
def test_checkpoints_on_the_disks_of_several_hosts_are_a_warning(monkeypatch, place, mount, source, hosts, is_local):
    monkeypatch.setattr(launch.local_code, "mount_point", lambda path: "/efs" if path.startswith("/efs/") else mount)
    monkeypatch.setattr(launch.local_code, "_mount_table", lambda: f"36 35 0:32 / {mount} rw - {source} rw\n")
    variables = {"DEEPLEARNING_CHECKPOINT_DIRECTORY": place}
    message = launch.about_checkpoints([{"environment": variables, "directory": "/efs/jobs/digits"}], hosts)
    assert message.startswith(f"DEEPLEARNING_CHECKPOINT_DIRECTORY: '{place}' is on each host's own disk") is is_local
    assert bool(message) is is_local
    assert launch.about_checkpoints([], hosts) == ""
