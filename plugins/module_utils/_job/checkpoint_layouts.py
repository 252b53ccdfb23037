# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Describes how frameworks lay out checkpoints in a directory, and groups the entries of a directory into checkpoints.

docs/recovery.md contains the table of layouts.
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
# DeepSpeed, `_copy_recovery_script`; Megatron Bridge, `get_checkpoint_train_state_filename`; Hugging Face Transformers, `tmp-checkpoint-`
# in Trainer._save_checkpoint.
IGNORED = re.compile(
    r"\..*|tmp[-_.].*|.*[-_.]tmp|.*\.orbax-checkpoint-tmp.*|.*-\d+_temp|.*_temp_[0-9a-f]{32}|.*\.tempstate\d*|.*\.tmp[0-9a-f]{32}"
    r"|events\.out\.tfevents\..*|graph\.pbtxt|zero_to_(fp32|torch)\.py|lost\+found|latest_train_state\.pt",
    re.DOTALL,
)

# A file that marks the checkpoint beside it as incomplete, such as NeMo's `step=100-unfinished` beside `step=100.ckpt`, or an entry that is
# itself incomplete, such as `checkpoint-500.partial`. A lock can be left behind beside a complete checkpoint.
MARKER = re.compile(r"(?P<of>.+)[-_.](unfinished|incomplete|in-?_?progress|partial|part)", re.DOTALL | re.IGNORECASE)
LOCK = re.compile(r".+[-_.]lock", re.DOTALL | re.IGNORECASE)

# The entries of one TensorFlow checkpoint, such as `model.ckpt-100.data-00000-of-00002`.
TENSORFLOW_DATA = re.compile(r"(?P<id>.+)\.data-(?P<number>\d{5})-of-(?P<count>\d{5})", re.DOTALL)
TENSORFLOW = re.compile(r"(?P<id>.+)\.(index|meta|data-\d{5}-of-\d{5})", re.DOTALL)
TENSORFLOW_NAME = re.compile(r'^(?P<key>(?:all_)?model_checkpoint_paths?): "(?P<path>(?:[^"\\\n]|\\.)*)"$', re.MULTILINE)

# An entry of any other layout. The digest of a checkpoint is in a file beside it.
PLAIN = re.compile(r"(?P<id>.+?)(\.sha256)?", re.DOTALL)

# The number of a part in the name of a file that contains only a part of a checkpoint, such as the state of one rank.
PART = re.compile(
    r"(?<![A-Za-z])(?P<word>rng_state|random_states|rank|shard|part|worker|proc|gpu|tp|pp|dp|ep)[-_=]?\d+([-_]of[-_]\d+)?|-\d+-of-\d+",
    re.IGNORECASE,
)

# Names of checkpoints that scripts open without looking at other names. Their contents are newer than those of all earlier checkpoints.
CONVENTIONAL = re.compile(r"(.*[-_.=])?(last|latest|newest|current|resume)([-_.=].*)?", re.IGNORECASE | re.DOTALL)

# Files that belong to a checkpoint with a different name. Source: BackupAndRestore of Keras.
COMPANIONS = {"training_metadata.json": "latest.weights.h5"}

# Files beside checkpoints that are copies of a file in the newest one, from which scripts learn which one is the newest. Source:
# `checkpoint_exists` of Megatron Bridge.
COPIES = {"latest_train_state.pt": "train_state.pt"}

# Entries that are not checkpoints if there are others: descriptions, metrics and logs.
AUXILIARY = re.compile(
    r".*\.(jsonl?|ya?ml|toml|ini|cfg|txt|[ct]sv|md|log|out|err|pid|lock|py|sh|xml|html?|png|jpe?g|svg|prom)"
    r"|runs|logs?|wandb|mlruns|tensorboard|tb_logs|lightning_logs|vis_data|__pycache__",
    re.IGNORECASE | re.DOTALL,
)

