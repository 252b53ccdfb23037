# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The copy of a job's code on a host's own disk, for jobs that are not to run on the shared storage."""

from __future__ import annotations

import os
import pwd
import shutil

from ansible_collections.deeplearning.cluster.plugins.module_utils.storage import mounted_at

# Lies in directories that jobs have made: nothing else is ever replaced.
MARK = ".deeplearning-job"

SHARED_KINDS = ("lustre", "nfs", "nfs4")


class DirectoryError(Exception):
    """The code must not be copied there; the text says why and what to do."""


def check_directory(directory: str, job_directory: str) -> None:
    """Raises DirectoryError when a directory is not the host's own or has something in it that no job has put there."""
    name = f"sync_directory {directory!r}"
    if not os.path.isabs(directory):
        raise DirectoryError(f"{name} is not an absolute path: give the whole path on the hosts")
    place = os.path.realpath(directory)
    mount = mount_point(place)
    if mount != "/" and (mount == mount_point(job_directory) or is_shared(mount)):
        raise DirectoryError(f"{name} is on shared storage, where all hosts would write to it at once: give a path on the hosts' own disks")
    if os.path.lexists(place) and not (os.path.isdir(place) and _is_replaceable(place)):
        raise DirectoryError(f"{name} has something in it that no job has put there: give a directory that is empty or does not exist")


def _is_replaceable(directory: str) -> bool:
    names = os.listdir(directory)
    return not names or MARK in names


def copy(code: str, directory: str, user: pwd.struct_passwd) -> None:
    """Make the directory equal to the code, and the user's own."""
    place = os.path.realpath(directory)
    if os.path.isdir(place):
        shutil.rmtree(place)
    os.makedirs(place)
    # First of all, so that a copy that is cut short can be replaced.
    with open(os.path.join(place, MARK), "w", encoding="utf-8"):
        pass
    shutil.copytree(code, place, symlinks=True, dirs_exist_ok=True)
    for folder, directories, files in os.walk(place):
        for path in (folder, *(os.path.join(folder, name) for name in directories + files)):
            os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def overlap(one: str, other: str) -> bool:
    """Return whether two directories are the same or one lies in the other."""
    places = [os.path.realpath(path) for path in (one, other)]
    return os.path.commonpath(places) in places


def mount_point(path: str) -> str:
    """Return the mount point that a path, which need not exist, is or would be under."""
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def is_shared(mount: str) -> bool:
    """Return whether what is mounted there is storage that other hosts have too."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        found = mounted_at(file.read(), mount)
    return found is not None and found.kind in SHARED_KINDS
