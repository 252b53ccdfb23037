# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads custom health checks from the controller."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ansible.utils.display import Display

from ..module_utils._common.node_health.check import NAMES
from .source_paths import link_problem
from .text_files import program_problem

# Maximum size of all custom checks in bytes. The checks are sent with the module.
PROGRAMS_LIMIT = 1 << 20
PROGRAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def programs(folder: str, bases: Sequence[str]) -> list[dict[str, str]]:
    """Return the executable files in a folder for the module's option `programs`. Relative paths are relative to one of `bases`.

    Shows a warning for each file that is not executable. Raises ValueError.
    """
    if not folder:
        return []
    path = next((each for base in bases if (each := Path(base, os.path.expanduser(folder))).is_dir()), None)
    if path is None:
        raise ValueError(f"checks: {folder!r} is not a directory on the controller. Specify a folder with executable files.")
    found: list[dict[str, str]] = []
    for file in _files(path):
        if os.access(file, os.X_OK):
            found.append(_program(file, bases))
        else:
            Display().warning(f"checks: {file} is not executable, so it is not run. To run this file, make it executable with chmod +x.")
    size = sum(len(each["content"]) for each in found) * 3 // 4
    if size > PROGRAMS_LIMIT:
        raise ValueError(f"checks: the files in {folder!r} have {size} bytes, but the limit is {PROGRAMS_LIMIT} bytes. Use smaller files.")
    return found


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if each.is_file() and not each.name.startswith("."))
    except OSError as error:
        raise ValueError(f"checks: {str(folder)!r} cannot be read ({error.strerror}). Correct its permissions.") from error


def _program(file: Path, bases: Sequence[str]) -> dict[str, str]:
    _check_name(file.name)
    try:
        problem = link_problem(str(file), bases) or program_problem(content := file.read_bytes())
    except OSError as error:
        problem = f"cannot be read ({error.strerror}). Correct its permissions."
    if problem:
        raise ValueError(f"checks: {str(file)!r} {problem}")
    return {"name": file.name, "content": base64.b64encode(content).decode("ascii")}


def _check_name(name: str) -> None:
    if not PROGRAM_NAME.fullmatch(name):
        raise ValueError(f"checks: {name!r} is not a valid check name. Use letters, digits, dots, hyphens and underscores.")
    if name in NAMES:
        raise ValueError(f"checks: {name!r} is the name of one of the collection's checks. Rename the file.")