# The number of a checkpoint. If its name has several numbers, the name must say which one is the step.
LABELLED = re.compile(r"(?P<label>step|iter|epoch)(?:ation|s)?[-_=.]?(?P<number>\d+)", re.IGNORECASE)
EXTENSIONS = re.compile(r"(\.[A-Za-z][A-Za-z0-9]{0,11})+\Z")

# A name that says that something is the checkpoint of a step. Other numbers may count versions of an experiment, or parts of a checkpoint.
EXPLICIT = re.compile(rf"{LABELLED.pattern}|(checkpoint|ckpt)[-_=.]?\d", re.IGNORECASE)

# The name of a folder that contains checkpoints. Sources: Accelerate with `automatic_checkpoint_naming`, ModelCheckpoint of Lightning.
COLLECTION = re.compile(r"(.*[-_.])?(checkpoints|ckpts)", re.IGNORECASE | re.DOTALL)

# The name of a converted checkpoint of Megatron-LM.
RELEASE = "release"

# Why scripts fail that use the checkpoint which a pointer names.
NAMED = "parts are missing"

# Maximum number of digits in the number of a checkpoint, and of characters in a pointer.
DIGITS_LIMIT, POINTER_LIMIT = 18, 1 << 16


class CheckpointEntry(NamedTuple):
    """A file or directory, and the time of its last change in seconds since 1970.

    `target` is what the entry links to, if it is a symbolic link to another checkpoint of the same directory, or one that leads nowhere.
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
    """A checkpoint: its name, the entries that belong to it, the latest change of these entries, and whether it is complete.

    The names of a checkpoint in a collection, and of its entries, are paths. `damage` says why the contents of the checkpoint cannot be
    loaded. It is empty if that is unknown.
    """

    name: str
    entries: Sequence[str]
    changed: float
    is_complete: bool = True
    damage: str = ""

    @property
    def step(self) -> CheckpointStep | None:
        return parse_step(self.name)


class Layout(NamedTuple):
    """How a framework stores checkpoints in a directory.

    `pointer` is the name of the file that names the newest checkpoint, `read` returns the names of checkpoints in its text, newest first,
    and `write` returns the text that names these checkpoints, in the form of an earlier text. Names that match `member` belong to the
    checkpoint `id`. A checkpoint is complete if `is_complete` accepts the names of its entries and, if `commits` is true, only after the
    pointer has named it.
    """

    name: str
    pointer: str = ""
    read: Callable[[str], list[str]] = lambda text: []
    write: Callable[[Sequence[str], str], str] = lambda names, text: ""
    member: re.Pattern[str] | None = None
    is_complete: Callable[[str, Iterable[str]], bool] = lambda name, entries: name in entries
    commits: bool = False


def _read_tensorflow(text: str) -> list[str]:
    """Return the checkpoints that a `CheckpointState` in text format names. The paths may be absolute."""
    found = [(each["key"], re.sub(r"\\(.)", r"\1", each["path"]).rpartition("/")[2]) for each in TENSORFLOW_NAME.finditer(text)]
    newest = [name for key, name in found if key == "model_checkpoint_path"]
    return newest + [name for key, name in reversed(found) if key == "all_model_checkpoint_paths"] if newest else []


def _write_tensorflow(names: Sequence[str], _text: str) -> str:
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


def _read_path(text: str) -> list[str]:
    """Return the last part of the path in a file that contains only a name or a path."""
    return _read_name(text.strip().rpartition("/")[2])


def _write_path(names: Sequence[str], text: str) -> str:
    folder, slash, _name = text.strip().rpartition("/")
    return folder + slash + names[0].rpartition("/")[2]


def _read_iteration(text: str) -> list[str]:
    """Return the checkpoint that a number names, or the word `release`, which converters write."""
    number = text.strip()
    if number == RELEASE:
        return [RELEASE]
    return [f"iter_{number.zfill(7)}"] if number.isascii() and number.isdigit() and len(number) <= DIGITS_LIMIT else []


def _write_iteration(names: Sequence[str], _text: str) -> str:
    step = parse_step(names[0])
    return str(step.number) if step else names[0]


# Files that contain only the name or the path of the newest checkpoint.
NAME_FILES = ("last_checkpoint", "latest_checkpoint", "LATEST", "latest.txt", "last.txt", "latest_checkpoint.txt")

# The first layout whose pointer or data exists in a directory applies to this directory. Sources: `tf.train.latest_checkpoint` and
# checkpoint_state.proto of TensorFlow, `DeepSpeedEngine.save_checkpoint`, `get_checkpoint_tracker_filename` of Megatron-LM,
# `Checkpointer.tag_last_checkpoint` of fvcore (detectron2), `CheckpointHook` of MMEngine.
LAYOUTS: Sequence[Layout] = (
    Layout("tensorflow", "checkpoint", _read_tensorflow, _write_tensorflow, TENSORFLOW, _is_complete_in_tensorflow),
    Layout(
        "megatron",
        "latest_checkpointed_iteration.txt",
        _read_iteration,
        _write_iteration,
        re.compile(rf"(?P<id>iter_\d{{7,18}}|global_step_?\d{{1,18}}|{RELEASE})"),
        commits=True,
    ),
    Layout("deepspeed", "latest", _read_name, lambda names, text: names[0], commits=True),
    *(Layout(name, name, _read_path, _write_path) for name in NAME_FILES),
    Layout("plain"),
)

# The names of the files that a caller of find_checkpoints() reads.
POINTERS = tuple(layout.pointer for layout in LAYOUTS if layout.pointer)


def find_checkpoints(entries: Sequence[CheckpointEntry], pointers: Mapping[str, str]) -> list[Saved]:
    """Return the checkpoints among the entries of a directory, newest first. Incomplete checkpoints are included.

    `pointers` contains the texts of the files in POINTERS that exist.
    """
    layout = find_layout(entries, pointers)
    candidates = [each for each in entries if not each.target and each.name != layout.pointer and not IGNORED.fullmatch(each.name)]
    unfinished = {found["of"] for each in entries if (found := MARKER.fullmatch(each.name))}
    groups = _plain_groups(candidates, unfinished) if layout.member is None else _groups(layout.member, candidates)
    named = next((_resolved(name, groups) for name in layout.read(pointers.get(layout.pointer, ""))), "")
    saved = [_saved(layout, name, group, unfinished) for name, group in groups.items()]
    if layout.commits:
        saved = _committed(saved, named, groups, {each.name: each.changed for each in entries}.get(layout.pointer, 0.0))
    return newest_first(_with_damage(saved, named, layout), named)


def is_of_checkpoint(name: str) -> bool:
    """Return whether a file may belong to a checkpoint: its name is neither that of a log or description nor that of an incomplete file."""
    return not any(pattern.fullmatch(name) for pattern in (IGNORED, AUXILIARY, MARKER, LOCK))


def may_have_collections(entries: Sequence[CheckpointEntry], pointers: Mapping[str, str]) -> bool:
    """Return whether folders in a directory may be collections: folders that are no checkpoints but contain some."""
    layout = find_layout(entries, pointers)
    return layout.member is None and not layout.commits


def rank_collection(name: str, inner: Iterable[str], is_at_top: bool) -> int:
    """Return how surely a folder with entries of these names is a collection, or 0 if nothing says so. Only the surest ones count.

    Entries with steps can also be parts of one checkpoint, or samples. They are checkpoints if the name of the folder (3) or their own
    names (2) say so, or if a folder at the top, whose name has no step, contains nothing else (1).
    """
    names = list(filter(is_of_checkpoint, inner))
    is_conventional = bool(CONVENTIONAL.fullmatch(name))
    steps = [bool(parse_step(each) or CONVENTIONAL.fullmatch(each)) for each in names]
    if COLLECTION.fullmatch(name) and any(steps):
        return 3
    if len({parse_step(each) for each in names if EXPLICIT.search(each)}) > is_conventional:  # `last` may contain the folder of its step
        return 2
    return int(is_at_top and not parse_step(name) and not is_conventional and all(steps) and any(map(parse_step, names)))


def with_collections(own: Sequence[Saved], collections: Mapping[str, Sequence[Saved]]) -> list[Saved]:
    """Return the checkpoints of a directory, newest first. `own` are those at the top, and `collections` has those of each folder by path.

    If some names at the top contain steps, only those count. Otherwise, what is beside the collections counts only if it has one of the
    names that scripts open without looking at others. Scripts that restart from an earlier step may write to another collection, so the
    one that was changed last has the newest checkpoints.
    """
    if not collections or any(each.step for each in own):
        return list(own)
    groups = [[each for each in own if CONVENTIONAL.fullmatch(each.name)]]
    for folder, saved in collections.items():
        groups.append([each._replace(name=f"{folder}/{each.name}", entries=[f"{folder}/{one}" for one in each.entries]) for each in saved])
    groups.sort(key=lambda group: max((each.changed for each in group), default=0.0), reverse=True)
    return [each for group in groups for each in group]


def _with_damage(saved: Sequence[Saved], named: str, layout: Layout) -> list[Saved]:
    """Return the checkpoints. The one that the pointer names is damaged if it lacks parts, or if it is missing."""
    found = [each._replace(damage=NAMED) if each.name == named and not each.is_complete else each for each in saved]
    is_missing = layout.commits and named not in (each.name for each in saved)
    return [*found, Saved(named, [], 0.0, is_complete=False, damage="is missing")] if is_missing else found


def _resolved(name: str, groups: Mapping[str, object]) -> str:
    """Return the checkpoint that a pointer names. Frameworks that use the tracker file of Megatron-LM name their folders differently."""
    if name in groups:
        return name
    wanted = parse_step(name)
    steps = {each: parse_step(each) for each in groups}
    return next((each for each, step in steps.items() if wanted and step and step.number == wanted.number), name)


def _groups(member: re.Pattern[str], entries: Iterable[CheckpointEntry]) -> dict[str, list[CheckpointEntry]]:
    """Return the entries of each checkpoint, keyed by its name."""
    groups: dict[str, list[CheckpointEntry]] = {}
    for entry in entries:
        found = member.fullmatch(entry.name)
        if found:
            groups.setdefault(found["id"], []).append(entry)
    return groups


def _plain_groups(entries: Sequence[CheckpointEntry], unfinished: set[str]) -> dict[str, list[CheckpointEntry]]:
    """Return the entries of each checkpoint, keyed by its name, in a directory whose layout only the script knows.

    Entries with the same step belong to one checkpoint, and so do the parts of a file. If some names contain steps, other entries count
    only if they have one of the names that scripts open without looking at others.
    """
    groups = _by_step(_without_auxiliary(entries))
    has_steps = any(isinstance(key, CheckpointStep) for key in groups)
    kept = [
        _finished_copies(group, unfinished)
        for key, group in groups.items()
        if not has_steps or isinstance(key, CheckpointStep) or CONVENTIONAL.fullmatch(key)
    ]
    return {min((_identity(each.name) for each in group), key=lambda name: (len(name), name)): group for group in kept}


def _without_auxiliary(entries: Sequence[CheckpointEntry]) -> Sequence[CheckpointEntry]:
    """Return the entries that may be checkpoints. Without any others, those with the names of descriptions, metrics and logs may be."""
    named = [each for each in entries if not MARKER.fullmatch(each.name) and not LOCK.fullmatch(each.name)]
    return [each for each in named if not AUXILIARY.fullmatch(_identity(each.name))] or named


def _finished_copies(group: list[CheckpointEntry], unfinished: set[str]) -> list[CheckpointEntry]:
    """Return the entries with the same step, without an unfinished copy if there is a finished one, such as NeMo's `step=100-last`."""
    copies: dict[bool, list[CheckpointEntry]] = {}
    for entry in group:
        copies.setdefault(bool(CONVENTIONAL.fullmatch(_identity(entry.name))), []).append(entry)
    finished = [copy for copy in copies.values() if all(unfinished.isdisjoint({each.name, _stem(each.name)}) for each in copy)]
    return [each for copy in finished for each in copy] or group


