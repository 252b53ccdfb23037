# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Stages one data set on a host: examines the source, then fetches, checks, unpacks and publishes it.

All steps work in a temporary folder next to the data set. The name of this folder contains the version, so that the next run continues
where an interrupted run stopped. The finished data set contains a marker file that describes it. The finished data set is moved into place
by renaming a folder.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import time
from typing import Any, Dict, NamedTuple, TextIO

from .. import urls
from . import s3, tools, unpacked
from .shares import check_ranks, literal, shards
from .source import (
    DESCRIBING,
    DIRECT,
    PATH,
    S3,
    SHOWN,
    URL,
    DataError,
    DatasetFile,
    Source,
    all_sources,
    check_names,
    check_options,
    check_parts,
    check_sources,
    fingerprint,
    human,
    is_archive,
    listed,
    name_of,
    name_of_set,
    parse,
    parse_checksum,
    parts_of,
    split_markers,
)

MARKER = f"{DESCRIBING}json"
FILES = f"{DESCRIBING}files"
SHARDS = f"{DESCRIBING}shards"
WITHOUT_DESCRIPTION = ("--exclude", f"{DESCRIBING}*")
VERSION_PATTERN = "[0-9a-f]" * 12
WRITE_EVERY = 1.0  # seconds

# The options of the module `dataset`.
DatasetSpec = Dict[str, Any]


class Plan(NamedTuple):
    """The contents of a source, and whether the source's current version is already staged."""

    source: Source
    name: str
    version: str
    # The objects of a source on S3, or an empty list if the source is not on S3.
    files: list[DatasetFile]
    # The paths of the empty objects that only mark folders.
    markers: list[str]
    # The total number of bytes to fetch, or None if the server does not report the size.
    size: int | None
    single: bool
    current: bool
    # The contents of each source, if there are several.
    parts: list[Plan]
    # The sources whose contents may have changed although the version is the same.
    unversioned: list[str]


class DatasetPaths(NamedTuple):
    """The paths of a data set and of its temporary files."""

    final: str
    partial: str

    @property
    def download(self) -> str:
        return os.path.join(self.partial, "download")

    @property
    def data(self) -> str:
        return os.path.join(self.partial, "data")

    @property
    def unpacked(self) -> str:
        """The path of the folder for the contents of one archive."""
        return os.path.join(self.partial, "unpacked")

    @property
    def fetched(self) -> str:
        """The path of the marker file that exists once everything has been downloaded and checked."""
        return os.path.join(self.partial, "fetched")

    @property
    def prepared(self) -> str:
        """The path of the marker file that exists once this source has been unpacked (only for a data set with several sources)."""
        return os.path.join(self.partial, "prepared")

    @property
    def added(self) -> str:
        """The path of the marker file that exists once this source has been added to the data set (only if there are several sources)."""
        return os.path.join(self.partial, "added")

    @property
    def replaced(self) -> str:
        return os.path.join(self.partial, "replaced")

    def of_part(self, number: int) -> DatasetPaths:
        """Return the paths for one of several sources. `final` is the folder in which the sources are combined."""
        return DatasetPaths(self.data, os.path.join(self.partial, f"source{number}"))


class StagingProgress:
    """Writes the staging progress to a file."""

    def __init__(self, path: str) -> None:
        self._path, self._written = path, float("-inf")
        self._part: dict[str, int] = {}

    def stage(self, stage: str, done: int = 0, total: int = 0) -> None:
        self._write({"stage": stage, "done": done, "total": total, **self._part})

    def part(self, number: int, count: int) -> None:
        """Record which of several sources the next stages process. If `count` is 0, the next stages process the entire data set."""
        self._part = {"source": number, "sources": count} if count else {}

    def moved(self, stage: str) -> s3.Report:
        """Return a function that writes the progress of a stage to the file."""

        def report(done: int, total: int) -> None:
            if time.monotonic() >= self._written + WRITE_EVERY:
                self.stage(stage, done, total)

        return report

    def end(self, **result: Any) -> None:
        self._write({"stage": "ended", **result})

    def _write(self, state: dict[str, Any]) -> None:
        self._written = time.monotonic()
        with open(self._path + ".new", "w", encoding="utf-8") as file:
            json.dump(state, file)
        os.replace(self._path + ".new", self._path)


