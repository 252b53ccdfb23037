"""Tests that create and remove the queue's state directory. A state directory inside a directory that others can write to is refused."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.queue.state_directory import (
    StateDirectoryError,
    ensure,
    remove,
    unmounted,
)

FSTAB = "# /efs\nfs-1.efs:/ /efs nfs4 defaults 0 0\n/dev/x / ext4 defaults 0 1\n"


@pytest.mark.parametrize(
    ("path", "mounted", "found"),
    [
        ("/efs/slurm-demo", {"/", "/efs"}, None),
        ("/efs/slurm-demo", {"/"}, "/efs"),
        ("/efsx/slurm-demo", {"/"}, None),
        ("/var/lib/slurm/slurmctld", {"/"}, None),
    ],
)
def test_storage_must_be_mounted(path, mounted, found):
    assert unmounted(path, FSTAB, mounted) == found


@pytest.fixture
def storage():
    """A folder in a directory that only this user can write to. This user acts as the queue's user."""
    me = pwd.getpwuid(os.getuid()).pw_name
    folder = Path(tempfile.mkdtemp(dir=Path.home()))
    yield folder, me
    shutil.rmtree(folder)


def test_it_is_created_for_the_user_of_the_queue_alone(storage):
    folder, me = storage
    path = folder / "slurm"
    assert ensure(str(path), me, me, create=False)
    assert not path.exists()
    assert ensure(str(path), me, me, create=True)
    assert path.stat().st_mode & 0o777 == 0o700
    assert not ensure(str(path), me, me, create=True)
    path.chmod(0o755)
    assert ensure(str(path), me, me, create=True)
    assert path.stat().st_mode & 0o777 == 0o700


def test_it_is_removed_with_the_queue(storage):
    folder, me = storage
    path = folder / "slurm"
    assert not remove(str(path), me, me, delete=True)
    ensure(str(path), me, me, create=True)
    (path / "job_state").touch()
    removal = [{"before_header": str(path), "after_header": str(path), "before": "the queue\n", "after": ""}]
    assert remove(str(path), me, me, delete=False) == removal
    assert remove(str(path), me, me, delete=True) == removal
    assert not path.exists()


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_parent_that_others_can_write_to_is_refused(storage, mode):
    folder, me = storage
    folder.chmod(mode)
    with pytest.raises(StateDirectoryError, match="so they could replace the queue"):
        ensure(str(folder / "slurm"), me, me, create=True)


def test_links_are_not_followed(storage):
    folder, me = storage
    (folder / "real").mkdir()
    (folder / "link").symlink_to(folder / "real")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        ensure(str(folder / "link" / "slurm"), me, me, create=True)
    with pytest.raises(StateDirectoryError, match="does not belong to"):
        ensure(str(folder / "link"), me, me, create=True)
    with pytest.raises(StateDirectoryError, match="does not belong to"):
        remove(str(folder / "link"), me, me, delete=True)
    assert (folder / "real").is_dir()


def test_check_mode_knows_that_storage_may_not_be_mounted_yet(storage):
    folder, me = storage
    path = str(folder / "efs" / "slurm")
    assert ensure(path, me, me, create=False)
    assert not remove(path, me, me, delete=True)
    with pytest.raises(FileNotFoundError):
        ensure(path, me, me, create=True)
