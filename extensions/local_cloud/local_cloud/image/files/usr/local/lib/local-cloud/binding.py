"""What the mount helpers of a host in the local cloud share: they bind the folder that stands for a file system.

`mount`, fstab and systemd mount units call the helpers as on any machine; no kernel here has the clients that they stand in for.
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
# The file system independent options of mount(8).
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
# Not those about access times: in a user namespace, the kernel keeps them as they are on the machine.
BIND_OPTIONS = frozenset({"ro", "rw", "noexec", "nosuid", "nodev"})


def fail(text: str, status: int = FAILURE) -> NoReturn:
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr)
    sys.exit(status)


def parse(usage: str) -> tuple[str, str, list[str]]:
    """Source, target and options of `HELPER SOURCE TARGET [-sfnvr] [-o OPTIONS]`, in any order."""
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


def unknown(options: Collection[str], known: str) -> list[str]:
    """Options that are neither of the file system nor general ones nor meant for others to read."""
    allowed = {*known.split(), *GENERAL_OPTIONS.split()}
    names = [option.partition("=")[0] for option in options]
    return [name for name in names if name not in allowed and not name.startswith(("x-", "comment"))]


def servers() -> list[str]:
    """The names and addresses under which file systems can be had now."""
    return os.listdir(SERVERS)


def access(server: str) -> dict[str, Any]:
    """What clients of the file system on one of these servers may do."""
    with open(os.path.join(ACCESS, _identifier(server)), encoding="ascii") as stream:
        return dict(json.load(stream))


def admit(allowed: Collection[str], source: str, options: list[str]) -> None:
    """End with the status of a mount that the server refuses, or have it be read-only, as the policy says."""
    if "ClientMount" not in allowed:
        fail(f"access denied by server while mounting {source}")
    if "ClientWrite" not in allowed:
        options.append("ro")


def folder(server: str, path: str, root: str = "/") -> str | None:
    """The folder behind a path below a root directory on one of these servers; None when there is no such folder."""
    whole = os.path.realpath(os.path.join(EXPORTS, _identifier(server)))
    top = os.path.realpath(whole + os.path.normpath(root))
    found = os.path.realpath(top + os.path.normpath(path))
    return found if os.path.isdir(found) and (found + "/").startswith(top + "/") and (top + "/").startswith(whole + "/") else None


def make_folder(server: str, path: str, creation: dict[str, Any]) -> None:
    """Make the root directory of an access point, unless it is there."""
    found = os.path.join(EXPORTS, _identifier(server)) + path
    if not os.path.isdir(found):
        os.makedirs(found)
        os.chown(found, creation["OwnerUid"], creation["OwnerGid"])
        os.chmod(found, int(creation["Permissions"], 8))


def _identifier(server: str) -> str:
    with open(os.path.join(SERVERS, server), encoding="ascii") as stream:
        return stream.read().strip()


def bind(source: str, target: str, options: Collection[str]) -> None:
    """Mount the folder as these options say, or end with the status of a failed mount."""
    if not os.path.isdir(target):
        fail(f"mount point {target} does not exist")
    steps = [] if "remount" in options else [["--bind", source, target]]
    flags = [option for option in options if option in BIND_OPTIONS]
    if flags:
        # Without the source, mount would take options of fstab too, which may not be changed here.
        steps.append(["-o", ",".join(["remount", "bind", *flags]), source, target])
    for step in steps:
        if subprocess.run(["mount", "--no-mtab", "--internal-only", *step], check=False).returncode:
            sys.exit(FAILURE)
