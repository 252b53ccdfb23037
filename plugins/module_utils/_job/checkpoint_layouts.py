# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Describes how frameworks lay out checkpoints in a directory, and groups the entries of a directory into checkpoints.

The functions are pure, and also run on hosts without Ansible. docs/recovery.md contains the table of layouts.
"""

from __future__ import annotations

import re
from typing import Callable, Iterable, Mapping, NamedTuple, Sequence

# The suffix of incomplete checkpoints. Scripts rename a checkpoint when it is complete.
INCOMPLETE = ".tmp"

# The prefix of the name of a checkpoint that was set aside. Scripts ignore hidden files.
SET_ASIDE = ".suspect-"

# Names of entries that are no complete checkpoints: incomplete checkpoints, and files that frameworks put beside checkpoints. Sources:
# Orbax, `orbax.checkpoint.utils.TMP_DIR_SUFFIX`; TensorFlow, the operation SaveV2 (`_temp`), BundleWriter (`.tempstate`), the function
# atomic_write_string_to_file (`.tmp` and a UUID), FileWriter (`events.out.tfevents`) and MonitoredTrainingSession (`graph.pbtxt`);
# DeepSpeed, `_copy_recovery_script`.
IGNORED = re.compile(
    r"\..*|.*\.tmp|.*\.orbax-checkpoint-tmp.*|.*_temp(_[0-9a-f]{32})?|.*\.tempstate\d*|.*\.tmp[0-9a-f]{32}"
    r"|events\.out\.tfevents\..*|graph\.pbtxt|zero_to_(fp32|torch)\.py",
    re.DOTALL,
)

# The entries of one TensorFlow checkpoint, such as `model.ckpt-100.data-00000-of-00002`.
TENSORFLOW_DATA = re.compile(r"(?P<id>.+)\.data-(?P<number>\d{5})-of-(?P<count>\d{5})", re.DOTALL)
TENSORFLOW = re.compile(r"(?P<id>.+)\.(index|meta|data-\d{5}-of-\d{5})", re.DOTALL)
TENSORFLOW_NAME = re.compile(r'^(?P<key>(?:all_)?model_checkpoint_paths?): "(?P<path>(?:[^"\\\n]|\\.)*)"$', re.MULTILINE)

# An entry of any other layout. The digest of a checkpoint is in a file beside it.
PLAIN = re.compile(r"(?P<id>.+?)(\.sha256)?", re.DOTALL)

# The number of a checkpoint. If its name has several numbers, the name must say which one is the step.
LABELLED = re.compile(r"(?P<label>step|iter|epoch)(?:ation|s)?[-_=.]?(?P<number>\d+)", re.IGNORECASE)
EXTENSIONS = re.compile(r"(\.[A-Za-z][A-Za-z0-9]{0,11})+\Z")

# Maximum number of digits in the number of a checkpoint, and of characters in a pointer.
DIGITS_LIMIT, POINTER_LIMIT = 18, 1 << 16


class CheckpointEntry(NamedTuple):
    """A file or directory, and the time of its last change in seconds since 1970.

    `target` is the name to which the entry links, if the entry is a symbolic link to another entry of the same directory.
    """

    name: str
    changed: float
    is_directory: bool = False
    target: str = ""


class CheckpointStep(NamedTuple):
    """What a checkpoint's name counts (`step`, `iter`, `epoch` or an empty string), and the number."""

    label: str
    number: int


class Saved(NamedTuple):
    """A checkpoint: its name, the entries that belong to it, the latest change of these entries, and whether it is complete."""

    name: str
    entries: Sequence[str]
    changed: float
    is_complete: bool = True

    @property
    def step(self) -> CheckpointStep | None:
        return parse_step(self.name)


