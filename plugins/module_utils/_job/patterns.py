# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""File name patterns, such as the values of `training_job_exclude`."""

from __future__ import annotations

import fnmatch
from typing import Iterable, Sequence


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern matches a file or directory.

    As in `.gitignore`, a pattern without a slash is compared with the name. A pattern with a slash is compared with the path from the
    top: `*` matches no slash, `**` matches any number of directories, and `/venv` matches only the top.
    """
    parts = path.split("/")
    wanted = (pattern.rstrip("/") for pattern in patterns)
    return any(
        _fits(parts, pattern.lstrip("/").split("/")) if "/" in pattern else fnmatch.fnmatchcase(parts[-1], pattern) for pattern in wanted
    )


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_fits(parts[count:], pattern[1:]) for count in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])
