# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes the files that describe a data set: the marker, the list of files and the per-rank lists."""

from __future__ import annotations

import json
import os
import shutil

from ..._common.dataset.layout import MARKER, new_file, read_text
from ..._common.dataset.source import (
    DESCRIBING,
    DatasetFile,
)
from .examination import DatasetSpec, Plan, places
from .shares import check_ranks, shards

FILES = f"{DESCRIBING}files"
SHARDS = f"{DESCRIBING}shards"


def describe(spec: DatasetSpec, plan: Plan, folder: str, files: list[DatasetFile]) -> None:
    """Write the files that describe the data set into its folder: the marker, the list of files and the per-rank lists."""
    with new_file(os.path.join(folder, FILES)) as file:
        file.writelines(f"{size}\t{path}\n" for path, size in files)
    _write_shards(folder, files, spec["shards"])
    with new_file(os.path.join(folder, MARKER)) as file:
        facts = {"name": plan.name, "source": plan.source.shown, "version": plan.version, "checksum": spec["checksum"] or None}
        is_unpacked = spec["unpack"] or any(part["unpack"] for part in spec["sources"])
        json.dump({**facts, "files": len(files), "size": sum(size for _path, size in files), "unpacked": is_unpacked}, file, indent=1)


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
        lines = (read_text(os.path.join(final, FILES)) or "").splitlines()
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
