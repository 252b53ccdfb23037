# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds checkpoints whose contents are incomplete according to their own format. Runs on hosts without Ansible.

A script that was killed while it saved leaves such checkpoints, and so does a host that was lost. Unknown formats are never damaged. Jobs
write these files, so links are not followed, and only a few bytes of each file are read.

Sources: the ZIP file format specification (end of central directory); the HDF5 file format specification (superblock); the format
specification of safetensors; FileSystemWriter of torch.distributed.checkpoint, which writes `.metadata` last, with the names of the shards;
Trainer of Hugging Face Transformers, which needs `trainer_state.json` to continue, and which writes `checkpoint-is-incomplete.txt` while it
saves after SIGTERM; CommitFileTemporaryPath of Orbax, which writes `commit_success.txt` last where it cannot rename directories.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import stat
import struct
from typing import BinaryIO, Iterator, Sequence

from ...._job.checkpoint_layouts import LABELLED, parse_step
from ...._job.schema import open_regular

# How much of an index is read, in bytes, and how many files of a checkpoint are examined, at how many levels.
INDEX_LIMIT, FILES_LIMIT, DEPTH = 1 << 24, 500, 2
# How many entries beside a folder are searched for complete folders of the Trainer.
BESIDE_LIMIT = 10_000
# Formats whose files are never empty.
NEVER_EMPTY = (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npz", ".npy", ".h5", ".hdf5", ".keras", ".pkl", ".params")
ZIP, ZIP_END, ZIP_END_SIZE = b"PK\x03\x04", b"PK\x05\x06", 22
ZIP_TAIL = ZIP_END_SIZE + 0xFFFF
HDF5 = b"\x89HDF\r\n\x1a\n"
# The position of the address of the end of the file in an HDF5 superblock, by version of the superblock.
HDF5_END = {0: 40, 1: 44, 2: 28, 3: 28}
# A part of a set, such as `model-00001-of-00003.safetensors`. In `epoch-00003-of-00010.pt`, the number is an epoch.
PART = re.compile(r".*-(?P<number>\d{5})-of-(?P<count>\d{5})(\D.*)?", re.DOTALL)
SHARDS, METADATA = ".distcp", ".metadata"
# The name of a shard in `.metadata`, which is a pickled object. To load it would run the code that it names.
NAMED_SHARD = re.compile(rb"__\d{1,9}_\d{1,9}\.distcp")
# A file that marks its own folder as incomplete, and one that a complete folder has if the complete folders beside it have it.
UNFINISHED = re.compile(r"\.?(checkpoint[-_]is[-_])?(unfinished|incomplete|in[-_]?progress)(\.txt)?", re.IGNORECASE)
COMMIT, COMMITS_BESIDE = "commit_success.txt", 20
TRAINER_FOLDER, TRAINER_STATE, TRAINER_ARGUMENTS = "checkpoint-", "trainer_state.json", "training_args.bin"


def damage(place: str, entries: Sequence[str]) -> str:
    """Return why a checkpoint cannot be loaded, such as `model.pt is cut off`, or an empty string if nothing proves that."""
    place, left = os.path.realpath(place), FILES_LIMIT
    # A script may expect an empty folder whose name contains no step, and may number something else in the names of files without a step.
    steps = list(filter(parse_step, entries))
    if steps and all(_is_empty(os.path.join(place, entry), DEPTH) for entry in entries):
        return f"{steps[0]} is empty"
    missing = _missing_parts(steps)
    if missing:
        return missing
    for entry in entries:
        for folder, names in _folders(os.path.join(place, entry)):
            reason = _damage_of_folder(folder, names) or (_incompleteness(folder, names) if folder != place else "")
            reason = reason or next(filter(None, (_damage_of_file(os.path.join(folder, name)) for name in names[:left])), "")
            if reason:
                return reason
            left -= len(names[:left])
    return ""


def _is_empty(path: str, depth: int) -> bool:
    """Return whether a path is a directory that contains nothing but empty directories, at most `depth` levels deep."""
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        return all(depth > 0 and entry.is_dir(follow_symlinks=False) and _is_empty(entry.path, depth - 1) for entry in entries)
    return False


def _missing_parts(names: Sequence[str]) -> str:
    """Return how many parts are missing in the set that lacks the fewest, or an empty string. Other sets may be left from earlier."""
    sets: dict[str, set[str]] = {}
    for part in filter(None, (PART.fullmatch(LABELLED.sub("", name)) for name in names)):
        sets.setdefault(part["count"], set()).add(part["number"])
    missing, count = min(((int(count) - len(numbers), int(count)) for count, numbers in sets.items()), default=(0, 0))
    return f"{missing} of {count} parts are missing" if missing > 0 else ""


def _folders(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the directories of a checkpoint that are examined, each with the names of its files. A file yields its own directory."""
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(os.stat(path, follow_symlinks=False).st_mode):
            yield os.path.split(path)[0], [os.path.basename(path)]
            return
    left, found = [(path, DEPTH)], 1
    while left:
        folder, depth = left.pop(0)
        files = []
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    files.append(entry.name)
                elif depth > 1 and found < FILES_LIMIT and entry.is_dir(follow_symlinks=False):
                    left.append((entry.path, depth - 1))
                    found += 1
        yield folder, sorted(files)


def _incompleteness(folder: str, names: Sequence[str]) -> str:
    """Return how the names of the files in a folder say that the folder is incomplete, or an empty string."""
    unfinished = next(filter(UNFINISHED.fullmatch, names), "")
    if unfinished:
        return f"{unfinished} says that it is incomplete"
    if COMMIT not in names and parse_step(os.path.basename(folder)) and _has_commits_beside(folder):
        return f"{COMMIT} is missing"
    return _missing_parts(names)


def _damage_of_folder(folder: str, names: Sequence[str]) -> str:
    if any(name.endswith(SHARDS) for name in names):
        return _damage_of_shards(folder, names)
    if TRAINER_STATE not in names and os.path.basename(folder).startswith(TRAINER_FOLDER) and _is_of_trainer(folder, names):
        return f"{TRAINER_STATE} is missing"
    for name in names:
        if name.endswith((".safetensors.index.json", ".bin.index.json")):
            missing = sorted(_read_shards(os.path.join(folder, name)).difference(names))
            if missing:
                return f"{missing[0]} is missing"
    return ""


def _damage_of_shards(folder: str, names: Sequence[str]) -> str:
    """Return which part of a checkpoint of torch.distributed.checkpoint is missing or empty.

    A rank that has nothing to save leaves an empty shard, which `.metadata` does not name.
    """
    if METADATA not in names:
        return f"{METADATA} is missing"
    with contextlib.suppress(OSError), open_regular(os.path.join(folder, METADATA)) as file:
        index = file.read(INDEX_LIMIT)
        if not index:
            return f"{METADATA} is empty"
        for name in sorted({found.decode() for found in NAMED_SHARD.findall(index)}):
            try:
                if not os.stat(os.path.join(folder, name), follow_symlinks=False).st_size:
                    return f"{name} is empty"
            except FileNotFoundError:
                return f"{name} is missing"
    return ""


def _is_of_trainer(folder: str, names: Sequence[str]) -> bool:
    """Return whether the Trainer has begun to write a folder: it contains the Trainer's arguments, or only files that a complete folder of
    the Trainer beside it contains too.
    """
    if TRAINER_ARGUMENTS in names or not names:
        return bool(names)
    beside = _beside(folder, TRAINER_FOLDER)[:FILES_LIMIT]
    return any({*names, TRAINER_STATE} <= set(next(_folders(path))[1]) for path in beside)


def _has_commits_beside(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(path, COMMIT)) for path in _beside(folder)[:COMMITS_BESIDE])


def _beside(folder: str, prefix: str = "") -> list[str]:
    """Return the paths in the parent directory of a folder whose names begin with `prefix`."""
    with contextlib.suppress(OSError), os.scandir(os.path.dirname(folder)) as entries:
        return [each.path for each in itertools.islice(entries, BESIDE_LIMIT) if each.name.startswith(prefix)]
    return []


def _damage_of_file(path: str) -> str:
    """Return why a file cannot be read in its format, such as `model.pt is cut off`, or an empty string."""
    name = os.path.basename(path)
    with contextlib.suppress(OSError), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return f"{name} is empty" if name.endswith(NEVER_EMPTY) else ""
        return f"{name} is cut off" if _is_cut_off(file, size, name) else ""
    return ""


def _is_cut_off(file: BinaryIO, size: int, name: str) -> bool:
    """Return whether a file is shorter than its first bytes say, or lacks the bytes with which its format ends."""
    if name == TRAINER_STATE:
        return size <= INDEX_LIMIT and _parsed(file.read(INDEX_LIMIT)) is None
    head = file.read(64)
    if head.startswith(ZIP):
        file.seek(max(0, size - ZIP_TAIL))
        tail = file.read(ZIP_TAIL)
        end = tail.rfind(ZIP_END)
        return end < 0 or len(tail) - end < ZIP_END_SIZE
    if head.startswith(HDF5):
        return size < _end_of_hdf5(head)
    return name.endswith(".safetensors") and size < _end_of_safetensors(file, head)


def _end_of_hdf5(head: bytes) -> int:
    """Return the size of an HDF5 file in bytes, or 0 if its form is unusual."""
    version = head[8] if len(head) > 8 else -1
    position = HDF5_END.get(version, len(head))
    is_usual = len(head) >= position + 8 and head[13 if version < 2 else 9] == 8  # addresses of eight bytes
    return int(struct.unpack_from("<Q", head, position)[0]) if is_usual else 0


def _end_of_safetensors(file: BinaryIO, head: bytes) -> int:
    """Return the size of a file of safetensors in bytes, or 0 if its form is unusual."""
    if len(head) < 8:
        return 8
    length = int(struct.unpack_from("<Q", head)[0])
    if length > INDEX_LIMIT:
        return 0
    file.seek(8)
    text = file.read(length)
    if len(text) < length:
        return 8 + length
    tensors = _parsed(text)
    try:
        ends = [int(each["data_offsets"][1]) for name, each in tensors.items() if name != "__metadata__"]  # type: ignore[attr-defined]
    except (ValueError, TypeError, LookupError, AttributeError):
        return 0
    return 8 + length + max(ends, default=0)


def _read_shards(path: str) -> set[str]:
    """Return the names of the files in an index of weights, or nothing if it is damaged, too large or not a file."""
    with contextlib.suppress(OSError, TypeError, LookupError, AttributeError), open_regular(path) as file:
        shards = _parsed(file.read(INDEX_LIMIT))["weight_map"].values()  # type: ignore[index]
        return {shard for shard in shards if isinstance(shard, str)}
    return set()


def _parsed(text: bytes) -> object:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    return None
