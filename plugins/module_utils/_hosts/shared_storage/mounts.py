# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the fstab entries that hosts use to mount shared storage, and interprets the mount table."""

from __future__ import annotations

import errno
import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

# Root on one host can write anything to shared storage, so hosts ignore setuid bits and device files there.
SAFE = ("nosuid", "nodev")
SAFE_OPTIONS = ",".join(SAFE)
# Recommended by https://docs.aws.amazon.com/efs/latest/ug/mounting-fs-nfs-mount-settings.html
NFS_OPTIONS = f"nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,{SAFE_OPTIONS}"
# From https://docs.aws.amazon.com/efs/latest/ug/efs-mount-helper.html
TLS_OPTIONS = f"tls,noresvport,{SAFE_OPTIONS}"
# From https://docs.aws.amazon.com/fsx/latest/LustreGuide/mount-fs-auto-mount-onreboot.html
LUSTRE_OPTIONS = f"noatime,flock,{SAFE_OPTIONS}"
# From https://github.com/awslabs/mountpoint-s3/blob/main/doc/CONFIGURATION.md#automatically-mounting-an-s3-bucket-at-boot
MOUNTPOINT_OPTIONS = f"ro,allow-other,{SAFE_OPTIONS}"
# With these options, a host boots even if the storage is not available.
BOOT_OPTIONS = "_netdev,nofail"

# The DNS suffix in most regions. Partitions such as `aws-cn` have their own DNS suffixes.
DNS_SUFFIX = "amazonaws.com"

# No part of the path may begin with a dot. This excludes `..` and `.ssh` directories.
MOUNT_POINT = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")
# Storage is mounted neither on these directories nor below them.
SYSTEM_DIRECTORIES = ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin", "sys", "usr")
# Storage is mounted only below these directories.
PARENT_DIRECTORIES = ("home", "opt", "tmp", "var")
FILE_SYSTEM_ID = re.compile(r"fs-[0-9a-f]+")
ACCESS_POINT_ID = re.compile(r"fsap-[0-9a-f]+")
ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
# One or more servers (name or address, and network), then the file system and optionally a directory in it.
LUSTRE_SOURCE = re.compile(r"[A-Za-z0-9.-]+@[a-z0-9]+(:[A-Za-z0-9.-]+@[a-z0-9]+)*:(/[A-Za-z0-9._-]+)+")

# A general purpose bucket. Directory buckets need other permissions, and most services do not support them.
BUCKET_NAME = r"(?![a-z0-9.-]*--x-s3(?![a-z0-9.-]))[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
# A bucket and optionally a prefix. None of the allowed characters has a special meaning in tags or in /etc/fstab.
BUCKET_SOURCE = re.compile(rf"s3://({BUCKET_NAME})(?:/((?:[A-Za-z0-9._=+@-]+/)*[A-Za-z0-9._=+@-]*))?")
# The source that the mount table shows for all mounts made by Mountpoint for Amazon S3.
MOUNTPOINT = "mountpoint-s3"

# The file system type of automount points in the mount table.
AUTOMOUNT = "autofs"
# The source that the mount table shows for an encrypted EFS mount: the local end of the mount helper's tunnel.
TUNNEL = "127.0.0.1:/"
# The directory where the EFS mount helper records the file system of each tunnel.
TUNNELS = "/var/run/efs"
# The log of the EFS mount helper, which contains errors of TLS that mount(8) does not report.
HELPER_LOG = "/var/log/amazon/efs/mount.log"


class FileSystemType(NamedTuple):
    """What a host needs to mount one type of file system. `mounted_as` contains the names of this type in the mount table.

    `packages` maps Ansible's names for distributions or OS families to the client packages in their repositories.
    """

    helper: str
    packages: dict[str, str]
    advice: str
    ports: str
    mounted_as: tuple[str, ...]