class Layout(NamedTuple):
    """How a framework stores checkpoints in a directory.

    `pointer` is the name of the file that names the newest checkpoint, `read` returns the names of checkpoints in its text, newest first,
    and `write` returns the text that names these checkpoints. Names that match `member` belong to the checkpoint `id`. A checkpoint is
    complete if `is_complete` accepts the names of its entries and, if `commits` is true, only after the pointer has named it.
    """

    name: str
    pointer: str = ""
    read: Callable[[str], list[str]] = lambda text: []
    write: Callable[[Sequence[str]], str] = lambda names: ""
    member: re.Pattern[str] = PLAIN
    is_complete: Callable[[str, Iterable[str]], bool] = lambda name, entries: name in entries
    commits: bool = False


def _read_tensorflow(text: str) -> list[str]:
    """Return the checkpoints that a `CheckpointState` in text format names. The paths may be absolute."""
    found = [(each["key"], re.sub(r"\\(.)", r"\1", each["path"]).rpartition("/")[2]) for each in TENSORFLOW_NAME.finditer(text)]
    newest = [name for key, name in found if key == "model_checkpoint_path"]
    return newest + [name for key, name in reversed(found) if key == "all_model_checkpoint_paths"] if newest else []


def _write_tensorflow(names: Sequence[str]) -> str:
    lines = [("model_checkpoint_path", names[0]), *(("all_model_checkpoint_paths", name) for name in reversed(names))]
    return "".join('{}: "{}"\n'.format(key, name.replace("\\", "\\\\").replace('"', '\\"')) for key, name in lines)


def _is_complete_in_tensorflow(name: str, entries: Iterable[str]) -> bool:
    """Return whether the index, which TensorFlow writes last, and all parts of the data exist."""
    parts = [found for found in map(TENSORFLOW_DATA.fullmatch, entries) if found]
    return f"{name}.index" in entries and bool(parts) and len(parts) == int(parts[0]["count"])


def _read_name(text: str) -> list[str]:
    """Return the name in a file that contains only a name, such as DeepSpeed's file `latest`."""
    name = text.strip()
    is_name = bool(name) and len(name) < 256 and name.isprintable() and "/" not in name and not name.startswith(".")
    return [name] if is_name else []


def _read_iteration(text: str) -> list[str]:
    number = text.strip()
    return [f"iter_{number.zfill(7)}"] if number.isascii() and number.isdigit() and len(number) <= DIGITS_LIMIT else []


# The first layout whose pointer or data exists in a directory applies to this directory. Sources: `tf.train.latest_checkpoint` and
# checkpoint_state.proto of TensorFlow, `DeepSpeedEngine.save_checkpoint`, `get_checkpoint_tracker_filename` of Megatron-LM.
LAYOUTS: Sequence[Layout] = (
    Layout("tensorflow", "checkpoint", _read_tensorflow, _write_tensorflow, TENSORFLOW, _is_complete_in_tensorflow),
    Layout(
        "megatron",
        "latest_checkpointed_iteration.txt",
        _read_iteration,
        lambda names: str(int(names[0][len("iter_") :])),
        re.compile(r"(?P<id>iter_\d{7,18})"),
        commits=True,
    ),
    Layout("deepspeed", "latest", _read_name, lambda names: names[0], commits=True),
    Layout("plain"),
)

# The names of the files that a caller of find_checkpoints() reads.
POINTERS = tuple(layout.pointer for layout in LAYOUTS if layout.pointer)


def find_checkpoints(entries: Sequence[CheckpointEntry], pointers: Mapping[str, str]) -> list[Saved]:
    """Return the checkpoints among the entries of a directory, newest first. Incomplete checkpoints are included.

    `pointers` contains the texts of the files in POINTERS that exist.
    """
    layout = find_layout(entries, pointers)
    groups: dict[str, list[CheckpointEntry]] = {}
    for entry in entries:
        found = layout.member.fullmatch(entry.name)
        if found and not entry.target and entry.name != layout.pointer and not IGNORED.fullmatch(entry.name):
            groups.setdefault(found["id"], []).append(entry)
    named = layout.read(pointers.get(layout.pointer, ""))
    saved = [_saved(layout, name, group) for name, group in groups.items()]
    if layout.commits:
        saved = _committed(saved, named[0], groups, next((each.changed for each in entries if each.name == layout.pointer), 0.0))
    return newest_first(saved, named[0] if named else "")


