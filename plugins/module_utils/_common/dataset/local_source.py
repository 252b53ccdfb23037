# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Facts about data on the controller, or in a local folder."""

from __future__ import annotations

import os
from typing import Any

from .layout import walk
from .source import (
    DataError,
    DatasetFile,
    check_names,
    fingerprint,
    parse,
)


def local_files(path: str) -> list[DatasetFile]:
    """Return the files below a folder. If the path is not a folder, return the file at the path."""
    return walk(path) if os.path.isdir(path) else [(os.path.basename(path), os.path.getsize(path))]


def upload_facts(path: str) -> dict[str, Any]:
    """Return the version and the size of the data at a path on the controller, and whether the data is a single file. Raises DataError."""
    path = path.rstrip("/")
    if not os.path.exists(path):
        raise DataError(f"dataset_source: {path} does not exist on the controller. Specify an existing path.")
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    files = local_files(path)
    if folder == path:
        check_links(path)
    check_names(files, parse(path))
    times = [os.stat(os.path.join(folder, name)).st_mtime_ns for name, _size in files]
    return {"version": fingerprint(*zip(files, times)), "size": sum(size for _name, size in files), "single": folder != path}


def check_links(folder: str) -> None:
    """Raise DataError if a symbolic link in the folder leads out of the folder, or to a folder.

    The upload follows links. It would copy other files from the controller, or a few links to folders would multiply the files.
    """
    root = os.path.realpath(folder)
    for parent, folders, names in os.walk(folder):
        for path in (os.path.join(parent, name) for name in (*folders, *names)):
            if not os.path.islink(path):
                continue
            target = os.path.realpath(path)
            check_names([(path, 0), (target, 0)], parse(folder))
            if os.path.commonpath([root, target]) != root:
                raise DataError(
                    f"dataset_source: {path} is a symbolic link to {target}, which is outside of the data set. Replace the link with a "
                    "copy of the file."
                )
            if os.path.isdir(target):
                raise DataError(
                    f"dataset_source: {path} is a symbolic link to a folder, {target}. Remove the link, or replace it with the folder."
                )