# All file system types of shared storage, keyed by their names in /etc/fstab.
TYPES = {
    "nfs4": FileSystemType(
        "mount.nfs4",
        {"Debian": "nfs-common", "RedHat": "nfs-utils"},
        "this host has no NFS client. Install the package nfs-common (Debian, Ubuntu) or nfs-utils (Amazon Linux).",
        "TCP port 2049",
        ("nfs", "nfs4"),
    ),
    "efs": FileSystemType(
        "mount.efs",
        {"Amazon": "amazon-efs-utils"},
        "amazon-efs-utils, which encrypts data in transit, is not installed on this host. Install amazon-efs-utils in the image, or set "
        "encrypt_in_transit to false. Instructions: https://docs.aws.amazon.com/efs/latest/ug/installing-amazon-efs-utils.html",
        "TCP port 2049",
        ("nfs4",),
    ),
    "lustre": FileSystemType(
        "mount.lustre",
        {"Amazon": "lustre-client"},
        "this host has no Lustre client. Install the client for its kernel in the image: "
        "https://docs.aws.amazon.com/fsx/latest/LustreGuide/install-lustre-client.html",
        "TCP ports 988 and 1018 to 1023",
        ("lustre",),
    ),
    "mount-s3": FileSystemType(
        "mount.mount-s3",
        {"Amazon": "mount-s3"},
        "Mountpoint for Amazon S3 (version 1.18 or later) is not installed on this host. Install Mountpoint in the image: "
        "https://docs.aws.amazon.com/AmazonS3/latest/userguide/mountpoint-installation.html",
        "TCP port 443",
        (),  # all FUSE file systems have the same type
    ),
}


# The beginnings of the names of client packages that contain kernel modules.
KERNEL_PACKAGES = ("lustre-client",)


# The errors of a mount whose program (FUSE) has ended, or whose server (NFS) no longer knows it. Only a new mount ends these errors.
# Requests that the program has not answered fail with ECONNABORTED, and later ones with ENOTCONN.
DEAD = (errno.ENOTCONN, errno.ECONNABORTED, errno.ESTALE)


class FstabMount(NamedTuple):
    """Shared storage in fstab terms: the source for mount(8), the file system type, the options and the mount point.

    `adopted` storage is not managed by this collection, which changes neither the storage nor its owner. `read_only` storage is never
    written to. `preferred` is the alternative that hosts mount instead if they have its client.
    """

    source: str
    kind: str
    options: str
    mount_point: str
    adopted: bool = False
    preferred: FstabMount | None = None
    read_only: bool = False

    @property
    def entry(self) -> str:
        """The line of /etc/fstab, without a newline."""
        return f"{self.source} {self.mount_point} {self.kind} {self.options},{BOOT_OPTIONS} 0 0"

    @property
    def client(self) -> FileSystemType:
        return TYPES[self.kind]

    @property
    def access_point(self) -> str:
        """The ID of the mount's access point, or an empty string if the whole file system is mounted."""
        return _access_point(self.options)

    @property
    def alternatives(self) -> list[FstabMount]:
        """The alternatives that hosts may mount, best first."""
        return [*([self.preferred] if self.preferred else []), self._replace(preferred=None)]


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


def _access_point(options: str) -> str:
    return next((option.partition("=")[2] for option in options.split(",") if option.startswith("accesspoint=")), "")


def check_mount_point(mount_point: str) -> None:
    """Raise ValueError if the mount point is not an absolute path, contains characters that are not allowed, or would hide system files."""
    if not MOUNT_POINT.fullmatch(mount_point):
        raise ValueError(
            f"{mount_point!r} is not a valid mount point. Use an absolute path of letters, digits, '.', '_' and '-', whose parts do not "
            "begin with a dot"
        )
    first, _slash, rest = mount_point[1:].partition("/")
    if first in SYSTEM_DIRECTORIES or (first in PARENT_DIRECTORIES and not rest):
        raise ValueError(f"{mount_point!r} is not a valid mount point, because it would hide system files. Use a path such as /efs")


def check_file_system_id(text: str) -> None:
    """Raise ValueError if the text is not the ID of a file system."""
    if not FILE_SYSTEM_ID.fullmatch(text):
        raise ValueError(f"{text!r} is not a file system ID. Use an ID such as fs-0123456789abcdef0")