def run(spec: DatasetSpec, progress: StagingProgress) -> None:
    """Fetch a share or stage the whole data set, depending on the spec, and write the outcome to the progress file."""
    try:
        progress.end(result=fetch_share(spec, progress) if spec["share"] else stage(spec, progress))
    except DataError as error:
        progress.end(error=str(error))
    except OSError as error:
        progress.end(error=f"{error.filename or spec['directory']}: {error.strerror or error}.")


# Decide what to do


def examine(spec: DatasetSpec) -> Plan:
    """Examine the sources, and check whether the current versions of the sources are already staged. Changes nothing. Raises DataError."""
    check_sources(spec)
    plan = _examine_several(spec) if spec["sources"] else _examine_source(spec)
    check_ranks(spec["shards"], len(plan.files) if plan.files and not spec["unpack"] else None)
    marker = _marker(spec, plan.name)
    if not marker and not spec["destination"].startswith("s3://") and os.path.lexists(places(spec, plan).final):
        raise DataError(
            f"{places(spec, plan).final}: the existing data was not staged by this role. Choose another dataset_name, or move the data."
        )
    current = bool(marker) and marker["version"] == plan.version and not plan.unversioned
    if plan.source.kind == PATH and not current and not spec["destination"].startswith("s3://"):
        _require_space(spec, plan, _missing(plan, places(spec, plan)))  # the controller copies the files after this check
    return plan._replace(current=current)


def _examine_several(spec: DatasetSpec) -> Plan:
    name, specs = name_of_set(spec), parts_of(spec)
    parts = [_examine_source(part) for part in specs]
    version = fingerprint(*((part.version, options["folder"]) for part, options in zip(parts, specs)))
    unversioned = [shown for part in parts for shown in part.unversioned]
    return Plan(
        all_sources(spec), name, version, files=[], markers=[], size=None, single=False, current=False, parts=parts, unversioned=unversioned
    )


def _examine_source(spec: DatasetSpec) -> Plan:
    """Examine one source. Raises DataError."""
    source = parse(spec["source"])
    check_options(spec, source)
    name = name_of(source, spec["name"])
    files: list[DatasetFile] = []
    markers: list[str] = []
    size, single, facts = None, source.kind == URL, [spec["checksum"], spec["unpack"]]
    unversioned: list[str] = []
    if source.kind == S3:
        objects, single = _list(spec, source)
        files, markers = split_markers([(path, bytes_) for path, bytes_, _tag in objects])
        _check_files(spec, source, files)
        size = sum(bytes_ for _path, bytes_ in files)
        facts += [source.text, *objects]
    elif source.kind == PATH:
        size, single = spec["upload"]["size"], spec["upload"]["single"]
        facts += [spec["upload"]["version"]]
    elif spec["checksum"]:
        facts += [source.basename]  # the checksum identifies the contents, so no request to the server is necessary
    else:
        remote = tools.ask(source)
        # A query may select the contents. The version is a digest of all facts, so nobody can read the query in it.
        size, facts = remote.size, [*facts, urls.without_credentials(source.text), remote]
        unversioned = [] if remote.version else [source.shown]
    if spec["checksum"] and not single:
        raise DataError(f"dataset_checksum: a checksum applies only to a single file, but {source.shown} is a folder. Remove the option.")
    version = fingerprint(*facts, spec["destination"] == DIRECT)
    return Plan(source, name, version, files, markers, size, single, current=False, parts=[], unversioned=unversioned)


def _list(spec: DatasetSpec, source: Source) -> tuple[list[tuple[str, int, str]], bool]:
    """Return the objects of a source on S3, and whether the source is a single object. Raises DataError if they cannot be read."""
    archived: list[str] = []
    objects, single = listed(s3.list_objects(_access(spec), source), source, archived)
    if not objects:
        raise DataError(f"dataset_source: {source.text} contains no objects. Check the bucket and the prefix.")
    # A request for each object would take too long. If the first one is restored, S3 names the others during the download.
    if archived and spec["destination"] != DIRECT and not s3.is_restored(_access(spec), source, archived[0]):
        raise DataError(
            f"dataset_source: {len(archived)} of {len(objects)} objects in {source.shown} are archived, for example "
            f"{archived[0][:SHOWN]!a}. Restore them first: https://docs.aws.amazon.com/AmazonS3/latest/userguide/restoring-objects.html"
        )
    return objects, single


