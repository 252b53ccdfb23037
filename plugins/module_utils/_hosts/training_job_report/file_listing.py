# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Lists the files in a job's directories."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
from typing import Any, Dict, Iterator

from ..._job import report_limits
from ..._job.schema import TIME_LIMIT, open_regular

ReportFile = Dict[str, Any]
Listing = Dict[str, Any]

# The maximum number of files to count in a directory.
COUNTED = 100_000

# The maximum number of bytes of code that the digest covers.
DIGEST_LIMIT = 1 << 30

# The directory that Python creates for compiled code.
CACHE = "__pycache__"


def newest(directory: str) -> Listing:
    """Return the number and total size (bytes) of the files below a directory, and a list of the newest files."""
    return _listing(directory, sorted(_files(directory), key=lambda file: (-file["changed"], file["name"])))


def code(directory: str) -> Listing:
    """Return the files of a job's code, sorted by name, in the form that newest() returns.

    The result also contains a digest that is the same for identical code.
    """
    found = sorted(_files(directory), key=lambda file: file["name"])
    total, rest = hashlib.sha256(), DIGEST_LIMIT
    for file in found:
        total.update(os.fsencode("{}\0{}\0".format(file["name"], file["size"])))
        with contextlib.suppress(OSError), open_regular(os.path.join(directory, file["name"])) as content:
            block = content.read(min(rest, 1 << 20))
            while block:
                total.update(block)
                rest -= len(block)
                block = content.read(min(rest, 1 << 20))
    return {**_listing(directory, found), "digest": total.hexdigest()[:12]}


def _listing(directory: str, found: list[ReportFile]) -> Listing:
    # JSON cannot represent a name that is not valid UTF-8.
    named = [{**file, "name": os.fsencode(file["name"]).decode("utf-8", "replace")} for file in found[: report_limits.FILES]]
    return {"directory": directory, "count": len(found), "size": sum(file["size"] for file in found), "files": named}


def _files(directory: str) -> Iterator[ReportFile]:
    for path in itertools.islice(_paths(directory), COUNTED):
        try:
            status = os.lstat(path)
        except OSError:
            continue  # the file was deleted in the meantime
        if stat.S_ISREG(status.st_mode):
            yield {"name": os.path.relpath(path, directory), "size": status.st_size, "changed": min(status.st_mtime, TIME_LIMIT)}


def _paths(directory: str) -> Iterator[str]:
    # Before Python 3.12, the stack limits the depth of os.walk. Jobs create the directory trees, so the trees may exceed that depth.
    folders = [] if os.path.islink(directory) else [directory]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield entry.path
                elif entry.name != CACHE:
                    folders.append(entry.path)
