# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Creates the directory in which a queue stores its jobs, on storage that jobs' users can also access.

Root follows only paths that no job's user can change. Each directory in the path is opened relative to its parent, without following
links, and must belong to root, to the queue's user or to the login user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from typing import Collection

from ..._common.managed_files import THIS

FSTAB, MOUNTS = "/etc/fstab", "/proc/self/mounts"
MODE = 0o700


class StateDirectoryError(Exception):
    """The directory cannot be used. The message states the reason and the remedy."""


def unmounted(path: str, fstab: str, is_mounted: Collection[str]) -> str | None:
    """Return the fstab mount point that contains `path` and is not mounted, or None."""
    points = [line.split()[1] for line in fstab.splitlines() if len(line.split()) > 1 and not line.lstrip().startswith("#")]
    holding = [point for point in points if point.startswith("/") and (path + "/").startswith(point.rstrip("/") + "/")]
    nearest = max(holding, key=len, default=None)
    return nearest if nearest and nearest not in is_mounted else None


def difference(path: str, owner: str, login_user: str, create: bool) -> list[dict[str, str]]:
    """Ensure that the directory exists on mounted storage, and return the diff. `owner` is the queue's user.

    Raises the same errors as `ensure`.
    """
    mounts = {"/"} | {line.split()[1] for line in (THIS.read(MOUNTS) or "").splitlines()}
    missing = unmounted(path, THIS.read(FSTAB) or "", mounts)
    if missing and create:
        raise StateDirectoryError(
            f"state_directory: {missing} is not mounted, so {path} would be on this host's own disk. Run the role shared_storage."
        )
    if not ensure(path, owner, login_user, create):
        return []
    return [{"before_header": path, "after_header": path, "before": "", "after": f"directory of {owner}\n"}]


def ensure(path: str, owner: str, login_user: str, create: bool) -> bool:
    """Ensure that the directory exists and that only the queue's user can access it. Return whether it has to be created or changed.

    If `create` is false, nothing is changed. Raises OSError, and StateDirectoryError if another user could replace the directory.
    """
    try:
        account = pwd.getpwnam(owner)
    except KeyError:
        if create:
            raise
        return True  # the package, which check mode has not installed, creates the user
    accounts = [pwd.getpwnam("root"), account, pwd.getpwnam(login_user)]
    try:
        parent = _open_parent(path, {each.pw_uid: each.pw_gid for each in accounts})
    except FileNotFoundError:
        if create:
            raise
        return True  # check mode has not mounted the storage
    name = os.path.basename(path)
    try:
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            if create:
                os.mkdir(name, MODE, dir_fd=parent)
                _own(parent, name, account)
            return True
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, account.pw_uid):
            raise StateDirectoryError(
                f"state_directory: {path} exists and does not belong to {owner}. Remove this directory, or choose another directory."
            )
        if (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (account.pw_uid, account.pw_gid, MODE):
            return False
        if create:
            _own(parent, name, account)
        return True
    finally:
        os.close(parent)


def _open_parent(path: str, trusted: dict[int, int]) -> int:
    """Return a file descriptor of the parent directory. Raises StateDirectoryError if a job's user could change the path to this
    directory.
    """
    reached, descriptor = "/", os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in [None, *(each for each in os.path.dirname(path).split("/") if each)]:
            if part is not None:
                reached = os.path.join(reached, part)
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            status = os.fstat(descriptor)
            shared = status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid not in trusted.values())
            if status.st_uid not in trusted or shared:
                raise StateDirectoryError(
                    f"state_directory: users other than root and the login user can write to {reached}, so they could replace the queue."
                    " Choose another directory. A queue on the master's own disk is lost if the master is replaced."
                )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _own(parent: int, name: str, account: pwd.struct_passwd) -> None:
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        os.fchown(descriptor, account.pw_uid, account.pw_gid)
        os.fchmod(descriptor, MODE)
    finally:
        os.close(descriptor)


def remove(path: str, owner: str, login_user: str, delete: bool) -> list[dict[str, str]]:
    """If `delete` is true, delete the directory and the queue in it. Return the diff. Raises the same errors as `ensure`."""
    ensure(path, owner, login_user, create=False)
    if not os.path.lexists(path):
        return []
    if delete:
        shutil.rmtree(path)
    return [{"before_header": path, "after_header": path, "before": "the queue\n", "after": ""}]
