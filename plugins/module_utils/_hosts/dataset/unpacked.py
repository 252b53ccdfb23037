# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks the contents of an archive, and moves them into the data set.

The author of an archive is not trusted. Each archive is unpacked into a separate empty folder and checked there, so that no link in one
archive can redirect the contents of another archive. No link in a data set leads out of the data set.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator

from ..._common.dataset.source import DESCRIBING, DataError, name_problem

SPECIAL = stat.S_ISUID | stat.S_ISGID
# The first bytes of AppleDouble files (RFC 1740).
APPLE_DOUBLE = b"\x00\x05\x16\x07"
SHOWN = 200  # maximum number of characters to show of a name in a message


def check(folder: str, archive: str) -> int:
    """Check the contents of an archive, let all users read what its author could read, and clear the setuid and setgid bits of its files.
    Delete the files in which macOS stores the attributes of other files.

    Return the total size of the files as readers see it: with the holes of sparse files, and with a copy of the file for each link.

    `archive` is the archive's name as shown in messages. Setuid and setgid programs would run with the privileges of the user who unpacks
    the archive. Raises DataError if a name is not valid, a link may lead out of the folder, or an entry is neither a file, a folder nor a
    link. Raises OSError if the folder cannot be read or changed.
    """
    os.chmod(folder, _readable(os.lstat(folder).st_mode))
    for path in _entries(folder):
        name, mode = os.path.relpath(path, folder), os.lstat(path).st_mode
        problem = name_problem(name) or _kind_problem(path, name, mode)
        if problem:
            raise DataError(f"{archive}: {name[:SHOWN]!a} {problem}. Remove this entry from the archive, or set dataset_unpack: false.")
        if not stat.S_ISLNK(mode):
            os.chmod(path, _readable(mode))  # an unreadable folder would otherwise hide its contents from this check
        if stat.S_ISREG(mode) and os.path.basename(path).startswith("._") and _is_apple_double(path):
            os.unlink(path)
    return sum(os.path.getsize(path) for path in _entries(folder) if os.path.isfile(path))


def _kind_problem(path: str, name: str, mode: int) -> str:
    if stat.S_ISLNK(mode):
        target = os.readlink(path)
        return "" if stays_inside(name, target) else f"is a link to {target[:SHOWN]!a}, which may lead out of the data set"
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else "is neither a file, a folder nor a link"


def _readable(mode: int) -> int:
    """Return the permissions of a file or folder. The jobs that read it run as other users than the one who unpacks it."""
    kept = stat.S_IMODE(mode) & ~SPECIAL | (stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR)
    shared = kept & (stat.S_IRUSR | stat.S_IXUSR)
    return kept | shared >> 3 | shared >> 6


def _is_apple_double(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(APPLE_DOUBLE)) == APPLE_DOUBLE


def _entries(folder: str) -> Iterator[str]:
    """Yield the paths of all entries below a folder, each folder before its contents. Raises OSError."""
    folders = [folder]
    while folders:
        parent = folders.pop()
        for name in sorted(os.listdir(parent)):
            path = os.path.join(parent, name)
            if stat.S_ISDIR(os.lstat(path).st_mode):
                folders.append(path)
            yield path


def stays_inside(name: str, target: str) -> bool:
    """Return whether a link with this path in a folder is certain to stay inside the folder, regardless of the folder's other links.

    `..` is not accepted after the name of a folder, because the folder may itself be a link.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((count for count, part in enumerate(parts) if part != ".."), len(parts))
    return not target.startswith("/") and up <= name.count("/") and ".." not in parts[up:]


def drop_description(folder: str) -> None:
    """Delete all files that describe a data set.

    The new data set gets its own descriptive files. A link with the name of such a file could redirect the writes to a different file.
    """
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if not name.startswith(DESCRIBING):
            continue
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def make_folder(root: str, path: str) -> str:
    """Create a folder of a data set, including missing parents, and return the folder's path.

    Follows no links. Raises DataError or OSError.
    """
    parts, found = path.split("/") if path else [], root
    for count in range(len(parts) + 1):
        found = os.path.join(root, *parts[:count])
        try:
            os.mkdir(found)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(found).st_mode):
                name = os.path.relpath(found, root)[:SHOWN]
                raise DataError(
                    f"{name}: is a folder in one part of the data set, but not in another. Rename the file or the folder."
                ) from None
    return found


def move(source: str, root: str, path: str) -> None:
    """Move a folder to a path in a data set.

    If a folder already exists at the path, the contents are merged into that folder. Raises DataError or OSError.
    """
    parent, name = os.path.split(path)
    target = os.path.join(make_folder(root, parent), name) if path else root
    if not os.path.lexists(target):
        os.rename(source, target)
        return
    make_folder(root, path)
    for entry in sorted(os.listdir(source)):
        inner, inside = os.path.join(source, entry), os.path.join(path, entry)
        if stat.S_ISDIR(os.lstat(inner).st_mode):
            move(inner, root, inside)
        else:
            os.replace(inner, os.path.join(root, inside))
    os.rmdir(source)


def replace_links(folder: str) -> None:
    """Replace all symbolic links to files with hard links, because S3 stores no symbolic links. All links stay inside the folder. Raises
    OSError.
    """
    for path in list(_entries(folder)):
        if os.path.islink(path) and os.path.isfile(path):
            target = os.path.realpath(path)
            os.unlink(path)
            os.link(target, path)


def check_no_links(folder: str) -> None:
    """Raise DataError if a symbolic link refers to a file. After `replace_links`, only links from one archive to another remain.

    The limit of an archive's size does not include the files to which these links refer.
    """
    for path in _entries(folder):
        if os.path.islink(path) and os.path.isfile(path):
            name = os.path.relpath(path, folder)
            raise DataError(
                f"dataset_unpack: {name[:SHOWN]!a} is a link to a file that is not in the same archive, and S3 stores no links. Replace "
                "the link with a copy of the file."
            )