def _check_files(spec: DatasetSpec, source: Source, files: list[DatasetFile]) -> None:
    if spec["unpack"]:
        check_parts((path for path, _size in files), source.shown)
    check_names(files, source, are_paths=not _stays_on_s3(spec))


def places(spec: DatasetSpec, plan: Plan) -> DatasetPaths:
    """Return the final path of the data set and the folder in which it is prepared."""
    directory = spec["directory"]
    return DatasetPaths(os.path.join(directory, plan.name), os.path.join(directory, f".{plan.name}.{plan.version}.partial"))


def _access(spec: DatasetSpec) -> s3.Access:
    return s3.Access(spec["region"] or "", spec["anonymous"])


def _marker(spec: DatasetSpec, name: str) -> dict[str, Any]:
    """Return the marker of the staged data set, or an empty dictionary if none is staged, or if an upload to S3 is incomplete."""
    marker = _read_marker(spec, name)
    return marker if "version" in marker else {}


def _read_marker(spec: DatasetSpec, name: str) -> dict[str, Any]:
    if spec["destination"].startswith("s3://"):
        # The destination requires credentials even if the source is read anonymously.
        text = s3.read_object(s3.Access(spec["region"] or ""), f"{spec['destination'].rstrip('/')}/{MARKER}")
    else:
        text = _read(os.path.join(spec["directory"], name, MARKER))
    try:
        marker = json.loads(text or "{}")
    except ValueError:
        return {}
    return marker if isinstance(marker, dict) else {}


def _read(path: str) -> str | None:
    """Return the text of a file that describes a data set, or None if it does not exist. Raises OSError if the path is a link."""
    try:
        with open(path, encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW)) as file:
            return file.read()
    except FileNotFoundError:
        return None


# Stage the data set


def fetch_share(spec: DatasetSpec, progress: StagingProgress) -> dict[str, Any]:
    """Fetch the S3 objects that match the share's patterns into a folder that all hosts share. Raises DataError."""
    source, share = parse(spec["source"]), spec["share"]
    partial = os.path.join(spec["directory"], f".{name_of(source, spec['name'])}.{share['version']}.partial")
    included = [option for pattern in share["patterns"] for option in ("--include", pattern)]
    target = os.path.join(partial, "download")
    if included and not os.path.exists(DatasetPaths("", partial).fetched):
        os.makedirs(target, exist_ok=True)
        options = ("--exclude", "*", *included, *WITHOUT_DESCRIPTION)
        s3.copy(_access(spec), _folder(source), target, progress.moved("fetching"), *options)
    return {"changed": True}


def stage(spec: DatasetSpec, progress: StagingProgress) -> dict[str, Any]:
    """Stage the data set at its destination unless it is already there. Raises DataError."""
    progress.stage("examining")
    plan = examine(spec)
    if plan.current:
        return {"changed": write_shards(spec, plan), **_described(spec, plan)}
    where = places(spec, plan)
    if plan.unversioned:  # an earlier run may have fetched a part of other contents
        shutil.rmtree(where.partial, ignore_errors=True)
    if plan.parts:
        files = _combine(spec, plan, where, progress)
    elif _goes_directly(spec, plan):
        _check(spec, plan, plan.source.text)
        os.makedirs(where.data, exist_ok=True)
        source, target = _between(spec, plan)
        if plan.single:
            _mark_incomplete(spec, plan, where)
            s3.copy(_access(spec), source, target, progress.moved("copying"), tree=False)
        else:
            _copy_all(spec, plan, where, _access(spec), source, progress.moved("copying"), *WITHOUT_DESCRIPTION)
        files = plan.files or local_files(plan.source.text)
    elif spec["destination"] == DIRECT:
        os.makedirs(where.data, exist_ok=True)
        prefix = plan.source.text if plan.single else _folder(plan.source)
        files = [(prefix if plan.single else prefix + path, size) for path, size in plan.files]
    else:
        _fetch(spec, plan, where, progress)
        files = _prepare(spec, where, progress)
    _describe(spec, plan, where.data, files)
    progress.stage("publishing")
    if spec["destination"].startswith("s3://"):
        _upload(spec, plan, where, progress)
    else:
        _publish(where)
    for left in glob.glob(glob.escape(os.path.join(spec["directory"], f".{plan.name}.")) + VERSION_PATTERN + ".partial"):
        shutil.rmtree(left, ignore_errors=True)
    return {"changed": True, **_described(spec, plan)}


