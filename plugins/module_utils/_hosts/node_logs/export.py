# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Uploads a host's boot and set-up logs to S3, as root and with the credentials of the host's role.

Only root can change the paths of the logs. The AWS CLI reads copies in a directory that only root can access.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from typing import Any, Callable, Iterator

from ..._common.node_setup.records import LOGS
from ..._common.shared_storage.boot import UNIT
from ..._common.shared_storage.mounts import bucket_and_prefix, check_bucket_source
from ..._job.schema import open_regular
from ..dataset import s3

# A function, such as AnsibleModule.run_command, that runs a command and returns its exit status, output and errors.
RunCommand = Callable[..., "tuple[int, str, str]"]

ARGUMENTS: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "destination": {"type": "str", "required": True},
    "region": {"type": "str"},
}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
FILES = ("/var/log/cloud-init.log", "/var/log/cloud-init-output.log")
# The journalctl options that select each log that is stored in the journal.
JOURNALS = {"kernel.log": ("--dmesg",), "shared-storage.log": ("--boot", f"--unit={UNIT}")}
GRANT = "Add the destination to deeplearning_export_destinations"


def prefix(destination: str, name: str) -> str:
    """Return the S3 prefix of a host's logs, with a trailing slash. Raises ValueError."""
    check_bucket_source(destination)
    if not NAME.fullmatch(name):
        raise ValueError(f"name: {name!r} is not valid. Use letters, digits, '.', '_' and '-'.")
    bucket, start = bucket_and_prefix(destination)
    return f"s3://{bucket}/{start}nodes/{name}/"


def export(run: RunCommand, destination: str, region: str, *, check_mode: bool) -> dict[str, Any]:
    """Upload all logs. Return the module's result.

    If `check_mode` is true, nothing is uploaded. Raises DataError, OSError or ValueError.
    """
    with tempfile.TemporaryDirectory() as folder:
        logs = collect(run, folder)
        # Jobs can write objects to the destination, so the existing objects do not show what was uploaded.
        if logs and not check_mode:
            s3.copy(s3.Access(region, grant=GRANT), folder, destination, lambda _done, _total: None, "--recursive", tree=False)
    return {"changed": bool(logs), "destination": destination, "logs": logs}


def collect(run: RunCommand, folder: str) -> list[str]:
    """Copy all existing logs to a folder. Return their paths relative to the folder. Raises OSError or ValueError."""
    os.mkdir(os.path.join(folder, "setup"), 0o700)
    for key, path in files():
        try:
            with open_regular(path) as log, open(os.path.join(folder, key), "wb") as copy:
                shutil.copyfileobj(log, copy)
        except OSError as error:
            reason = error.strerror or "it is not a regular file"
            raise ValueError(f"{path} cannot be copied: {reason}. Correct or remove this file.") from error
    for key, arguments in JOURNALS.items():
        status, output, _error = run(["journalctl", "--quiet", "--no-pager", "--output=short-iso", *arguments])
        if not status and output:
            with open(os.path.join(folder, key), "w", encoding="utf-8", errors="surrogateescape") as copy:
                copy.write(output)
    found = (os.path.join(place, name) for place, _folders, names in os.walk(folder) for name in names)
    return sorted(os.path.relpath(path, folder) for path in found)


def files() -> Iterator[tuple[str, str]]:
    """Yield the path of each log relative to the host's prefix, and its path on the host."""
    for path in FILES:
        if os.path.exists(path):
            yield os.path.basename(path), path
    if os.path.isdir(LOGS):
        for name in sorted(os.listdir(LOGS)):
            yield os.path.join("setup", name), os.path.join(LOGS, name)
