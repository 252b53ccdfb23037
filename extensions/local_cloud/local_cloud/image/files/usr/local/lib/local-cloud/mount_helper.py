"""The code that the mount helpers of hosts share. The helpers bind-mount the folder of a file system.

`mount`, fstab, and systemd mount units call the helpers as on any machine. The helpers replace the kernel's clients.
Exit statuses are those of mount(8): 1 usage, 32 mount failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection
from typing import Any, NoReturn

EXPORTS = "/srv/local-cloud/file-systems"
SERVERS, ACCESS = EXPORTS + "/.servers", EXPORTS + "/.access"
USAGE, FAILURE = 1, 32
# Options of mount(8) for all file systems.
GENERAL_OPTIONS = (
    "async atime auto defaults dev diratime exec group mand noatime noauto nodev nodiratime noexec nofail norelatime nosuid nouser owner "
    "relatime remount ro rw strictatime suid sync user users _netdev"
)
# nfs(5).
NFS_OPTIONS = (
    "ac acdirmax acdirmin acregmax acregmin actimeo addr bg clientaddr cto fg fsc hard intr local_lock lock lookupcache max_connect "
    "minorversion mountport nconnect nfsvers noac nocto nofsc nointr nolock noresvport nosharecache port proto rdirplus resvport retrans "
    "retry rsize sec sharecache soft softerr softreval tcp timeo vers wsize"
)
# Options for access times are omitted, because the kernel does not change them in a user namespace.
BIND_OPTIONS = frozenset({"ro", "rw", "noexec", "nosuid", "nodev"})


def fail(text: str, status: int = FAILURE) -> NoReturn:
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr)
    sys.exit(status)


def parse(usage: str) -> tuple[str, str, list[str]]:
    """Return source, target, and options of `HELPER SOURCE TARGET [-sfnvr] [-o OPTIONS]`, in any order."""
    places, options = [], []
    words = iter(sys.argv[1:])
    for word in words:
        if word in ("-o", "-t", "-N"):
            value = next(words, "")
            options += value.split(",") if word == "-o" else []
        elif word.startswith("-o"):
            options += word[2:].split(",")
        elif word.startswith("-"):
            options += ["ro"] if "r" in word else []
        else:
            places.append(word)
    if len(places) != 2:
        fail("usage: " + usage, USAGE)
    return places[0], places[1], [option for option in options if option]


def unknown_options(options: Collection[str], known: str) -> list[str]:
    """Return the options that are neither options of the file system, nor general options, nor comments."""
    allowed = {*known.split(), *GENERAL_OPTIONS.split()}
    names = [option.partition("=")[0] for option in options]
    return [name for name in names if name not in allowed and not name.startswith(("x-", "comment"))]


def list_servers() -> list[str]:
    """Return the servers of all file systems that can be mounted now."""
    return os.listdir(SERVERS)


def read_access(server: str) -> dict[str, Any]:
    """Return the actions that clients of the file system on this server may perform."""
    with open(os.path.join(ACCESS, _identifier(server)), encoding="ascii") as stream:
        return dict(json.load(stream))


def admit(allowed: Collection[str], source: str, options: list[str]) -> None:
    """Depending on the policy, exit like a mount that the server refuses, or make the mount read-only."""
    if "ClientMount" not in allowed:
        fail(f"access denied by server while mounting {source}")
    if "ClientWrite" not in allowed:
        options.append("ro")


def find_folder(server: str, path: str, root: str = "/") -> str | None:
    """Return the folder of a path below the root directory on this server, or None if the folder is missing."""
    whole = os.path.realpath(os.path.join(EXPORTS, _identifier(server)))
    top = os.path.realpath(whole + os.path.normpath(root))
    found = os.path.realpath(top + os.path.normpath(path))
    return found if os.path.isdir(found) and (found + "/").startswith(top + "/") and (top + "/").startswith(whole + "/") else None


def create_folder(server: str, path: str, creation: dict[str, Any]) -> None:
    """Create the root directory of an access point, unless it exists."""
    found = os.path.join(EXPORTS, _identifier(server)) + path
    if not os.path.isdir(found):
        os.makedirs(found)
        os.chown(found, creation["OwnerUid"], creation["OwnerGid"])
        os.chmod(found, int(creation["Permissions"], 8))


def _identifier(server: str) -> str:
    with open(os.path.join(SERVERS, server), encoding="ascii") as stream:
        return stream.read().strip()


def bind_mount(source: str, target: str, options: Collection[str]) -> None:
    """Bind-mount the folder with these options, or exit like a failed mount."""
    if not os.path.isdir(target):
        fail(f"mount point {target} does not exist")
    steps = [] if "remount" in options else [["--bind", source, target]]
    flags = [option for option in options if option in BIND_OPTIONS]
    if flags:
        # If the source were missing, mount would also apply the options in fstab.
        steps.append(["-o", ",".join(["remount", "bind", *flags]), source, target])
    for step in steps:
        if subprocess.run(["mount", "--no-mtab", "--internal-only", *step], check=False).returncode:
            sys.exit(FAILURE)