def _goes_directly(spec: DatasetSpec, plan: Plan) -> bool:
    """Return whether the AWS CLI copies the unchanged source directly to S3, without storing it on this host's disk."""
    return spec["destination"].startswith("s3://") and (plan.source.kind == PATH or (plan.source.kind == S3 and _stays_on_s3(spec)))


def _stays_on_s3(spec: DatasetSpec) -> bool:
    """Return whether the objects of a source on S3 never become files on this host."""
    to_s3 = spec["destination"].startswith("s3://") and not spec["sources"] and not (spec["unpack"] or spec["checksum"])
    return to_s3 or spec["destination"] == DIRECT


def _described(spec: DatasetSpec, plan: Plan) -> dict[str, Any]:
    path = spec["destination"] if spec["destination"].startswith("s3://") else places(spec, plan).final
    return {"name": plan.name, "path": path, "version": plan.version, **warnings(plan)}


def warnings(plan: Plan) -> dict[str, list[str]]:
    """Return the warning about sources that are fetched at each run, as a part of the module's result."""
    if not plan.unversioned:
        return {}
    text = (
        f"dataset_source: the server of {', '.join(plan.unversioned)} reports neither ETag nor Last-Modified, so each run fetches the data"
        " again. Set the checksum of the file to keep data that is already staged."
    )
    return {"warnings": [text]}


def _folder(source: Source) -> str:
    """Return the S3 prefix of the source with a trailing slash."""
    return source.text if source.text.endswith("/") else source.text + "/"


def _between(spec: DatasetSpec, plan: Plan) -> tuple[str, str]:
    target = spec["destination"].rstrip("/") + "/"
    return (plan.source.text, target) if plan.single else (_folder(plan.source), target)


def _fetch(spec: DatasetSpec, plan: Plan, where: DatasetPaths, progress: StagingProgress) -> None:
    """Fetch the source into the download folder, and check the size and checksum of the download. Raises DataError."""
    if os.path.exists(where.fetched):
        return
    os.makedirs(where.download, exist_ok=True)
    _require_space(spec, plan, _missing(plan, where))
    file = os.path.join(where.download, plan.source.basename)
    if plan.source.kind == URL:
        tools.download(plan.source, file, plan.size, progress.moved("fetching"), is_resumable=not plan.unversioned)
    elif plan.source.kind == S3:
        source, target = (plan.source.text, file) if plan.single else (_folder(plan.source), where.download)
        options = [] if plan.single else [*WITHOUT_DESCRIPTION, *(word for path in plan.markers for word in ("--exclude", literal(path)))]
        s3.copy(_access(spec), source, target, progress.moved("fetching"), *options, tree=not plan.single)
        _compare(plan, where)
    elif _used(where.download) != plan.size:
        raise DataError(
            f"dataset_source: {plan.source.text} changed while it was being copied. Run the playbook again after all changes are complete."
        )
    progress.stage("checking")
    try:
        _check(spec, plan, file)
    except DataError:
        shutil.rmtree(where.partial)
        raise
    _touch(where.fetched)


def _missing(plan: Plan, where: DatasetPaths) -> int:
    """Return the number of bytes that must still be fetched, as far as the sizes are known."""
    return 0 if os.path.exists(where.fetched) else (plan.size or 0) - _used(where.download)


def _require_space(spec: DatasetSpec, plan: Plan, needed: int) -> None:
    existing = spec["directory"]
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise DataError(
            f"{spec['directory']}: fetching {plan.source.shown} requires {human(needed)}, but the free space is only {human(free)}. "
            "Free some space, or choose another directory."
        )


