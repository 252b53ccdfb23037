# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds the complete checkpoints in a directory, and sets a checkpoint aside. Runs on hosts without Ansible.

_job/checkpoint_layouts.py determines which entries of the directory are checkpoints.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import time
from typing import Iterator, NamedTuple, Sequence

from ...._files import replace_file, replacing
from ...._job import checkpoint_layouts
from ...._job.checkpoint_layouts import SET_ASIDE, CheckpointEntry, Saved
from ...._job.documents import Checkpoint
from ...._job.schema import open_regular
from . import checkpoint_damage

# Maximum number of directory entries to read when searching for a change or for a checkpoint.
ENTRIES = 10_000

# Depth and number of the directories in a checkpoint in which changes are searched for.
DEPTH, FOLDERS = 3, 200

# Below the two newest checkpoints that are not damaged, the contents of checkpoints are not examined.
EXAMINED = 2

# Larger files are linked and not copied, in bytes. Reading and writing this much takes a few seconds.
COPY_LIMIT = 1 << 30


def complete(place: str) -> list[Saved]:
    """Return the complete checkpoints in a directory, newest first. The list is empty if the directory cannot be read."""
    return [each for each in _examined(place) if each.is_complete and not each.damage]


def damaged(place: str) -> list[Saved]:
    """Return the newest checkpoints in a directory whose contents are damaged, newest first."""
    return [each for each in _examined(place) if each.damage]


def _examined(place: str) -> list[Saved]:
    """Return the checkpoints in a directory, newest first, with the damage to the newest ones."""
    found, intact = _find(place), 0
    for number, each in enumerate(found):
        if intact >= EXAMINED:
            break
        if each.is_complete:
            folder = os.path.join(place, os.path.dirname(each.name))
            damage = checkpoint_damage.damage(folder, [os.path.basename(entry) for entry in each.entries])
            found[number] = each._replace(damage=damage)
            intact += not found[number].damage
    return found


def has_complete(place: str) -> bool:
    """Return whether one of the first ENTRIES entries of a directory belongs to a complete checkpoint."""
    return any(each.is_complete for each in _find(place, ENTRIES))


def newest_change(place: str) -> float:
    """Return the time of the last change in a directory, in seconds since 1970, or 0 if the directory cannot be read.

    Checkpoints that are being written count too. Many frameworks write directories of large files, so in the directory that was changed
    last, files at the next DEPTH levels count as well. At most ENTRIES entries of each of at most FOLDERS directories are considered.
    """
    newest, folders = _scan(place)
    left = [(max(folders)[1], DEPTH)] if folders else []
    for path, depth in left:
        changed, inner = _scan(path)
        newest = max(newest, changed)
        if depth > 1:
            left += [(each, depth - 1) for _changed, each in inner[: FOLDERS - len(left)]]
    return newest


def _scan(place: str) -> tuple[float, list[tuple[float, str]]]:
    """Return the time of the last change of a directory or of its entries, or 0, and the times and paths of its subdirectories."""
    newest, folders = 0.0, []
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        newest = os.stat(place).st_mtime
        for entry in itertools.islice(entries, ENTRIES):
            with contextlib.suppress(OSError):
                changed = entry.stat(follow_symlinks=False).st_mtime
                newest = max(newest, changed)
                if entry.is_dir(follow_symlinks=False):
                    folders.append((changed, entry.path))
    return newest, folders


def set_aside(place: str, checkpoint: Checkpoint, into: str = "") -> None:
    """Rename a checkpoint, and change the files and links that name it, so that scripts use the previous checkpoint. Raises OSError.

    Each host of the job does this before the processes on that host start. If another host has already renamed the checkpoint, its name
    may belong to a newer checkpoint, which is not renamed. If another host has renamed a part of the checkpoint, the rest is renamed.

    The renamed checkpoint is in the directory `into`, by default `place`. A checkpoint of a collection is moved out of the collection:
    Accelerate, for example, also reads the numbers in the names of hidden folders.
    """
    name, changed = checkpoint["name"], checkpoint["changed"]
    entries = _entries(place)
    found = {each.name: each for each in _examined(place)}
    own = found.pop(name, Saved(name, [], changed, is_complete=False))
    if own.changed > changed or (own.is_complete and own.changed != changed):
        return
    left = [each for each in found.values() if each.is_complete and not each.damage]
    # A script that starts on another host must not find a pointer to a checkpoint that does not exist.
    _change_pointers(place, entries, name, left)
    folder, slash, inner = name.rpartition("/")
    if slash:
        set_aside(os.path.join(place, folder), {"name": inner, "changed": changed}, into or place)
        return
    if _is_opened_by_name(own, left):
        _exchange(place, name, changed, left[0], into)
        return
    for entry in own.entries:
        with contextlib.suppress(FileNotFoundError):
            _hide(place, entry, changed, into)


def _exchange(place: str, name: str, changed: float, left: Saved, into: str) -> None:
    """Hide a checkpoint, and give its name to a copy of another one. Raises OSError."""
    stand_in = _stand_in(place, name, left)
    try:
        _hide(place, name, changed, into)
        os.replace(stand_in, os.path.join(place, name))
    except FileNotFoundError:
        os.unlink(stand_in)  # another host has been faster


