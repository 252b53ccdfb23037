"""Tests of creating and removing the queue's state directory. The state directory is refused inside directories that others can write
to.
"""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm import state_directory
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.state_directory import (
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
def storage(monkeypatch):
    """A folder in a directory that only this user can write to. The name of this user replaces the name of Slurm's user."""
    me = pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(state_directory, "USER", me)
    folder = Path(tempfile.mkdtemp(dir=Path.home()))
    yield folder, me
    shutil.rmtree(folder)


def test_it_is_created_for_slurm_alone(storage):
    folder, me = storage
    path = folder / "slurm"
    assert ensure(str(path), me, create=False)
    assert not path.exists()
    assert ensure(str(path), me, create=True)
    assert path.stat().st_mode & 0o777 == 0o700
    assert not ensure(str(path), me, create=True)
    path.chmod(0o755)
    assert ensure(str(path), me, create=True)
    assert path.stat().st_mode & 0o777 == 0o700


def test_it_is_removed_with_the_queue(storage):
    folder, me = storage
    path = folder / "slurm"
    assert not remove(str(path), me, delete=True)
    ensure(str(path), me, create=True)
    (path / "job_state").touch()
    assert remove(str(path), me, delete=False)
    assert remove(str(path), me, delete=True)
    assert not path.exists()


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_parent_that_others_can_write_to_is_refused(storage, mode):
    folder, me = storage
    folder.chmod(mode)
    with pytest.raises(StateDirectoryError, match="so they could replace the queue"):
        ensure(str(folder / "slurm"), me, create=True)


def test_links_are_not_followed(storage):
    folder, me = storage
    (folder / "real").mkdir()
    (folder / "link").symlink_to(folder / "real")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        ensure(str(folder / "link" / "slurm"), me, create=True)
    with pytest.raises(StateDirectoryError, match="does not belong to"):
        ensure(str(folder / "link"), me, create=True)
    with pytest.raises(StateDirectoryError, match="does not belong to"):
        remove(str(folder / "link"), me, delete=True)
    assert (folder / "real").is_dir()


def test_check_mode_knows_that_storage_may_not_be_mounted_yet(storage):
    folder, me = storage
    path = str(folder / "efs" / "slurm")
    assert ensure(path, me, create=False)
    assert not remove(path, me, delete=True)
    with pytest.raises(FileNotFoundError):
        ensure(path, me, create=True)