def _touch(path: str) -> None:
    with open(path, "w", encoding="utf-8"):
        pass


def _combine(spec: DatasetSpec, plan: Plan, where: DatasetPaths, progress: StagingProgress) -> list[DatasetFile]:
    """Fetch and unpack each source in a separate folder, add its files to the data set, and return all files. Raises DataError.

    Continues where an earlier run was interrupted.
    """
    os.makedirs(where.data, exist_ok=True)
    _require_space(spec, plan, sum(_missing(part, where.of_part(number)) for number, part in enumerate(plan.parts)))
    for number, (options, part) in enumerate(zip(parts_of(spec), plan.parts)):
        progress.part(number + 1, len(plan.parts))
        if not os.path.exists(where.of_part(number).added):
            _add(options, part, where.of_part(number), progress)
    progress.part(0, 0)
    return walk(where.data)


def _add(spec: DatasetSpec, plan: Plan, where: DatasetPaths, progress: StagingProgress) -> None:
    """Fetch and unpack one source, and move its files into the source's folder in the data set. Raises DataError."""
    if not os.path.exists(where.prepared):
        _fetch(spec, plan, where, progress)
        _prepare(spec, where, progress)
        _touch(where.prepared)
    if os.path.isdir(where.data):  # otherwise, an interrupted run has already moved the folder
        if not spec["folder"]:
            unpacked.drop_description(where.data)
        unpacked.move(where.data, where.final, spec["folder"])
    _touch(where.added)


def _check(spec: DatasetSpec, plan: Plan, path: str) -> None:
    """Raise DataError if the file does not match the checksum."""
    if not spec["checksum"]:
        return
    algorithm, wanted = parse_checksum(spec["checksum"])
    found = tools.digest(path, algorithm)
    if found != wanted:
        raise DataError(
            f"dataset_checksum: expected {algorithm}:{wanted}, but {plan.source.shown} has {algorithm}:{found}. Correct the "
            "checksum, or check the file."
        )


def _used(folder: str) -> int:
    return sum(size for _path, size in walk(folder))


def _compare(plan: Plan, where: DatasetPaths) -> None:
    """Check that exactly the listed objects were downloaded. Raises DataError.

    Deletes files that are not in the list, such as the temporary files that the AWS CLI leaves behind when it is killed.
    """
    found, wanted = dict(walk(where.download)), dict(plan.files)
    for path in found.keys() - wanted.keys():
        os.unlink(os.path.join(where.download, path))
    different = sorted(path for path, size in wanted.items() if found.get(path) != size)
    if different:
        raise DataError(
            f"dataset_source: {plan.source.text} changed during the download (for example {different[0]}). Run the playbook again after "
            "all changes are complete."
        )


def walk(folder: str) -> list[DatasetFile]:
    """Return the paths and sizes of the files below a folder, sorted by path, excluding the files that describe a data set."""
    found = []
    for parent, folders, names in os.walk(folder):
        if parent == folder:
            folders[:] = [name for name in folders if not name.startswith(DESCRIBING)]
            names = [name for name in names if not name.startswith(DESCRIBING)]
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path):
                found.append((os.path.relpath(path, folder), os.path.getsize(path)))
    return sorted(found)


def local_files(path: str) -> list[DatasetFile]:
    """Return the files below a folder. If the path is not a folder, return the file at the path."""
    return walk(path) if os.path.isdir(path) else [(os.path.basename(path), os.path.getsize(path))]


def _prepare(spec: DatasetSpec, where: DatasetPaths, progress: StagingProgress) -> list[DatasetFile]:
    """Create the data set from the download, and return the files of the data set.

    Continues where an earlier run was interrupted. Raises DataError.
    """
    left = walk(where.download) if os.path.isdir(where.download) else []
    archives = _archives(spec, where, [path for path, _size in left]) if spec["unpack"] else []
    for number, path in enumerate(archives):
        progress.stage("unpacking", number, len(archives))
        _unpack(spec, where, path)
    if spec["unpack"]:
        for path in sorted({path for path, _size in left} - set(archives)):
            target = unpacked.make_folder(where.data, os.path.dirname(path))
            os.replace(os.path.join(where.download, path), os.path.join(target, os.path.basename(path)))
    elif not os.path.isdir(where.data):
        os.rename(where.download, where.data)
    if spec["destination"].startswith("s3://"):
        unpacked.check_no_links(where.data)
    return walk(where.data)


