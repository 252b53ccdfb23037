# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The files and folders of a data set, and of its temporary files."""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple, TextIO

from .source import (
    DESCRIBING,
    DatasetFile,
)

MARKER = f"{DESCRIBING}json"
WITHOUT_DESCRIPTION = ("--exclude", f"{DESCRIBING}*")


class DatasetPaths(NamedTuple):
    final: str
    partial: str

    @property
    def download(self) -> str:
        return os.path.join(self.partial, "download")

    @property
    def data(self) -> str:
        return os.path.join(self.partial, "data")

    @property
    def unpacked(self) -> str:
        return os.path.join(self.partial, "unpacked")

    @property
    def fetched(self) -> str:
        """The path of the marker file that exists once everything has been downloaded and checked."""
        return os.path.join(self.partial, "fetched")

    @property
    def prepared(self) -> str:
        """The path of the marker file that exists once this source has been unpacked (only for a data set with several sources)."""
        return os.path.join(self.partial, "prepared")

    @property
    def added(self) -> str:
        """The path of the marker file that exists once this source has been added to the data set (only if there are several sources)."""
        return os.path.join(self.partial, "added")

    @property
    def replaced(self) -> str:
        return os.path.join(self.partial, "replaced")

    def of_part(self, number: int) -> DatasetPaths:
        """Return the paths for one of several sources. `final` is the folder in which the sources are combined."""
        return DatasetPaths(self.data, os.path.join(self.partial, f"source{number}"))


def read_text(path: str) -> str | None:
    """Return the text of a file that describes a data set, or None if it does not exist. Raises OSError if the path is a link."""
    try:
        with open(path, encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW)) as file:
            return file.read()
    except FileNotFoundError:
        return None


def used_size(folder: str) -> int:
    return sum(size for _path, size in walk(folder))


def walk(folder: str) -> list[DatasetFile]:
    """Return the paths and sizes of the files below a folder, sorted by path, excluding the files that describe a data set."""
    found = []
    for parent, folders, names in os.walk(folder):
        if parent == folder:
            folders[:] = [name for name in folders if not name.startswith(DESCRIBING)]
            names = [name for name in names if not name.startswith(DESCRIBING)]
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path):
                found.append((os.path.relpath(path, folder), os.path.getsize(path)))
    return sorted(found)


def new_file(path: str) -> TextIO:
    """Open a new file for writing, in place of any existing file or link. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return open(path, "x", encoding="utf-8")  # mode x does not follow a link that another process creates in the meantime
