# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes files atomically, on the controller and on hosts: readers, also those on other hosts, see either the old or the new contents.

Also reads small JSON files that can be damaged.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from typing import Any, BinaryIO, Iterator


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o600, *, directory: int | None = None, is_new: bool = False) -> Iterator[BinaryIO]:
    """Within this context, write a hidden file with a random name, which then replaces the file at `path`, or is deleted after an error.

    Other users have only the permissions in `mode`, even while the new file is written. If other users can change the directory, pass the
    name of the file as `path`, and the descriptor of the `directory`, which was opened without following links. Raises OSError.

    If `is_new` is true, raises FileExistsError if the file exists. If several hosts write the file at the same time, exactly one succeeds:
    creating a link is atomic on NFS too.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.urandom(8).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=directory)
    try:
        with open(descriptor, "wb") as file:
            yield file
            if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:  # because of the umask. On NFS, each change is a request
                os.fchmod(descriptor, mode)
        if is_new:
            os.link(temporary, path)
            os.unlink(temporary)
        else:
            os.replace(temporary, path, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def replace_file(path: str | os.PathLike[str], content: bytes, mode: int = 0o600, *, directory: int | None = None) -> None:
    """Replace a file atomically. See `replacing`."""
    with replacing(path, mode, directory=directory) as file:
        file.write(content)


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Return the JSON object in `text`, or an empty dictionary if `text` contains none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read_object(path: str) -> dict[str, Any]:
    """Return the JSON object in the file at `path`, or an empty dictionary if the file does not exist or is damaged."""
    try:
        with open(path, "rb") as file:
            return parse_object(file.read())
    except FileNotFoundError:
        return {}