def find_layout(entries: Sequence[CheckpointEntry], pointers: Mapping[str, str]) -> Layout:
    """Return the layout of a directory."""
    if any(TENSORFLOW_DATA.fullmatch(entry.name) for entry in entries):
        return LAYOUTS[0]
    return next((layout for layout in LAYOUTS if layout.read(pointers.get(layout.pointer, ""))), LAYOUTS[-1])


def _saved(layout: Layout, name: str, group: Sequence[CheckpointEntry]) -> Saved:
    names = sorted(entry.name for entry in group)
    return Saved(name, names, max(entry.changed for entry in group), layout.is_complete(name, names))


def _committed(saved: Sequence[Saved], named: str, groups: Mapping[str, Sequence[CheckpointEntry]], changed: float) -> list[Saved]:
    """Return the checkpoints. Those that were saved after the one that the pointer names are incomplete.

    If the pointer names a file, directories are not checkpoints. If the pointer names a directory, files are not checkpoints.
    """
    kinds = {entry.is_directory for entry in groups.get(named, ()) if entry.name == named} or {True, False}
    step = parse_step(named)
    found = []
    for each in saved:
        if not any(entry.is_directory in kinds for entry in groups[each.name]):
            continue
        if step and each.step and step.label == each.step.label:
            is_before = each.step.number <= step.number
        else:
            is_before = each.name == named or each.changed <= changed
        found.append(each._replace(is_complete=each.is_complete and is_before))
    return found


def newest_first(saved: Iterable[Saved], named: str = "") -> list[Saved]:
    """Return checkpoints, newest first: the one that a pointer names, then by step if all names have one, otherwise by time.

    A script may write a checkpoint again, so the time alone does not tell which checkpoint is the newest.
    """
    found = list(saved)
    steps = {each.name: each.step for each in found}
    is_counted = len({step and step.label for step in steps.values()}) == 1 and None not in steps.values()

    def key(each: Saved) -> tuple[bool, int, float, str]:
        step = steps[each.name]
        return each.name == named and each.is_complete, step.number if is_counted and step else 0, each.changed, each.name

    return sorted(found, key=key, reverse=True)


def parse_step(name: str) -> CheckpointStep | None:
    """Return the step in the name of a checkpoint, or None if there is none or if it is unclear which number is the step."""
    labelled = {found["label"].lower(): found["number"] for found in LABELLED.finditer(name)}
    label = next((label for label in ("step", "iter", "epoch") if label in labelled), "")
    numbers = [labelled[label]] if label else re.findall(r"\d+", EXTENSIONS.sub("", name))
    if len(numbers) != 1 or len(numbers[0]) > DIGITS_LIMIT or not numbers[0].isascii():
        return None
    return CheckpointStep(label, int(numbers[0]))


def has_new(before: Iterable[Saved], after: Iterable[Saved], has_new_steps: bool) -> bool:
    """Return whether checkpoints were completed between two states of a directory.

    A name that did not exist before is a new checkpoint. A checkpoint with a step in its name that was written again is not. A checkpoint
    without a step, such as `last.pt`, replaces its predecessor, and is new only if the script has also reported a higher step. Otherwise,
    a script that saves a checkpoint and then always fails would seem to make progress.
    """
    known = {each.name: each for each in before}
    return any(
        each.name not in known or (has_new_steps and each.step is None and each.changed != known[each.name].changed) for each in after
    )


def without(text: str, layout: Layout, name: str, left: Sequence[Saved]) -> str:
    """Return the text of a pointer that does not name a checkpoint, so that scripts use the newest of the checkpoints `left`.

    Returns the same text if nothing has to be changed, or if no checkpoint is left.
    """
    named, remaining = layout.read(text), [each.name for each in left if each.name != name and each.is_complete]
    return layout.write(remaining) if name in named and remaining else text
