"""Tests that nodes write files to the shared storage and read each other's files."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import CheckedNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import mounts
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import shared_storage
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.registry import checks_for

ONE, TWO = CheckedNode("ubuntu", number=1, token="t"), CheckedNode("ubuntu", number=2, token="t", peer=1)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(tmp_path))
    return shared_storage.MountedStorage(str(tmp_path))


def test_shared_storage_is_what_fstab_says():
    efs = mounts.efs("fs-0123456789abcdef0", "us-east-1", "/efs")
    bucket = mounts.bucket("s3://data/images", "/data")
    encrypted = efs.preferred.entry.replace("/efs", "/tls")
    text = f"LABEL=root / ext4 defaults 0 1\n# {efs.entry}\n{efs.entry}\n{encrypted}\n{bucket.entry}\nbroken line\n"
    assert shared_storage.places(text) == [
        shared_storage.MountedStorage("/efs"),
        shared_storage.MountedStorage("/tls"),
        shared_storage.MountedStorage("/data", read_only=True),
    ]


def test_lines_of_others_are_not_the_clusters_and_noauto_is_left_out():
    text = """\
10.0.0.9:/export /mnt/archive nfs noauto,user 0 0
10.0.0.9:/other /mnt/with\\040space nfs ro 0 0
10.0.0.9:/auto /mnt/auto nfs4 _netdev,noauto,x-systemd.automount 0 0
"""
    assert shared_storage.places(text) == [
        shared_storage.MountedStorage("/mnt/with space", read_only=True, is_foreign=True),
        shared_storage.MountedStorage("/mnt/auto", is_foreign=True),
    ]


def test_storage_of_others_makes_no_node_unhealthy(place):
    foreign = place._replace(is_foreign=True)
    assert shared_storage.write(foreign, ONE) == ""
    assert os.listdir(place.path) == [], "nothing is written to it"
    problem = shared_storage.write(foreign._replace(path=f"{place.path}/missing"), ONE)
    assert [severity for severity, _message in shared_storage.decide(foreign, problem, ONE)] == ["monitor"]
    assert "noauto" in problem
    assert shared_storage.read_of_peer(foreign, TWO) == ""
    checks = {check.name: check for context in ("on_demand", "periodic") for check in checks_for(context, [foreign])}
    assert {checks[name].hanging for name in ("storage", "storage_hang")} == {"monitor"}


def test_a_file_is_written_and_removed(place):
    assert shared_storage.write(place, replace(ONE, token="")) == ""
    assert os.listdir(place.path) == []


def test_a_file_is_left_for_the_peer_who_removes_it(place):
    assert shared_storage.write(place, ONE) == ""
    (name,) = os.listdir(place.path)
    assert name.startswith(".")
    assert shared_storage.read_of_peer(place, TWO) == ""
    assert os.listdir(place.path) == []


def test_a_file_that_is_missing_on_another_node(place):
    assert shared_storage.read_of_peer(place, TWO).startswith("cannot read the file that worker 1 has written: No such file")


def test_a_file_with_other_contents(place):
    path = shared_storage.file_of(place, "t", 1)
    with open(path, "w") as file:
        file.write("another")
    assert "different contents" in shared_storage.read_of_peer(place, TWO)
    assert os.listdir(place.path) == []


def test_files_of_others_are_neither_followed_nor_overwritten(place, tmp_path):
    target = tmp_path / "target"
    target.write_text("1\n")
    os.symlink(target, shared_storage.file_of(place, "t", 1))
    assert "levels of symbolic links" in shared_storage.read_of_peer(place, TWO)
    os.symlink(target, shared_storage.file_of(place, "t", 1))
    assert "File exists" in shared_storage.write(place, ONE)
    assert "levels of symbolic links" in shared_storage.read_of_peer(place, replace(TWO, peer=1)) or not os.path.exists(
        shared_storage.file_of(place, "t", 1)
    )
    assert target.read_text() == "1\n"


def test_a_pipe_in_place_of_the_file_does_not_hang(place):
    os.mkfifo(shared_storage.file_of(place, "t", 1))
    assert "different contents" in shared_storage.read_of_peer(place, TWO)


def test_storage_that_is_not_mounted(tmp_path):
    assert shared_storage.write(shared_storage.MountedStorage(str(tmp_path)), ONE).startswith(
        "nothing is mounted. Run deeplearning.cluster.configure."
    )
    assert shared_storage.write(shared_storage.MountedStorage(str(tmp_path / "missing")), ONE).startswith("nothing is mounted.")


@pytest.mark.parametrize("error", [errno.ESTALE, errno.ENOTCONN, errno.ECONNABORTED])
def test_a_stale_mount_is_not_a_missing_mount(tmp_path, monkeypatch, error):
    def fail(path):
        raise OSError(error, os.strerror(error), path)

    monkeypatch.setattr(os, "lstat", fail)
    place = shared_storage.MountedStorage(str(tmp_path))
    assert shared_storage.write(place, ONE) == f"{os.strerror(error)}. Run deeplearning.cluster.configure."
    foreign = shared_storage.write(place._replace(is_foreign=True), ONE)
    assert foreign == f"{os.strerror(error)}. Unmount it with umount --lazy, and mount it again."


def test_storage_that_answers_with_an_error(place, monkeypatch):
    def fail(*_arguments):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    assert shared_storage.write(place, ONE) == "Input/output error. Check the storage and its security groups."
    assert os.listdir(place.path) == []


def test_read_only_storage_is_only_listed(place):
    read_only = place._replace(read_only=True)
    assert shared_storage.write(read_only, ONE) == ""
    assert os.listdir(place.path) == []
    assert shared_storage.read_of_peer(read_only, TWO) == ""


def test_the_mount_is_named(place):
    assert shared_storage.decide(place, "broken", ONE) == [("restart", f"{place.path}: broken")]
    assert shared_storage.decide(place, "", ONE) == []
