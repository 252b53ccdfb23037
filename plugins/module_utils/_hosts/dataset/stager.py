# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Stages one data set on a host: examines the source, then fetches, checks, unpacks and publishes it.

All steps work in a temporary folder next to the data set. The name of this folder contains the version, so that the next run continues
where an interrupted run stopped. The finished data set contains a marker file that describes it. The finished data set is moved into place
by renaming a folder.
"""

from __future__ import annotations

import glob
import os
import shutil
from typing import Any

from ..._common.dataset.layout import WITHOUT_DESCRIPTION, DatasetPaths, used_size, walk
from ..._common.dataset.local_source import local_files
from ..._common.dataset.source import (
    DIRECT,
    S3,
    URL,
    DataError,
    DatasetFile,
    Source,
    check_parts,
    is_archive,
    name_of,
    parse,
    parse_checksum,
    parts_of,
)
from . import archives, download, s3, unpacked
from .examination import DatasetSpec, Plan, examine, goes_directly, missing_size, places, require_space, s3_access, warnings
from .file_lists import describe, write_shards
from .s3_destination import copy_all, mark_incomplete, upload
from .shares import literal
from .staging_progress import StagingProgress

VERSION_PATTERN = "[0-9a-f]" * 12


def run(spec: DatasetSpec, progress: StagingProgress) -> None:
    """Fetch a share or stage the whole data set, depending on the spec, and write the outcome to the progress file."""
    try:
        progress.end(result=fetch_share(spec, progress) if spec["share"] else stage(spec, progress))
    except DataError as error:
        progress.end(error=str(error))
    except OSError as error:
        progress.end(error=f"{error.filename or spec['directory']}: {error.strerror or error}.")


def fetch_share(spec: DatasetSpec, progress: StagingProgress) -> dict[str, Any]:
    """Fetch the S3 objects that match the share's patterns into a folder that all hosts share. Raises DataError."""
    source, share = parse(spec["source"]), spec["share"]
    partial = os.path.join(spec["directory"], f".{name_of(source, spec['name'])}.{share['version']}.partial")
    included = [option for pattern in share["patterns"] for option in ("--include", pattern)]
    target = os.path.join(partial, "download")
    if included and not os.path.exists(DatasetPaths("", partial).fetched):
        os.makedirs(target, exist_ok=True)
        options = ("--exclude", "*", *included, *WITHOUT_DESCRIPTION)
        s3.copy(s3_access(spec), _folder(source), target, progress.moved("fetching"), *options)
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
    elif goes_directly(spec, plan):
        files = _copy_directly(spec, plan, where, progress)
    elif spec["destination"] == DIRECT:
        os.makedirs(where.data, exist_ok=True)
        prefix = plan.source.text if plan.single else _folder(plan.source)
        files = [(prefix if plan.single else prefix + path, size) for path, size in plan.files]
    else:
        _fetch(spec, plan, where, progress)
        files = _prepare(spec, where, progress)
    describe(spec, plan, where.data, files)
    progress.stage("publishing")
    if spec["destination"].startswith("s3://"):
        upload(spec, plan, where, progress)
    else:
        _publish(where)
    for left in glob.glob(glob.escape(os.path.join(spec["directory"], f".{plan.name}.")) + VERSION_PATTERN + ".partial"):
        shutil.rmtree(left, ignore_errors=True)
    return {"changed": True, **_described(spec, plan)}


def _described(spec: DatasetSpec, plan: Plan) -> dict[str, Any]:
    path = spec["destination"] if spec["destination"].startswith("s3://") else places(spec, plan).final
    return {"name": plan.name, "path": path, "version": plan.version, **warnings(plan)}


def _folder(source: Source) -> str:
    """Return the S3 prefix of the source with a trailing slash."""
    return source.text if source.text.endswith("/") else source.text + "/"


def _copy_directly(spec: DatasetSpec, plan: Plan, where: DatasetPaths, progress: StagingProgress) -> list[tuple[str, int]]:
    """Copy the unchanged source to the destination on S3, and return its files. Raises DataError."""
    _check(spec, plan, plan.source.text)
    os.makedirs(where.data, exist_ok=True)
    if plan.single:
        mark_incomplete(spec, plan, where)
        s3.copy(s3_access(spec), plan.source.text, spec["destination"].rstrip("/") + "/", progress.moved("copying"), tree=False)
    else:
        copy_all(spec, plan, where, s3_access(spec), _folder(plan.source), progress.moved("copying"), *WITHOUT_DESCRIPTION)
    return plan.files or local_files(plan.source.text)


def _fetch(spec: DatasetSpec, plan: Plan, where: DatasetPaths, progress: StagingProgress) -> None:
    """Fetch the source into the download folder, and check the size and checksum of the download. Raises DataError."""
    if os.path.exists(where.fetched):
        return
    os.makedirs(where.download, exist_ok=True)
    require_space(spec, plan, missing_size(plan, where))
    file = os.path.join(where.download, plan.source.basename)
    if plan.source.kind == URL:
        download.download(plan.source, file, plan.size, progress.moved("fetching"), is_resumable=not plan.unversioned)
    elif plan.source.kind == S3:
        source, target = (plan.source.text, file) if plan.single else (_folder(plan.source), where.download)
        options = [] if plan.single else [*WITHOUT_DESCRIPTION, *(word for path in plan.markers for word in ("--exclude", literal(path)))]
        s3.copy(s3_access(spec), source, target, progress.moved("fetching"), *options, tree=not plan.single)
        _compare(plan, where)
    elif used_size(where.download) != plan.size:
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


def _touch(path: str) -> None:
    with open(path, "w", encoding="utf-8"):
        pass


def _combine(spec: DatasetSpec, plan: Plan, where: DatasetPaths, progress: StagingProgress) -> list[DatasetFile]:
    """Fetch and unpack each source in a separate folder, add its files to the data set, and return all files. Raises DataError.

    Continues where an earlier run was interrupted.
    """
    os.makedirs(where.data, exist_ok=True)
    require_space(spec, plan, sum(missing_size(part, where.of_part(number)) for number, part in enumerate(plan.parts)))
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
    found = download.digest(path, algorithm)
    if found != wanted:
        raise DataError(
            f"dataset_checksum: expected {algorithm}:{wanted}, but {plan.source.shown} has {algorithm}:{found}. Correct the "
            "checksum, or check the file."
        )


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
    archives.unpack(os.path.join(where.download, path), where.unpacked, shown)
    if spec["destination"].startswith("s3://"):
        unpacked.replace_links(where.unpacked)
    if not os.path.dirname(path):
        unpacked.drop_description(where.unpacked)
    unpacked.move(where.unpacked, where.data, os.path.dirname(path))
    os.unlink(os.path.join(where.download, path))


def _publish(where: DatasetPaths) -> None:
    """Move any earlier version out of the way, and then move the data set into place."""
    if os.path.isdir(where.final):
        shutil.rmtree(where.replaced, ignore_errors=True)
        os.rename(where.final, where.replaced)
    os.rename(where.data, where.final)