def _archives(spec: DatasetSpec, where: DatasetPaths, paths: list[str]) -> list[str]:
    """Return the archives among the files of a download. Raises DataError if none of them can be unpacked."""
    shown = spec["source"].partition("?")[0]
    check_parts(paths, shown)
    archives = [path for path in paths if is_archive(path)]
    if not archives and not os.path.isdir(where.data):
        raise DataError(
            f"dataset_unpack: {shown} contains no archive. Use a .tar, .tar.gz, .tar.bz2, .tar.xz or .zip file, or set "
            "dataset_unpack: false."
        )
    return archives


def _unpack(spec: DatasetSpec, where: DatasetPaths, path: str) -> None:
    """Move the contents of an archive of the download into the data set, and delete the archive."""
    source = spec["source"].partition("?")[0]
    shown = source if os.path.basename(source) == path else f"{path} of {source}"
    tools.unpack(os.path.join(where.download, path), where.unpacked, shown)
    if spec["destination"].startswith("s3://"):
        unpacked.replace_links(where.unpacked)
    if not os.path.dirname(path):
        unpacked.drop_description(where.unpacked)
    unpacked.move(where.unpacked, where.data, os.path.dirname(path))
    os.unlink(os.path.join(where.download, path))


def _describe(spec: DatasetSpec, plan: Plan, folder: str, files: list[DatasetFile]) -> None:
    """Write the files that describe the data set into its folder: the marker, the list of files and the per-rank lists."""
    with _new_file(os.path.join(folder, FILES)) as file:
        file.writelines(f"{size}\t{path}\n" for path, size in files)
    _write_shards(folder, files, spec["shards"])
    with _new_file(os.path.join(folder, MARKER)) as file:
        facts = {"name": plan.name, "source": plan.source.shown, "version": plan.version, "checksum": spec["checksum"] or None}
        is_unpacked = spec["unpack"] or any(part["unpack"] for part in spec["sources"])
        json.dump({**facts, "files": len(files), "size": sum(size for _path, size in files), "unpacked": is_unpacked}, file, indent=1)


