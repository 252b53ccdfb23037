# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads and changes the text of /etc/fstab."""

from __future__ import annotations

import re
from typing import NamedTuple

from .mounts import BOOT_OPTIONS, SAFE, FstabMount, is_shared


def fstab_fields(line: str) -> list[str]:
    """Return the fields of a line of /etc/fstab, or an empty list if the line is no entry. Mount points have no trailing slash."""
    fields = [] if line.lstrip().startswith("#") else [unescape(field) for field in line.split()]
    return [*fields[:1], fields[1].rstrip("/") or "/", *fields[2:]] if len(fields) > 2 else []


def is_own_entry(options: str) -> bool:
    return {*SAFE, *BOOT_OPTIONS.split(",")} <= set(options.split(","))


def replace_entry(fstab: str, mount_point: str, entry: str) -> str:
    """Return the text of /etc/fstab with `entry` as the only entry for the mount point. An empty `entry` removes shared storage only."""
    lines = []
    placed = not entry
    for line in fstab.splitlines():
        fields = fstab_fields(line)
        if not fields or fields[1] != mount_point or not (entry or is_shared(fields[2])):
            lines.append(line)
            continue
        if not placed:
            lines.append(entry)
            placed = True
    if not placed:
        lines.append(entry)
    return "".join(line + "\n" for line in lines)


def older_entries(fstab: str, storage: FstabMount) -> list[str]:
    """Return the lines of /etc/fstab for the mount point that this collection has not written for this storage."""
    sources = {alternative.source for alternative in storage.alternatives}
    found = ((line, fstab_fields(line)) for line in fstab.splitlines())
    return [
        line
        for line, fields in found
        if fields and fields[1] == storage.mount_point and not (fields[0] in sources and is_own_entry(",".join(fields[3:4])))
    ]


def unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


class FstabEntry(NamedTuple):
    source: str
    options: str


def entries_at(fstab: str, mount_point: str) -> dict[str, FstabEntry]:
    """Return the entries of /etc/fstab for a mount point, keyed by file system type."""
    lines = map(fstab_fields, fstab.splitlines())
    return {fields[2]: FstabEntry(fields[0], fields[3]) for fields in lines if len(fields) > 3 and fields[1] == mount_point}
