# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes the report page to a job's directory."""

from __future__ import annotations

import os
import stat

from ..._files import replace_file

PAGE = "report.html"


def put(page: str, directory: str, check_mode: bool) -> bool:
    """Write the page to the job's directory, and return whether the content of the page has changed. Raises OSError.

    Does not follow symbolic links, because the job's user may have created links in the job's directory.
    """
    with open(page, "rb") as file:
        content = file.read()
    job = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        changed = read(job, len(content) + 1) != content
        if changed and not check_mode:
            replace_file(PAGE, content, 0o644, directory=job)
    finally:
        os.close(job)
    return changed


def read(directory: int, size: int) -> bytes:
    """Return at most `size` bytes of the page in an open directory, or no bytes if the page is not a regular file."""
    try:
        page = os.open(PAGE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except OSError:
        return b""
    with open(page, "rb") as file:
        return file.read(size) if stat.S_ISREG(os.fstat(page).st_mode) else b""
