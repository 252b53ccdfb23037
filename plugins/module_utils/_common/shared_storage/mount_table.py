# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Interprets the mount table, which says what is mounted where."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import NamedTuple

from .fstab import FstabEntry, entries_at, unescape
from .mounts import MOUNTPOINT, SAFE, TYPES, FstabMount, access_point_of, is_shared

# The file system type of automount points in the mount table.
AUTOMOUNT = "autofs"
# The source that the mount table shows for an encrypted EFS mount: the local end of the mount helper's tunnel.
TUNNEL = "127.0.0.1:/"
# The directory where the EFS mount helper records the file system of each tunnel.
TUNNELS = "/var/run/efs"


class MountTableEntry(NamedTuple):
    """One line of the mount table. `root` is the mounted folder of the file system, and `options` contains the options of this mount.

    `port` is the port of an NFS server, or empty if it is unknown.
    """

    source: str
    kind: str
    root: str
    options: str = ""
    port: str = ""

    @property
    def is_shared(self) -> bool:
        """Whether the mount is shared storage rather than a local disk."""
        return is_shared(self.kind) or self.source == MOUNTPOINT

    @property
    def is_safe(self) -> bool:
        """Whether setuid bits and device files have no effect on this mount."""
        return set(SAFE) <= set(self.options.split(","))


def mounted_at(mountinfo: str, mount_point: str) -> MountTableEntry | None:
    """Return the topmost mount at the mount point from the text of /proc/self/mountinfo, or None if nothing is mounted there.

    An automount point, at which nothing has been mounted yet, is no mount.
    """
    found = None
    for line in mountinfo.splitlines():
        place, _separator, rest = line.partition(" - ")
        fields, kind_and_source = place.split(), rest.split()
        if len(fields) > 5 and len(kind_and_source) > 1 and unescape(fields[4]) == mount_point and kind_and_source[0] != AUTOMOUNT:
            port = re.search(r"\bport=([0-9]+)", rest)
            found = MountTableEntry(
                unescape(kind_and_source[1]), kind_and_source[0], unescape(fields[3]), fields[5], port[1] if port else ""
            )
    return found


def automounts(mountinfo: str) -> set[str]:
    lines = (line.partition(" - ") for line in mountinfo.splitlines())
    return {unescape(place.split()[4]) for place, _separator, rest in lines if rest.startswith(f"{AUTOMOUNT} ") and len(place.split()) > 5}


def mount_points(mountinfo: str) -> set[str]:
    lines = (line.partition(" - ")[0].split() for line in mountinfo.splitlines())
    return {unescape(fields[4]) for fields in lines if len(fields) > 5}


def is_mount_of(mount: MountTableEntry, storage: FstabMount, tunnels: Iterable[str]) -> bool:
    """Return whether `mount` is a mount of `storage`. `tunnels` contains the names of the files in `TUNNELS`.

    The source of a bind mount is the file system that contains the folder, so it does not identify the storage. Users create bind mounts
    deliberately, so all bind mounts are accepted. If the client replaces host names in the source with addresses, only the path at the
    end of the source is compared.
    """
    if mount.kind in TYPES and TYPES[mount.kind].shows_addresses:
        return storage.kind == mount.kind and mount.source.rpartition(":")[2] == storage.source.rpartition(":")[2]
    if storage.kind == "mount-s3":
        return mount.source == MOUNTPOINT
    if mount.kind.startswith("nfs"):
        through_tunnel = storage.kind == "efs" and mount.source == TUNNEL
        return bool(fnmatch.filter(tunnels, _tunnel_file(storage, mount.port))) if through_tunnel else mount.source == storage.source
    return mount.root != "/"


def _tunnel_file(storage: FstabMount, port: str) -> str:
    """Return the name pattern of the file in which the EFS mount helper describes the tunnel to the storage, at any port if it is empty.

    The files of former mounts stay in the directory.
    """
    return "{0}.{1}.{2}".format(storage.source.split(":", 1)[0], storage.mount_point.lstrip("/").replace("/", "."), port or "*")


def mounted_alternative(mount: MountTableEntry, storage: FstabMount, fstab: str, tunnels: Iterable[str]) -> FstabMount | None:
    """Return which of the storage's alternatives is mounted, or None if something else is mounted.

    The mount table might not distinguish between the alternatives, for example for a bind mount or an access point. In this case, the entry
    in /etc/fstab determines the result.
    """
    entries = entries_at(fstab, storage.mount_point)
    alternatives = [
        alternative
        for alternative in storage.alternatives
        if is_mount_of(mount, alternative, tunnels) and _fits_entry(mount, alternative, entries.get(alternative.kind))
    ]
    return next((alternative for alternative in alternatives if alternative.kind in entries), alternatives[-1] if alternatives else None)


def _fits_entry(mount: MountTableEntry, alternative: FstabMount, entry: FstabEntry | None) -> bool:
    """Return whether the entry in /etc/fstab is consistent with this alternative. If there is no entry, return True."""
    if entry is None:
        return True
    return access_point_of(entry.options) == alternative.access_point and (mount.source != MOUNTPOINT or entry.source == alternative.source)