def _is_opened_by_name(own: Saved, left: Sequence[Saved]) -> bool:
    """Return whether scripts open a checkpoint without looking at other names, and the newest other one can take its place."""
    is_usual = checkpoint_layouts.CONVENTIONAL.fullmatch(own.name) and own.step is None
    return bool(is_usual and left) and own.entries == [own.name] and left[0].name in left[0].entries


def _stand_in(place: str, name: str, left: Saved) -> str:
    """Return the path of a copy of a checkpoint, or of a link to it, for scripts that open `last.ckpt` without looking at other names.

    A file is copied, because the script may write to this name again. Raises OSError.
    """
    path = _temporary(place, name)
    # An error means that the checkpoint is a directory, or that no space is left.
    with contextlib.suppress(OSError), open_regular(os.path.join(os.path.realpath(place), left.name)) as source:
        status = os.fstat(source.fileno())
        if status.st_size <= COPY_LIMIT:
            with open(path, "xb") as target:
                shutil.copyfileobj(source, target)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            return path
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.symlink(left.name, path)
    return path


def _find(place: str, limit: int | None = None) -> list[Saved]:
    """Return the checkpoints in a directory and in its collections, newest first, without their damage."""
    entries, pointers = _entries(place, limit), _pointers(place)
    collections: dict[str, list[Saved]] = {}
    if checkpoint_layouts.may_have_collections(entries, pointers):
        paths, others = _collections(place, entries)
        collections = {path: _find_in(os.path.join(place, path), limit) for path in paths}
        names = {each.name for each in checkpoint_layouts.with_collections([], collections)}
        # A link to a file in any other folder is a checkpoint, because the file is none.
        entries = [
            each._replace(target="") if "/" in each.target and each.target not in names and _exists(place, each.target) else each
            for each in entries
            if each.name not in others
        ]
    return checkpoint_layouts.with_collections(checkpoint_layouts.find_checkpoints(entries, pointers), collections)


def _find_in(place: str, limit: int | None) -> list[Saved]:
    return checkpoint_layouts.find_checkpoints(_entries(place, limit), _pointers(place))


def _exists(place: str, target: str) -> bool:
    return os.path.exists(os.path.join(place, target))


class _Folder(NamedTuple):
    """A folder below a directory: its path, how surely it is a collection, and whether it contains files, and those of checkpoints."""

    path: str
    rank: int
    has_files: bool
    has_weights: bool

    @property
    def top(self) -> str:
        return self.path.partition("/")[0]


def _collections(place: str, entries: list[CheckpointEntry]) -> tuple[list[str], set[str]]:
    """Return the paths of the collections below a directory, and the names of its folders that are no checkpoints.

    These are the folders with collections, and those without checkpoints.
    """
    folders = list(_folders(place, entries))
    without = _without_checkpoints(folders)
    ranked = [each for each in folders if (each.rank and each.top not in without) or each.rank > 1]
    surest = max((each.rank for each in ranked), default=0)
    return [each.path for each in ranked if each.rank == surest], {each.top for each in ranked} | without


def _without_checkpoints(folders: Sequence[_Folder]) -> set[str]:
    """Return the names of the folders at the top that contain only logs and descriptions, or nothing. An empty folder with a step in its
    name is a damaged checkpoint.
    """
    with_weights = {each.top for each in folders if each.has_weights}
    return {each.top for each in folders if each.has_files or not checkpoint_layouts.parse_step(each.top)} - with_weights


def _folders(place: str, entries: list[CheckpointEntry]) -> Iterator[_Folder]:
    """Yield the folders below a directory, except those in collections and checkpoints.

    A folder with a step in its name and files of its own is a checkpoint. At most FOLDERS folders are read, those that were changed last
    first. The others, and those that this user cannot read, count as checkpoints.
    """
    waiting = _to_read(entries)
    for path in itertools.islice(waiting, FOLDERS):  # the list grows
        inner = _entries(os.path.join(place, path), ENTRIES)
        rank = checkpoint_layouts.rank_collection(os.path.basename(path), [each.name for each in inner], is_at_top="/" not in path)
        files = [each.name for each in inner if not each.is_directory]
        has_weights = any(map(checkpoint_layouts.is_of_checkpoint, files)) or not os.access(os.path.join(place, path), os.R_OK | os.X_OK)
        yield _Folder(path, rank, bool(files), has_weights)
        if rank < 2 and not (has_weights and checkpoint_layouts.parse_step(path)):
            waiting += _to_read(inner, f"{path}/")
    yield from (_Folder(path, 0, has_files=True, has_weights=True) for path in waiting[FOLDERS:])


def _to_read(entries: list[CheckpointEntry], above: str = "") -> list[str]:
    """Return the paths of the folders that may be collections or contain some, according to their names, the last changed one first."""
    folders = (each for each in sorted(entries, key=lambda each: -each.changed) if each.is_directory)
    no_collections = (checkpoint_layouts.IGNORED.fullmatch, checkpoint_layouts.EXPLICIT.search)
    return [above + each.name for each in folders if not any(matches(each.name) for matches in no_collections)]


