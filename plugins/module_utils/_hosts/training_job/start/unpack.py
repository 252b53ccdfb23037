# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Creates a job's directory and unpacks its code there, with the permissions that the login user and the job's user need."""

from __future__ import annotations

import json
import os
import pwd
import tarfile
import time
from typing import Any, BinaryIO

from ...._job import directories, exclusion_after_failures
from ...._job.definition.refusal import EXPECTED, RefusalError
from ...._job.document_schemas import DESCRIPTION
from ..units import checkpoint_directory, local_code, users
from . import continuation

# The directory has the group of the job's user, who may add files. The sticky bit prevents that user from replacing the owner's files.
SHARED_DIRECTORY = 0o1775


def install_code(params: dict[str, Any], paths: directories.Paths, user: pwd.struct_passwd) -> None:
    """Unpack the code and write the job's description as the login user, then create the job's other directories as the job's user.

    The job's user can add files to the directories of the job and its code, but cannot change or replace the existing files.
    """
    with open(params["archive"], "rb") as archive:
        owner = pwd.getpwuid(os.fstat(archive.fileno()).st_uid)
        shared = owner.pw_uid != user.pw_uid
        users.as_user(owner, lambda: unpack_code(params, paths, archive, shared), EXPECTED, group=user.pw_gid if shared else None)
    users.as_user(user, lambda: make_directories(paths))


def unpack_code(params: dict[str, Any], paths: directories.Paths, source: BinaryIO, shared: bool) -> None:
    """Create the job's directory with its code and description. Replaces a job of the same name that never started."""
    os.makedirs(paths.directory, exist_ok=True)
    exclusion_after_failures.make_failures_directory(os.path.dirname(paths.directory))
    job = os.open(paths.directory, local_code.OPEN)
    try:
        if os.fstat(job).st_uid != os.geteuid():
            raise RefusalError(f"directory {paths.directory!r} belongs to another user. Choose another name for the job.")
        os.fchmod(job, 0o755)  # the job's user must not create files until all of the owner's files exist
        directories.delete([paths.code, paths.description])
        os.mkdir(paths.code)
        digest = continuation.code_digest(source)
        source.seek(0)
        with tarfile.open(fileobj=source) as archive:
            # The default filter of Python 3.14 would change the modes.
            archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
            archive.extractall(paths.code, members=(readable(member, shared) for member in archive))
        description = {key: params[key] for key in ("name", "sync_directory", *DESCRIPTION) if params.get(key)}
        description["digest"] = digest
        description["checkpoint_directory"] = checkpoint_directory.directory(params, paths)
        description["created"] = time.time()
        with open(os.open(paths.description, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="utf-8") as file:
            json.dump(description, file, indent=2)
        if shared:
            os.chmod(paths.code, SHARED_DIRECTORY)
            os.fchown(job, -1, os.getegid())  # a directory from an earlier run may have a different group
            os.fchmod(job, SHARED_DIRECTORY)
    finally:
        os.close(job)


def readable(member: tarfile.TarInfo, shared: bool) -> tarfile.TarInfo:
    """Return an entry of the archive with the owner and mode for unpacking. If `shared` is true, the job's group can read the entry too."""
    member.uid, member.gid = os.geteuid(), os.getegid()
    member.mode &= 0o777  # no setuid: the author of the code must not run programs as the user who unpacks it
    if shared:
        member.mode = (member.mode & 0o755) | (member.mode & 0o500) >> 3
        if member.isdir():
            member.mode |= SHARED_DIRECTORY & 0o1770
    return member


def make_directories(paths: directories.Paths) -> None:
    for directory in (paths.logs, paths.status, paths.checkpoints, paths.tensorboard):
        os.makedirs(directory, exist_ok=True)
