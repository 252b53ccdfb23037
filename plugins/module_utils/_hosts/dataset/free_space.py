# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The free space that data sets leave to others."""

from __future__ import annotations

import os

from ..._common.dataset.source import DataError

# The fraction of a file system's space and inodes that must stay free after a download or an unpacking.
RESERVE = 0.02


def check_space(folder: str, failure: str, size: int = 0, files: int = 0) -> None:
    """Raise DataError if the file system would be almost full with this many more bytes and files. The message begins with `failure`."""
    disk = os.statvfs(folder)
    too_many = disk.f_files > 0 and disk.f_favail - files < RESERVE * disk.f_files  # some file systems have no fixed number of inodes
    if too_many or disk.f_bavail - size / disk.f_frsize < RESERVE * disk.f_blocks:
        raise DataError(
            f"{failure}: the file system of {folder} is almost full. Delete files to free space or inodes, or choose another directory."
        )