def check_access_point_id(text: str) -> None:
    """Raise ValueError if the text is not the ID of an access point."""
    if not ACCESS_POINT_ID.fullmatch(text):
        raise ValueError(f"{text!r} is not an access point ID. Use an ID such as fsap-0123456789abcdef0")


def check_address(text: str) -> None:
    """Raise ValueError if the text is not an IPv4 address."""
    if not ADDRESS.fullmatch(text) or any(int(part) > 255 for part in text.split(".")):
        raise ValueError(f"{text!r} is not an IPv4 address. Use an address such as 10.0.0.4")


def check_lustre_source(text: str) -> None:
    """Raise ValueError if the text is not a valid mount(8) source of a Lustre file system."""
    if not LUSTRE_SOURCE.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a Lustre source. Use a source such as fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh"
        )


def _check(option: str, check: Callable[[str], None], value: str) -> None:
    """Raise ValueError with the name of the module's option if the value is not valid."""
    try:
        check(value)
    except ValueError as error:
        raise ValueError(f"{option}: {error}.") from None


def efs(
    file_system_id: str,
    region: str,
    mount_point: str,
    *,
    address: str | None = None,
    encrypted: bool | None = None,
    dns_suffix: str = DNS_SUFFIX,
    adopted: bool = False,
    access_point: str | None = None,
) -> FstabMount:
    """Return the mount of an EFS file system.

    If `encrypted` is true, all hosts use TLS. If `encrypted` is None, only hosts that have the TLS client use TLS.
    An `access_point` restricts the mount to one directory, and requires TLS.
    The DNS name of the file system ends in the partition's `dns_suffix`, and resolves to the mount target in the host's zone.
    If an `address` is given, hosts use the address instead of the DNS name. Hosts that cannot resolve the DNS name need an `address`.
    Raises ValueError if the mount point, an ID or the address is not valid, or if `encrypted` is false for an access point.
    """
    _check("path", check_mount_point, mount_point)
    _check("source", check_file_system_id, file_system_id)
    if address:
        _check("address", check_address, address)
    target = f",mounttargetip={address}" if address else ""
    if access_point:
        _check("access_point", check_access_point_id, access_point)
        if encrypted is False:
            raise ValueError(f"encrypt_in_transit: EFS requires TLS for access point {access_point}. Set encrypt_in_transit to true.")
        target = f"{target},accesspoint={access_point}"
    through_tls = FstabMount(f"{file_system_id}:/", "efs", f"{TLS_OPTIONS}{target}", mount_point, adopted)
    if encrypted or access_point:
        return through_tls
    preferred = through_tls if encrypted is None else None
    return FstabMount(f"{address or f'{file_system_id}.efs.{region}.{dns_suffix}'}:/", "nfs4", NFS_OPTIONS, mount_point, adopted, preferred)


def lustre(source: str, mount_point: str) -> FstabMount:
    """Return the mount of an FSx for Lustre file system. Raises ValueError if the source or the mount point is not valid."""
    _check("path", check_mount_point, mount_point)
    _check("source", check_lustre_source, source)
    return FstabMount(source, "lustre", LUSTRE_OPTIONS, mount_point)


def check_bucket_source(text: str) -> None:
    """Raise ValueError if the text is not the location of a bucket or of a prefix in a bucket."""
    if not BUCKET_SOURCE.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a bucket or prefix. Use letters, digits and ._=+@-, as in s3://bucket/prefix, and no directory bucket"
        )


def bucket_and_prefix(source: str) -> tuple[str, str]:
    """Return the name of the bucket and the prefix. The prefix is empty or ends with a slash."""
    match = BUCKET_SOURCE.fullmatch(source)
    bucket, prefix = match.groups(default="") if match else ("", "")
    return bucket, f"{prefix.rstrip('/')}/" if prefix else ""


