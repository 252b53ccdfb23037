# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Examines the sources of a data set, and plans what to fetch."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any, Dict, NamedTuple

from ..._common import urls
from ..._common.dataset.layout import MARKER, DatasetPaths, read_text, used_size
from ..._common.dataset.source import (
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
    listed,
    name_of,
    name_of_set,
    parse,
    parts_of,
    split_markers,
)
from . import download, s3
from .shares import check_ranks

# The options of the module `dataset`.
DatasetSpec = Dict[str, Any]


class Plan(NamedTuple):
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
        require_space(spec, plan, missing_size(plan, places(spec, plan)))  # the controller copies the files after this check
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
        remote = download.ask(source)
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
    objects, single = listed(s3.list_objects(s3_access(spec), source), source, archived)
    if not objects:
        raise DataError(f"dataset_source: {source.text} contains no objects. Check the bucket and the prefix.")
    # A request for each object would take too long. If the first one is restored, S3 names the others during the download.
    if archived and spec["destination"] != DIRECT and not s3.is_restored(s3_access(spec), source, archived[0]):
        raise DataError(
            f"dataset_source: {len(archived)} of {len(objects)} objects in {source.shown} are archived, for example "
            f"{archived[0][:SHOWN]!a}. Restore them first: https://docs.aws.amazon.com/AmazonS3/latest/userguide/restoring-objects.html"
        )
    return objects, single


def _check_files(spec: DatasetSpec, source: Source, files: list[DatasetFile]) -> None:
    if spec["unpack"]:
        check_parts((path for path, _size in files), source.shown)
    check_names(files, source, are_paths=not stays_on_s3(spec))


def places(spec: DatasetSpec, plan: Plan) -> DatasetPaths:
    """Return the final path of the data set and the folder in which it is prepared."""
    directory = spec["directory"]
    return DatasetPaths(os.path.join(directory, plan.name), os.path.join(directory, f".{plan.name}.{plan.version}.partial"))


def s3_access(spec: DatasetSpec) -> s3.Access:
    return s3.Access(spec["region"] or "", spec["anonymous"])


def _marker(spec: DatasetSpec, name: str) -> dict[str, Any]:
    """Return the marker of the staged data set, or an empty dictionary if none is staged, or if an upload to S3 is incomplete."""
    marker = read_marker(spec, name)
    return marker if "version" in marker else {}


def read_marker(spec: DatasetSpec, name: str) -> dict[str, Any]:
    if spec["destination"].startswith("s3://"):
        # The destination requires credentials even if the source is read anonymously.
        text = s3.read_object(s3.Access(spec["region"] or ""), f"{spec['destination'].rstrip('/')}/{MARKER}")
    else:
        text = read_text(os.path.join(spec["directory"], name, MARKER))
    try:
        marker = json.loads(text or "{}")
    except ValueError:
        return {}
    return marker if isinstance(marker, dict) else {}


def goes_directly(spec: DatasetSpec, plan: Plan) -> bool:
    """Return whether the AWS CLI copies the unchanged source directly to S3, without storing it on this host's disk."""
    return spec["destination"].startswith("s3://") and (plan.source.kind == PATH or (plan.source.kind == S3 and stays_on_s3(spec)))


def stays_on_s3(spec: DatasetSpec) -> bool:
    """Return whether the objects of a source on S3 never become files on this host."""
    to_s3 = spec["destination"].startswith("s3://") and not spec["sources"] and not (spec["unpack"] or spec["checksum"])
    return to_s3 or spec["destination"] == DIRECT


def warnings(plan: Plan) -> dict[str, list[str]]:
    """Return the warning about sources that are fetched at each run, as a part of the module's result."""
    if not plan.unversioned:
        return {}
    text = (
        f"dataset_source: the server of {', '.join(plan.unversioned)} reports neither ETag nor Last-Modified, so each run fetches the data"
        " again. Set the checksum of the file to keep data that is already staged."
    )
    return {"warnings": [text]}


def missing_size(plan: Plan, where: DatasetPaths) -> int:
    """Return the number of bytes that must still be fetched, as far as the sizes are known."""
    return 0 if os.path.exists(where.fetched) else (plan.size or 0) - used_size(where.download)


def require_space(spec: DatasetSpec, plan: Plan, needed: int) -> None:
    existing = spec["directory"]
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise DataError(
            f"{spec['directory']}: fetching {plan.source.shown} requires {human(needed)}, but the free space is only {human(free)}. "
            "Free some space, or choose another directory."
        )
