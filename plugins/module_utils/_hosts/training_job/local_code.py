# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The copy of a job's code on a host's own disk, for jobs that are not to run on the shared storage.

Root only opens the directory, or makes it. All that is in it is the job's user's to look at, to delete and to write.
"""

from __future__ import annotations

import os
import pwd
import shutil

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage.mounts import mounted_at
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records

# Lies in directories that jobs have made: nothing else is ever replaced.
MARK = ".deeplearning-job"

OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class DirectoryError(Exception):
    """The code must not be copied there; the text says why and what to do."""


def check_directory(directory: str, job_directory: str) -> None:
    """Raise DirectoryError when a path is not on the host's own disks."""
    name = f"sync_directory {directory!r}"
    if not os.path.isabs(directory) or os.path.normpath(directory) != directory:
        raise DirectoryError(f"{name}: is not an absolute path. Give the absolute path on the hosts.")
    mount = mount_point(directory)
    if mount != "/" and (mount == mount_point(job_directory) or is_shared(mount)):
        raise DirectoryError(f"{name}: is on shared storage, where all hosts would write at once. Give a path on the hosts' own disks.")


def open_directory(directory: str, user: pwd.struct_passwd | None) -> int | None:
    """Return a descriptor of the directory, nothing when there is none. With a user, make it then and give it to the user.

    Follows no link on the way: who controls one of the directories there would otherwise choose another one for root to make or give away.
    Raises DirectoryError.
    """
    descriptor, made = os.open("/", OPEN), False
    for part in directory.strip("/").split("/"):
        outer = descriptor
        try:
            made = user is not None and _make(part, outer)
            descriptor = os.open(part, OPEN, dir_fd=outer)
        except FileNotFoundError:
            return None
        except NotADirectoryError:  # so Linux says of a link, too
            raise DirectoryError(
                f"sync_directory {directory!r}: {part!r} in it is a link or a file. Give a path of directories that leads through no link."
            ) from None
        finally:
            os.close(outer)
    if made and user is not None and not os.listdir(descriptor):
        os.fchown(descriptor, user.pw_uid, user.pw_gid)
    return descriptor


def _make(name: str, directory: int) -> bool:
    try:
        os.mkdir(name, 0o755, dir_fd=directory)
    except FileExistsError:
        return False
    return True


def check_contents(directory: str, descriptor: int) -> None:
    """Raise DirectoryError when the open directory has files that no job has put there, or this process cannot write to it."""
    os.fchdir(descriptor)
    names = os.listdir(".")
    if names and MARK not in names:
        raise DirectoryError(
            f"sync_directory {directory!r} has files that no job has put there. Give a directory that is empty or does not exist."
        )
    if not os.access(".", os.W_OK | os.X_OK):
        raise DirectoryError(
            f"sync_directory {directory!r}: the job's user cannot write there. Give a directory of theirs, or one that does not exist."
        )


def copy(code: str, descriptor: int) -> None:
    """Make an open directory equal to the code. Only for the user who owns it."""
    os.fchdir(descriptor)
    # First of all, so that a copy that is cut short can be replaced.
    os.close(os.open(MARK, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644))
    records.delete([name for name in os.listdir(".") if name != MARK])
    shutil.copytree(code, ".", symlinks=True, dirs_exist_ok=True)


def overlap(one: str, other: str) -> bool:
    """Return whether two directories are the same or one lies in the other."""
    places = [os.path.normpath(path) for path in (one, other)]
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
    return found is not None and found.is_shared