def bucket(source: str, mount_point: str) -> FstabMount:
    """Return the mount of a bucket. Raises ValueError if the source or the mount point is not valid."""
    _check("path", check_mount_point, mount_point)
    _check("source", check_bucket_source, source)
    name, prefix = bucket_and_prefix(source)
    return FstabMount(f"s3://{name}/{prefix}", "mount-s3", MOUNTPOINT_OPTIONS, mount_point, adopted=True, read_only=True)


def lustre_source(server: str, mount_name: str) -> str:
    """Return the mount(8) source of a Lustre file system."""
    return f"{server}@tcp:/{mount_name}"


def _efs(source: str, params: Mapping[str, Any]) -> FstabMount:
    if params["directory"] and not params["access_point"]:
        raise ValueError(
            f"directory: this host has no access point to {params['directory']}, so it could access the whole file system. If the host was"
            " launched before deeplearning_file_system_directory was set, run deeplearning.cluster.provision with"
            " -e deeplearning_replace_nodes=true. Otherwise, copy the tag deeplearning:file-system-access-point from the host's Auto"
            " Scaling group to the instance."
        )
    return efs(
        source,
        params["region"],
        params["path"],
        address=params["address"],
        encrypted=params["encrypt_in_transit"],
        dns_suffix=params["dns_suffix"],
        adopted=params["adopted"],
        access_point=params["access_point"],
    )


def _lustre(source: str, params: Mapping[str, Any]) -> FstabMount:
    return lustre(source, params["path"])._replace(adopted=params["adopted"])


def _bucket(source: str, params: Mapping[str, Any]) -> FstabMount:
    return bucket(source, params["path"])


# For each kind of storage, the function that creates a mount from a source and from the parameters of the `shared_storage` module.
KINDS: dict[str, Callable[[str, Mapping[str, Any]], FstabMount]] = {"efs": _efs, "lustre": _lustre, "bucket": _bucket}
# For each kind of storage, the file system type whose client all hosts need.
REQUIRED_TYPES = {"efs": "nfs4", "lustre": "lustre", "bucket": "mount-s3"}
# Module options that specify both the kind of storage and its source.
SOURCE_OPTIONS = {"file_system_id": "efs", "lustre_source": "lustre"}


def is_shared(type_: str) -> bool:
    """Return whether a file system type in /etc/fstab or the mount table belongs to shared storage rather than a local disk."""
    return type_ in TYPES or any(type_ in each.mounted_as for each in TYPES.values())


def fstab_fields(line: str) -> list[str]:
    """Return the fields of a line of /etc/fstab, or an empty list if the line is no entry. Mount points have no trailing slash."""
    fields = [] if line.lstrip().startswith("#") else [_unescape(field) for field in line.split()]
    return [*fields[:1], fields[1].rstrip("/") or "/", *fields[2:]] if len(fields) > 2 else []


def is_own_entry(options: str) -> bool:
    """Return whether these options in /etc/fstab are those of the entries that this collection writes."""
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


def mounted_at(mountinfo: str, mount_point: str) -> MountTableEntry | None:
    """Return the topmost mount at the mount point from the text of /proc/self/mountinfo, or None if nothing is mounted there.

    An automount point, at which nothing has been mounted yet, is no mount.
    """
    found = None
    for line in mountinfo.splitlines():
        place, _separator, rest = line.partition(" - ")
        fields, kind_and_source = place.split(), rest.split()
        if len(fields) > 5 and len(kind_and_source) > 1 and _unescape(fields[4]) == mount_point and kind_and_source[0] != AUTOMOUNT:
            port = re.search(r"\bport=([0-9]+)", rest)
            found = MountTableEntry(
                _unescape(kind_and_source[1]), kind_and_source[0], _unescape(fields[3]), fields[5], port[1] if port else ""
            )
    return found


def automounts(mountinfo: str) -> set[str]:
    """Return the automount points in the text of /proc/self/mountinfo."""
    lines = (line.partition(" - ") for line in mountinfo.splitlines())
    return {_unescape(place.split()[4]) for place, _separator, rest in lines if rest.startswith(f"{AUTOMOUNT} ") and len(place.split()) > 5}


