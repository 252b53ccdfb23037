# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Copies a job's code to a host's own disk, for jobs whose working directory is not on shared storage.

As root, the module only opens or creates the directory. A child process that runs as the job's user reads, deletes and writes the files.
"""

from __future__ import annotations

import os
import pwd
import shutil

from ...._common.shared_storage.mount_table import mount_points, mounted_at
from ...._job import directories
from ...._job.definition.refusal import RefusalError

# The file that marks a directory as filled by a job. The contents of directories without this file are never replaced.
MARK = ".deeplearning-job"

# The default mount point of the cluster's file system.
MOUNT_POINT = "/efs"

OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def check_directory(directory: str, job_directory: str) -> None:
    """Raise RefusalError if the directory is not an absolute path on the host's own disks."""
    name = f"sync_directory {directory!r}"
    if not os.path.isabs(directory) or os.path.normpath(directory) != directory:
        raise RefusalError(f"{name} is not a normalized absolute path. Specify an absolute path without '..' or a trailing slash.")
    mount = mount_point(directory)
    if mount != "/" and (mount == mount_point(job_directory) or is_shared(mount)):
        raise RefusalError(f"{name} is on shared storage, where all hosts would write to it. Use a path that is on each host's own disk.")


def open_directory(directory: str, user: pwd.struct_passwd | None, option: str = "sync_directory") -> int | None:
    """Return a file descriptor of the directory, or None if it does not exist.

    If `user` is specified, create the directory if necessary, and make that user its owner.

    Does not follow links in the path. Through a link, a user who controls a parent directory could make root create a directory
    elsewhere, and could become the owner of that directory. Raises RefusalError.
    """
    descriptor, made = os.open("/", OPEN), False
    for part in os.path.normpath(directory).strip("/").split("/"):
        outer = descriptor
        try:
            made = user is not None and _make(part, outer)
            descriptor = os.open(part, OPEN, dir_fd=outer)
        except FileNotFoundError:
            return None
        except NotADirectoryError:  # Linux reports ENOTDIR for a link, too
            raise RefusalError(
                f"{option} {directory!r}: the path component {part!r} is a link or a file. Use a path without links."
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
    """Raise RefusalError if the open directory has files that no job put there, or if this process cannot write to the directory."""
    os.fchdir(descriptor)
    names = os.listdir(".")
    if names and MARK not in names:
        raise RefusalError(
            f"sync_directory {directory!r} has files that no job has put there. Use a directory that is empty or does not exist."
        )
    if not os.access(".", os.W_OK | os.X_OK):
        raise RefusalError(
            f"sync_directory {directory!r}: the job's user cannot write there. Use a directory that belongs to that user or does not exist."
        )


def copy(code: str, descriptor: int) -> None:
    """Replace the contents of an open directory with the code. Call this function only as the owner of the directory."""
    os.fchdir(descriptor)
    # Write the mark first, so that the next run can replace an incomplete copy.
    os.close(os.open(MARK, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644))
    directories.delete([name for name in os.listdir(".") if name != MARK])
    shutil.copytree(code, ".", symlinks=True, dirs_exist_ok=True)


def overlap(one: str, other: str) -> bool:
    """Return whether two directories are the same or one contains the other."""
    places = [os.path.normpath(path) for path in (one, other)]
    return os.path.commonpath(places) in places


def mount_point(path: str) -> str:
    """Return the mount point of the file system that contains a path. The path need not exist."""
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def storage_of_jobs(directory: str) -> str:
    """Return the root of the storage that contains a job's directory: a mount point or, on the root disk, the directory of all jobs."""
    mount = mount_point(directory)
    return os.path.dirname(directory) if mount == "/" else mount


def is_shared(mount: str) -> bool:
    """Return whether shared storage is mounted at a mount point."""
    found = mounted_at(_mount_table(), mount)
    return found is not None and found.is_shared


def is_own_disk(path: str, job_directory: str) -> bool:
    """Return whether a path is on one of the host's own disks, or in its memory. All hosts of a job share the storage of its directory."""
    mount = mount_point(path)
    found = mounted_at(_mount_table(), mount)
    is_local = mount == "/" or (found is not None and (found.source.startswith("/dev/") or found.kind == "tmpfs"))
    return is_local and mount != mount_point(job_directory)


def shared_mounts() -> list[str]:
    """Return the mount points of the shared storage, sorted. A mount of any kind at the default mount point counts as shared storage."""
    table = _mount_table()
    found = {place: mounted_at(table, place) for place in mount_points(table)}
    return sorted(place for place, entry in found.items() if entry and (entry.is_shared or place == MOUNT_POINT))


def _mount_table() -> str:
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return file.read()
