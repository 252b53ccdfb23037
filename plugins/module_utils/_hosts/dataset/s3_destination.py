# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Copies a data set to its destination on S3."""

from __future__ import annotations

import json
import os

from ..._common.dataset.layout import MARKER, DatasetPaths, new_file
from ..._common.dataset.source import (
    listed,
    parse,
)
from . import s3
from .examination import DatasetSpec, Plan, goes_directly, read_marker
from .staging_progress import StagingProgress


def upload(spec: DatasetSpec, plan: Plan, where: DatasetPaths, progress: StagingProgress) -> None:
    """Upload the prepared data set to S3, and then its marker. Raises DataError."""
    access, target = s3.Access(spec["region"] or ""), spec["destination"].rstrip("/") + "/"
    options = ("--exclude", MARKER, "--no-follow-symlinks")
    if goes_directly(spec, plan):  # the data is already there
        s3.copy(access, where.data, target, progress.moved("uploading"), *options, "--recursive", tree=False)
    else:
        copy_all(spec, plan, where, access, where.data, progress.moved("uploading"), *options)
    s3.copy(access, os.path.join(where.data, MARKER), target + MARKER, progress.moved("uploading"), tree=False)


def copy_all(spec: DatasetSpec, plan: Plan, where: DatasetPaths, access: s3.Access, source: str, report: s3.Report, *options: str) -> None:
    """Copy all files of a folder or prefix to the destination on S3. Raises DataError.

    `aws s3 sync` does not copy a file if the object has the same size and is newer, although the object may have other contents. It is used
    only if this version alone has written the objects.
    """
    target = spec["destination"].rstrip("/") + "/"
    if mark_incomplete(spec, plan, where):
        s3.copy(access, source, target, report, *options)
    else:
        s3.copy(access, source, target, report, *options, "--recursive", tree=False)


def mark_incomplete(spec: DatasetSpec, plan: Plan, where: DatasetPaths) -> bool:
    """Replace the marker on S3 with one that says which version is being uploaded. Return whether no other version has written objects."""
    access, target = s3.Access(spec["region"] or ""), spec["destination"].rstrip("/") + "/"
    known = read_marker(spec, plan.name)
    if known.get("uploading") == plan.version:
        return known.get("is_new") is True
    is_new = not known and not listed(s3.list_objects(access, parse(target)), parse(target), [])[0]
    path = os.path.join(where.partial, MARKER)
    with new_file(path) as file:
        json.dump({"uploading": plan.version, "is_new": is_new}, file)
    s3.copy(access, path, target + MARKER, lambda _done, _total: None, tree=False)
    return is_new