def _by_step(entries: Sequence[CheckpointEntry]) -> dict[CheckpointStep | str, list[CheckpointEntry]]:
    groups: dict[CheckpointStep | str, list[CheckpointEntry]] = {}
    for entry in entries:
        name = _identity(entry.name)
        groups.setdefault(parse_step(name) or _without_parts(name), []).append(entry)
    return groups


def _identity(name: str) -> str:
    found = PLAIN.fullmatch(name)
    identity = found["id"] if found else name
    return COMPANIONS.get(identity, identity)


def _without_parts(name: str) -> str:
    return PART.sub(lambda part: part["word"] or "", name)


def _stem(name: str) -> str:
    return EXTENSIONS.sub("", name)


def find_layout(entries: Sequence[CheckpointEntry], pointers: Mapping[str, str]) -> Layout:
    if any(TENSORFLOW_DATA.fullmatch(entry.name) for entry in entries):
        return LAYOUTS[0]
    return next((layout for layout in LAYOUTS if layout.read(pointers.get(layout.pointer, ""))), LAYOUTS[-1])


def _saved(layout: Layout, name: str, group: Sequence[CheckpointEntry], unfinished: set[str]) -> Saved:
    names = sorted(entry.name for entry in group)
    is_complete = layout.is_complete(name, names) and unfinished.isdisjoint({name, _stem(name)})
    return Saved(name, names, max(entry.changed for entry in group), is_complete)


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
    """Return checkpoints, newest first: the one that a pointer names, then by step if all steps count the same, otherwise by time.

    A script may write a checkpoint again, so the time alone does not tell which checkpoint is the newest. A checkpoint without a step is
    newer than those that were saved before it.
    """
    found = list(saved)
    steps = {each.name: each.step for each in found}
    is_counted = len({step.label for step in steps.values() if step}) == 1

    def number(each: Saved) -> int:
        step = steps[each.name]
        if not is_counted or step:
            return step.number if is_counted and step else 0
        return max((other.number for one in found if (other := steps[one.name]) and one.changed <= each.changed), default=0)

    def key(each: Saved) -> tuple[bool, int, bool, float, str]:
        return each.name == named and each.is_complete, number(each), is_counted and not steps[each.name], each.changed, each.name

    return sorted(found, key=key, reverse=True)


