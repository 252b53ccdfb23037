# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds files of the user on the controller, and names similar files in messages."""

from __future__ import annotations

import difflib
import os
from typing import Callable, Iterable, Sequence

# The minimum similarity of two names, from 0 to 1. The names of all Python files are somewhat similar, because they share a suffix.
SIMILAR = 0.7


def similar(path: str, paths: Iterable[str]) -> list[str]:
    """Return at most three paths that are similar to `path`. Paths with the same last part come first."""
    known = list(paths)
    same = [each for each in known if os.path.basename(each) == os.path.basename(path)]
    return list(dict.fromkeys([*same, *difflib.get_close_matches(path, known, cutoff=SIMILAR)]))[:3]


def _names(folder: str) -> list[str]:
    """Return the names of a folder's entries, or an empty list if the folder cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def searched_places(bases: Sequence[str]) -> str:
    """Return the directories in which a relative path was searched for, without those of the installed collection, which has no files of
    users.
    """
    places = dict.fromkeys(os.path.abspath(base) for base in bases)
    own = os.path.join("ansible_collections", "deeplearning", "cluster", "")
    return ", ".join([place for place in places if own not in place] or places)


def searched(path: str, bases: Sequence[str], is_right: Callable[[str], bool]) -> str:
    """Return the end of a message about a path that was not found: where it was searched for, and what to do."""
    expanded = os.path.expanduser(path)
    places = list(dict.fromkeys(os.path.abspath(base) for base in bases))
    where = "" if os.path.isabs(expanded) else f" (searched in {searched_places(bases)})"
    folders = dict.fromkeys(os.path.dirname(os.path.join(place, expanded)) for place in places)
    beside = {name: os.path.join(folder, name) for folder in folders for name in _names(folder)}
    right = [name for name, each in beside.items() if is_right(each)]
    close = [beside[name] for name in difflib.get_close_matches(os.path.basename(expanded), right, cutoff=SIMILAR)]
    kind = "directory" if is_right is os.path.isdir else "file"
    advice = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"Specify the path of an existing {kind}."
    return f"{where}. {advice}"


def find(path: str, bases: Sequence[str]) -> str | None:
    """Return the absolute path of an existing file or directory, or None. A relative path is searched for in each base directory."""
    expanded = os.path.expanduser(path)
    candidates = [os.path.join(base, expanded) for base in bases]
    return next((os.path.abspath(candidate) for candidate in candidates if os.path.exists(candidate)), None)


def link_problem(path: str, bases: Sequence[str]) -> str:
    """Return why a file must not be read, as a part of a message, or an empty string: a link leads out of the directory of its source.

    The first directory below a base directory may contain the code of others, whose links could lead to files of the user.
    """
    path = os.path.abspath(path)
    base = next((each for each in map(os.path.abspath, bases) if os.path.commonpath([each, path]) == each), os.path.dirname(path))
    first = os.path.join(base, os.path.relpath(path, base).split(os.sep, maxsplit=1)[0])
    root, target = os.path.realpath(first if os.path.isdir(first) else base), os.path.realpath(path)
    if os.path.commonpath([root, target]) == root:
        return ""
    return f"is a link to {target!r}, outside of {root!r}. Specify the path of the file itself."
