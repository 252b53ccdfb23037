"""Files that only their owner can read."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import IO, Any


class CloudError(RuntimeError):
    """The local cloud cannot do what was requested."""


class ForeignFile(CloudError):
    """A file or folder of the local cloud belongs to another user."""


def open_private(path: Path, mode: str = "w") -> IO[Any]:
    """Open a file. Only the owner can read a file that this function creates."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))


def check_owner(found: os.stat_result, path: Path) -> None:
    """Raise `ForeignFile` if another user owns the file."""
    if found.st_uid != os.geteuid():
        theirs, ours = _user(found.st_uid), _user(os.geteuid())
        raise ForeignFile(f"{path} belongs to {theirs}, not to {ours}. Remove it, or choose another folder with --home.")


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
