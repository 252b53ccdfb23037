# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the fstab entries with which hosts mount shared storage."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
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


class FileSystemType(NamedTuple):
    """What a host needs to mount one type of file system. `mounted_as` contains the names of this type in the mount table.

    `packages` maps Ansible's names for distributions or OS families to the client packages in their repositories. If `shows_addresses` is
    true, the client replaces the host names of servers in the mount table with addresses. `mismatch` says why the client can reject its
    arguments.
    """

    helper: str
    packages: dict[str, str]
    advice: str
    ports: str
    mounted_as: tuple[str, ...]
    shows_addresses: bool = False
    mismatch: str = ""


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
        shows_addresses=True,
        mismatch="the Lustre client may be of another version than the file system, or the file system may have another mount name.",
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
        return f"{self.source} {self.mount_point} {self.kind} {self.options},{BOOT_OPTIONS} 0 0"

    @property
    def client(self) -> FileSystemType:
        return TYPES[self.kind]

    @property
    def access_point(self) -> str:
        """The ID of the mount's access point, or an empty string if the whole file system is mounted."""
        return access_point_of(self.options)

    @property
    def alternatives(self) -> list[FstabMount]:
        """The alternatives that hosts may mount, best first."""
        return [*([self.preferred] if self.preferred else []), self._replace(preferred=None)]


def access_point_of(options: str) -> str:
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
    if not FILE_SYSTEM_ID.fullmatch(text):
        raise ValueError(f"{text!r} is not a file system ID. Use an ID such as fs-0123456789abcdef0")


def check_access_point_id(text: str) -> None:
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
            f"directory: this host has no access point to {params['directory']}, so it could access the whole file system. Copy the"
            " tag deeplearning:file-system-access-point from the host's Auto Scaling group to the instance, or, if the host was launched"
            " before deeplearning_file_system_directory was set, run deeplearning.cluster.provision with -e deeplearning_replace_nodes=true"
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