def mount_points(mountinfo: str) -> set[str]:
    """Return all mount points in the text of /proc/self/mountinfo."""
    lines = (line.partition(" - ")[0].split() for line in mountinfo.splitlines())
    return {_unescape(fields[4]) for fields in lines if len(fields) > 5}


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def is_mount_of(mount: MountTableEntry, storage: FstabMount, tunnels: Iterable[str]) -> bool:
    """Return whether `mount` is a mount of `storage`. `tunnels` contains the names of the files in `TUNNELS`.

    The source of a bind mount is the file system that contains the folder, so it does not identify the storage. Users create bind mounts
    deliberately, so all bind mounts are accepted. The Lustre client replaces host names in the source with addresses, so only the path
    at the end of the source is compared.
    """
    if mount.kind == "lustre":
        return storage.kind == "lustre" and mount.source.rpartition(":")[2] == storage.source.rpartition(":")[2]
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


class FstabEntry(NamedTuple):
    """The source and options of one entry of /etc/fstab."""

    source: str
    options: str


def entries_at(fstab: str, mount_point: str) -> dict[str, FstabEntry]:
    """Return the entries of /etc/fstab for a mount point, keyed by file system type."""
    lines = map(fstab_fields, fstab.splitlines())
    return {fields[2]: FstabEntry(fields[0], fields[3]) for fields in lines if len(fields) > 3 and fields[1] == mount_point}


def _fits_entry(mount: MountTableEntry, alternative: FstabMount, entry: FstabEntry | None) -> bool:
    """Return whether the entry in /etc/fstab is consistent with this alternative. If there is no entry, return True."""
    if entry is None:
        return True
    return _access_point(entry.options) == alternative.access_point and (mount.source != MOUNTPOINT or entry.source == alternative.source)


def explain(output: str, storage: FstabMount) -> str:
    """Return why a mount command failed with `output`, and what to do about it."""
    # A traceback of a mount helper ends with the cause.
    said = output.strip()
    reported = f"mount reports: {said.splitlines()[-1] if 'Traceback (most recent call last)' in said else said or 'nothing'}"
    end = f". See {HELPER_LOG} on this host." if storage.kind == "efs" else "."
    if storage.kind == "mount-s3" and not re.search(r"unknown filesystem type", output):
        return f"the nodes' IAM role must be allowed to list and read the bucket, and a private subnet needs a route to S3. {reported}"
    server = re.split("[:@]", storage.source)[0]
    if re.search(r"resolve|Name or service not known|Temporary failure in name|Can't parse NID", output):
        return (
            f"this host cannot resolve {server}. For EFS, check that there is a mount target in this zone and VPC, that the ID and the"
            " region are correct, and that DNS support and DNS hostnames are enabled in the VPC."
        )
    if re.search(r"timed? ?out|status (124|137)|Input/output error", output, re.IGNORECASE):
        ports = storage.client.ports
        return f"{server} does not respond. The storage's security group must allow connections from this host to {ports}{end}"
    if re.search(r"access denied|Permission denied|Operation not permitted", output, re.IGNORECASE):
        if storage.kind == "efs":
            means = f"through access point {storage.access_point}" if storage.access_point else "over TLS"
            return (
                f"{server} denies this host access. The file system's policy must allow clients without an IAM identity to connect {means}."
            )
        return (
            f"{server} denies this host access. Check the file system's policy: plain NFS is anonymous and not encrypted in transit. "
            f"If that policy requires TLS, install amazon-efs-utils on the host, and do not set encrypt_in_transit to false."
        )
    if re.search(r"No such device|unknown filesystem type|bad option; for several filesystems", output):
        return storage.client.advice
    if storage.kind == "lustre" and re.search(r"Invalid argument|Protocol not supported", output):
        return (
            f"the Lustre client may be of another version than the file system, or the file system may have another mount name. {reported}"
        )
    return reported.rstrip(".") + end
