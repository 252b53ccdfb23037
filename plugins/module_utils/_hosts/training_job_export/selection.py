# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Selects the files of a job to export. Does not follow symbolic links."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from typing import Iterator, NamedTuple, Sequence

from ..._job.patterns import matches

# Files that the export itself or a supervisor is writing.
NEVER = ("/status/export*", "status/**/.*")
# The maximum number of files. The sizes and times of this many files need about 200 MB of memory.
FILES_LIMIT = 1 << 19
# The maximum length of a key in S3 in bytes, and the maximum size of an object in bytes.
KEY_LIMIT, OBJECT_LIMIT = 1024, 5 << 40
# Directories that are nested more deeply are not exported.
DEPTH_LIMIT = 128
# The errors that occur if, in the meantime, a path was removed or was replaced by a link or by a file of a different type.
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ESTALE)
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Root(NamedTuple):
    """A directory to export, and the prefix of the S3 keys for its files. The prefix is empty or ends with a slash."""

    directory: str
    prefix: str


class ExportFile(NamedTuple):
    """A file to export: its root, its path in the root, its size in bytes and its modification time in nanoseconds."""

    root: Root
    path: str
    size: int
    modified: int

    @property
    def key(self) -> str:
        return self.root.prefix + self.path


class Selection(NamedTuple):
    """The files to export, keyed by S3 key, messages about files that cannot be exported, and the keys of what is left out: entries that a
    pattern excludes (directories end with a slash), symbolic links and special files.
    """

    files: dict[str, ExportFile]
    problems: list[str]
    omitted: list[str]


class SelectionError(Exception):
    """The files of the job cannot be exported. The message states the reason and the remedy."""


def select(roots: Sequence[Root], include: Sequence[str], exclude: Sequence[str], key_limit: int = KEY_LIMIT) -> Selection:
    """Return the regular files that the patterns select below the roots. A file below a later root replaces a file with the same key below
    an earlier root.

    Keys can have at most `key_limit` bytes. Raises SelectionError if there are too many files.
    """
    found = Selection({}, [], [])
    for root in roots:
        if root.prefix and matches(root.prefix.rstrip("/"), exclude):
            found.omitted.append(root.prefix)
            continue
        for path, status in _walk(root, include, exclude, found):
            key = root.prefix + path
            if not is_included(key, include) or matches(key, NEVER):
                continue
            problem = _problem(key, status, key_limit)
            if problem:
                found.problems.append(f"{os.path.join(root.directory, path)!a} {problem}")
            else:
                found.files[key] = ExportFile(root, path, status.st_size, status.st_mtime_ns)
            if sum(map(len, found)) > FILES_LIMIT:
                raise SelectionError(
                    f"{root.directory}: has more than {FILES_LIMIT} files to export. Exclude some files with training_job_export_exclude, "
                    "or change the script so that it writes archives."
                )
    return found


def _walk(root: Root, include: Sequence[str], exclude: Sequence[str], found: Selection) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and the status of each regular file that is below a root and that no pattern excludes.

    Add problems, and what is left out although it is included, to the selection.
    """
    folders = [""]
    while folders:
        folder = folders.pop()
        for name, status in _exported_entries(root, folder, found):
            key, is_folder = root.prefix + folder + name, stat.S_ISDIR(status.st_mode)
            is_excluded = matches(key, exclude)
            if is_folder and not is_excluded:
                folders.append(f"{folder}{name}/")
            elif stat.S_ISREG(status.st_mode) and not is_excluded:
                yield folder + name, status
            elif (is_folder or is_included(key, include)) and not matches(key, NEVER):
                found.omitted.append(key + "/" * is_folder)


def _exported_entries(root: Root, folder: str, found: Selection) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the entries of a directory. If they cannot be exported, add the problem to the selection, and yield nothing."""
    try:
        entries = _entries(root, folder)
    except OSError as error:
        if error.errno not in GONE or not folder:
            found.problems.append(f"{os.path.join(root.directory, folder)!a} cannot be read: {error.strerror}")
        return
    if folder.count("/") > DEPTH_LIMIT:
        found.problems.append(f"{os.path.join(root.directory, folder)!a} is nested more than {DEPTH_LIMIT} levels deep")
    else:
        yield from entries


def _entries(root: Root, folder: str) -> list[tuple[str, os.stat_result]]:
    """Return the name and the status of each entry of a directory. Raises OSError."""
    found, descriptor = [], _open(root.directory, folder.split("/")[:-1], os.O_DIRECTORY)
    try:
        for name in sorted(os.listdir(descriptor)):
            with contextlib.suppress(FileNotFoundError):
                found.append((name, os.stat(name, dir_fd=descriptor, follow_symlinks=False)))
    finally:
        os.close(descriptor)
    return found


def _problem(key: str, status: os.stat_result, key_limit: int) -> str:
    """Return why S3 cannot store a file, or an empty string if it can."""
    try:
        length = len(key.encode("utf-8"))
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    if CONTROL.search(key):
        return "has a name with control characters"
    if length > key_limit:
        return f"has a name with more than {key_limit} bytes"
    return f"is larger than {OBJECT_LIMIT >> 40} TiB" if status.st_size > OBJECT_LIMIT else ""


def is_included(key: str, include: Sequence[str]) -> bool:
    """Return whether a pattern matches a file or one of the directories that contain it. Without patterns, all files are included."""
    parts = key.split("/")
    return not include or any(matches("/".join(parts[:count]), include) for count in range(1, len(parts) + 1))


def open_file(file: ExportFile) -> int:
    """Open a selected file, and return its descriptor.

    Raises OSError if the file, or a part of its path, is no longer the one that was selected.
    """
    descriptor = _open(file.root.directory, file.path.split("/"), 0)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "the path is no longer a regular file")
    return descriptor


def _open(directory: str, parts: Sequence[str], flags: int) -> int:
    """Open a path below a directory, one part at a time, because a script may replace any part with a link or a FIFO. Raises OSError."""
    descriptor = os.open(directory, OPEN | (os.O_DIRECTORY if parts else flags))
    for count, part in enumerate(parts, 1):
        outer = descriptor
        try:
            descriptor = os.open(part, OPEN | (os.O_DIRECTORY if count < len(parts) else flags), dir_fd=outer)
        finally:
            os.close(outer)
    return descriptor