def parse_step(name: str) -> CheckpointStep | None:
    """Return the step in the name or path of a checkpoint, or None if there is none or if it is unclear which number is the step."""
    name = _without_parts(name.rpartition("/")[2])
    if CONVENTIONAL.fullmatch(name) and not LABELLED.search(name):
        return None
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
    a script that saves a checkpoint and then always fails would seem to make progress. For the same reason, a step in a collection is new
    only if no other collection had it: many scripts create a collection at each start.
    """

    def key(each: Saved) -> CheckpointStep | str:
        return (each.step or each.name.rpartition("/")[2]) if "/" in each.name else each.name

    names, states = {key(each) for each in before}, {(each.name, each.changed) for each in before}
    return any(
        key(each) not in names or (has_new_steps and each.step is None and (each.name, each.changed) not in states) for each in after
    )


def without(text: str, layout: Layout, name: str, left: Sequence[Saved]) -> str:
    """Return the text of a pointer that does not name a checkpoint, so that scripts use the newest of the checkpoints `left`.

    Returns the same text if nothing has to be changed, or if no checkpoint is left.
    """
    remaining = [each.name for each in left if each.name != name and each.is_complete and not each.damage]
    return layout.write(remaining, text) if remaining and names(text, layout, name) else text


def names(text: str, layout: Layout, name: str) -> bool:
    return any(_resolved(each, {name: None}) == name for each in layout.read(text))