def _entries(place: str, limit: int | None = None) -> list[CheckpointEntry]:
    """Return the entries of a directory. The list is empty if the directory cannot be read."""
    found: list[CheckpointEntry] = []
    try:
        with os.scandir(place) as entries:
            for entry in itertools.islice(entries, limit):
                with contextlib.suppress(OSError):  # the entry has been deleted in the meantime
                    target = _target(place, entry.path) if entry.is_symlink() else ""
                    changed = entry.stat(follow_symlinks=False).st_mtime
                    found.append(CheckpointEntry(entry.name, changed, entry.is_dir(follow_symlinks=False), target))
    except OSError:
        return []
    return found


def _target(place: str, path: str) -> str:
    """Return the path in a directory to which a link in this directory leads, or an empty string if it leads to something elsewhere.

    The text of a link that leads nowhere is returned as it is.
    """
    link = os.readlink(path)
    target = os.path.normpath(os.path.join(place, link))
    for folder in (os.path.normpath(place), os.path.realpath(place)):
        if target.startswith(os.path.join(folder, "")):
            return os.path.relpath(target, folder)
    return "" if os.path.exists(path) else link


def _pointers(place: str) -> dict[str, str]:
    found = {}
    for name in checkpoint_layouts.POINTERS:
        with contextlib.suppress(OSError, ValueError):
            file = os.open(os.path.join(place, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if stat.S_ISREG(os.fstat(file).st_mode):
                    found[name] = os.read(file, checkpoint_layouts.POINTER_LIMIT).decode("utf-8-sig")
            finally:
                os.close(file)
    return found


def _change_pointers(place: str, entries: list[CheckpointEntry], name: str, left: list[Saved]) -> None:
    """Make the files and links that name a checkpoint name the newest other checkpoint, or hide them if there is none. Raises OSError."""
    pointers = _pointers(place)
    layout = checkpoint_layouts.find_layout(entries, pointers)
    text = pointers.get(layout.pointer, "")
    changed = checkpoint_layouts.without(text, layout, name, left)
    if not left and checkpoint_layouts.names(text, layout, name):
        _hide(place, layout.pointer, time.time())
    elif changed != text:
        path = os.path.join(place, layout.pointer)
        times = os.stat(path, follow_symlinks=False)
        with replacing(path, 0o644) as file:
            file.write(changed.encode())
            file.flush()
            # In some layouts, checkpoints that are newer than the pointer are incomplete.
            os.utime(file.fileno(), ns=(times.st_atime_ns, times.st_mtime_ns))
    for copy, original in checkpoint_layouts.COPIES.items():
        _change_copy(place, copy, os.path.join(name, original), os.path.join(left[0].name, original) if left else None)
    for entry in entries:
        if entry.target != name:
            continue
        if left:
            temporary = _temporary(place, entry.name)
            os.symlink(left[0].name, temporary)
            os.replace(temporary, os.path.join(place, entry.name))
        else:
            with contextlib.suppress(FileNotFoundError):
                _hide(place, entry.name, time.time())


def _change_copy(place: str, copy: str, original: str, other: str | None) -> None:
    """If the file `copy` is a copy of the file `original`, make it one of the file `other`, or hide it if that is None. Raises OSError."""
    before, own, after = (_content(os.path.join(place, path)) if path else b"" for path in (copy, original, other))
    if not before or before != own:
        return
    if other is None:
        _hide(place, copy, time.time())
    elif after:
        replace_file(os.path.join(place, copy), after, 0o644)


def _content(path: str) -> bytes:
    """Return the content of a small file, or nothing if it cannot be read or is large."""
    with contextlib.suppress(OSError), open_regular(path) as file:
        content = file.read(checkpoint_layouts.POINTER_LIMIT + 1)
        return content if len(content) <= checkpoint_layouts.POINTER_LIMIT else b""
    return b""


def _hide(place: str, name: str, moment: float, into: str = "") -> None:
    """Give a file, a directory or a link a hidden name that contains a time in seconds since 1970, in the directory `into` or else in
    `place`. Raises OSError.
    """
    path = os.path.join(place, name)
    is_directory = stat.S_ISDIR(os.stat(path, follow_symlinks=False).st_mode)
    _move(path, os.path.join(into or place, f"{SET_ASIDE}{moment:.0f}-{name}"), is_directory)


def _temporary(place: str, name: str) -> str:
    """Return a hidden path that no other process uses."""
    return os.path.join(place, f".{name}.{os.uname().nodename}-{os.getpid()}")


def _move(path: str, target: str, is_directory: bool) -> None:
    """Rename a file or directory. If the new name exists, append the first free number to it. Raises OSError.

    An empty file or directory reserves the new name. Otherwise, renaming could replace a checkpoint that another host or job has just set
    aside.
    """
    for number in itertools.count(1):
        name = target if number == 1 else f"{target}.{number}"
        with contextlib.suppress(FileExistsError):
            if is_directory:
                os.mkdir(name)
            else:
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW))
            break
    try:
        os.rename(path, name)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(name) if is_directory else os.unlink(name)
        raise