def _new_file(path: str) -> TextIO:
    """Open a new file for writing, in place of any existing file or link. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return open(path, "x", encoding="utf-8")  # mode x does not follow a link that another process creates in the meantime


def missing_shards(spec: DatasetSpec, plan: Plan) -> list[int]:
    """Return the requested rank counts for which the staged data set has no per-rank lists yet."""
    if spec["destination"].startswith("s3://"):
        return []
    folder = os.path.join(places(spec, plan).final, SHARDS)
    return [count for count in spec["shards"] if not os.path.isdir(os.path.join(folder, str(count)))]


def write_shards(spec: DatasetSpec, plan: Plan) -> bool:
    """Write the per-rank lists that the data set lacks, and return whether any were missing."""
    missing = missing_shards(spec, plan)
    if missing:
        final = places(spec, plan).final
        lines = (_read(os.path.join(final, FILES)) or "").splitlines()
        files = [(path, int(size)) for size, _tab, path in (line.partition("\t") for line in lines)]
        _write_shards(final, files, missing)
    return bool(missing)


def _write_shards(folder: str, files: list[DatasetFile], counts: list[int]) -> None:
    check_ranks(counts, len(files))
    if os.path.islink(os.path.join(folder, SHARDS)):
        os.unlink(os.path.join(folder, SHARDS))
    for count in counts:
        target = os.path.join(folder, SHARDS, str(count))
        shutil.rmtree(target + ".new", ignore_errors=True)
        os.makedirs(target + ".new")
        for rank, shard in enumerate(shards(files, count)):
            with open(os.path.join(target + ".new", str(rank)), "w", encoding="utf-8") as file:
                file.writelines(path + "\n" for path, _size in shard)
        shutil.rmtree(target, ignore_errors=True)
        os.rename(target + ".new", target)


def _publish(where: DatasetPaths) -> None:
    """Move any earlier version out of the way, and then move the data set into place."""
    if os.path.isdir(where.final):
        shutil.rmtree(where.replaced, ignore_errors=True)
        os.rename(where.final, where.replaced)
    os.rename(where.data, where.final)


def upload_facts(path: str) -> dict[str, Any]:
    """Return the version and the size of the data at a path on the controller, and whether the data is a single file. Raises DataError."""
    path = path.rstrip("/")
    if not os.path.exists(path):
        raise DataError(f"dataset_source: {path} does not exist on the controller. Specify an existing path.")
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    files = local_files(path)
    if folder == path:
        check_links(path)
    check_names(files, parse(path))
    times = [os.stat(os.path.join(folder, name)).st_mtime_ns for name, _size in files]
    return {"version": fingerprint(*zip(files, times)), "size": sum(size for _name, size in files), "single": folder != path}


def check_links(folder: str) -> None:
    """Raise DataError if a symbolic link in the folder leads out of the folder, or to a folder.

    The upload follows links. It would copy other files from the controller, or a few links to folders would multiply the files.
    """
    root = os.path.realpath(folder)
    for parent, folders, names in os.walk(folder):
        for path in (os.path.join(parent, name) for name in (*folders, *names)):
            if not os.path.islink(path):
                continue
            target = os.path.realpath(path)
            check_names([(path, 0), (target, 0)], parse(folder))
            if os.path.commonpath([root, target]) != root:
                raise DataError(
                    f"dataset_source: {path} is a symbolic link to {target}, which is outside of the data set. Replace the link with a "
                    "copy of the file."
                )
            if os.path.isdir(target):
                raise DataError(
                    f"dataset_source: {path} is a symbolic link to a folder, {target}. Remove the link, or replace it with the folder."
                )


def _upload(spec: DatasetSpec, plan: Plan, where: DatasetPaths, progress: StagingProgress) -> None:
    """Upload the prepared data set to S3, and then its marker. Raises DataError."""
    access, target = s3.Access(spec["region"] or ""), spec["destination"].rstrip("/") + "/"
    options = ("--exclude", MARKER, "--no-follow-symlinks")
    if _goes_directly(spec, plan):  # the data is already there
        s3.copy(access, where.data, target, progress.moved("uploading"), *options, "--recursive", tree=False)
    else:
        _copy_all(spec, plan, where, access, where.data, progress.moved("uploading"), *options)
    s3.copy(access, os.path.join(where.data, MARKER), target + MARKER, progress.moved("uploading"), tree=False)


def _copy_all(spec: DatasetSpec, plan: Plan, where: DatasetPaths, access: s3.Access, source: str, report: s3.Report, *options: str) -> None:
    """Copy all files of a folder or prefix to the destination on S3. Raises DataError.

    `aws s3 sync` does not copy a file if the object has the same size and is newer, although the object may have other contents. It is used
    only if this version alone has written the objects.
    """
    target = spec["destination"].rstrip("/") + "/"
    if _mark_incomplete(spec, plan, where):
        s3.copy(access, source, target, report, *options)
    else:
        s3.copy(access, source, target, report, *options, "--recursive", tree=False)


def _mark_incomplete(spec: DatasetSpec, plan: Plan, where: DatasetPaths) -> bool:
    """Replace the marker on S3 with one that says which version is being uploaded. Return whether no other version has written objects."""
    access, target = s3.Access(spec["region"] or ""), spec["destination"].rstrip("/") + "/"
    known = _read_marker(spec, plan.name)
    if known.get("uploading") == plan.version:
        return known.get("is_new") is True
    is_new = not known and not listed(s3.list_objects(access, parse(target)), parse(target), [])[0]
    path = os.path.join(where.partial, MARKER)
    with _new_file(path) as file:
        json.dump({"uploading": plan.version, "is_new": is_new}, file)
    s3.copy(access, path, target + MARKER, lambda _done, _total: None, tree=False)
    return is_new
