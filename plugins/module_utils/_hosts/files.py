# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Files that a host module keeps right: compare, show the difference, write atomically."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import stat
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


class HostFile(NamedTuple):
    """A file as it should be. No content means there should be no file."""

    path: str
    content: str | None
    mode: int = 0o644
    owner: str = "root"
    #: Write into the existing file where it cannot be replaced (a bind mount).
    in_place: bool = False


class Found(NamedTuple):
    """A file or folder as it is; a folder has no content."""

    content: str
    mode: int
    uid: int
    gid: int


class Account(NamedTuple):
    """A user of the host."""

    uid: int
    gid: int
    home: str


class Host:
    """What this host has. An action plugin compares with the same functions what another host has, see plugin_utils/snapshot.py."""

    def find(self, path: str) -> Found | None:
        """Return the file or folder, None when there is none."""
        try:
            status = os.stat(path)
            content = "" if stat.S_ISDIR(status.st_mode) else _read(path)
        except FileNotFoundError:
            return None
        return Found(content, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or folder."""
        return os.path.exists(path)

    def read(self, path: str) -> str | None:
        """Return the file's text, None when there is no such file."""
        found = self.find(path)
        return None if found is None else found.content

    def account(self, user: str) -> Account:
        """Return the account of `user`. Raises ValueError when there is no such user."""
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            raise ValueError(f"user {user!r}: does not exist on this host. Name its login user.") from None
        return Account(entry.pw_uid, entry.pw_gid, entry.pw_dir)


THIS = Host()


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def wanted(file: HostFile, host: Host) -> Found | None:
    """Return what the host has when the file is as it should be."""
    if file.content is None:
        return None
    owner = host.account(file.owner)
    return Found(file.content, file.mode, owner.uid, owner.gid)


def agree(files: Iterable[HostFile], host: Host) -> bool:
    """Return whether all the files are on the host as they should be."""
    return all(host.find(file.path) == wanted(file, host) for file in files)


def difference(file: HostFile) -> dict[str, str] | None:
    """Return an Ansible diff from the file on disk to `file`, None when they agree."""
    before, after = THIS.find(file.path), wanted(file, THIS)
    if before == after:
        return None
    return {
        "before_header": f"{file.path} ({_attributes(before)})",
        "after_header": f"{file.path} ({_attributes(after)})",
        "before": _shown(before.content) if before else "",
        "after": _shown(after.content) if after else "",
    }


def _shown(content: str) -> str:
    """Return text as it is, and of anything else how much there is of it."""
    data = content.encode("utf-8", "surrogateescape")
    if b"\0" not in data:
        return content
    return f"({len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()})\n"


def _attributes(found: Found | None) -> str:
    if found is None:
        return "absent"
    return f"{found.mode:04o} {_name(pwd.getpwuid, found.uid)}:{_name(grp.getgrgid, found.gid)}"


def _name(lookup: Callable[[int], Any], number: int) -> str:
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def converge(module: AnsibleModule, files: list[HostFile]) -> list[dict[str, str]]:
    """Make the files so, in the given order, unless in check mode; return the differences there were."""
    differences = []
    for file in files:
        change = difference(file)
        if change is None:
            continue
        differences.append(change)
        if not module.check_mode:
            write(module, file)
    return differences


def write(module: AnsibleModule, file: HostFile) -> None:
    """Replace the file in one step; missing parent directories are made."""
    if file.content is None:
        os.unlink(file.path)
        return
    os.makedirs(os.path.dirname(file.path), mode=0o755, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with open(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        stream.write(file.content)
    if not os.path.exists(file.path):
        os.chmod(temporary, file.mode)
    module.atomic_move(temporary, file.path, unsafe_writes=file.in_place)
    module.set_owner_if_different(file.path, file.owner, False)
    module.set_group_if_different(file.path, str(THIS.account(file.owner).gid), False)
    module.set_mode_if_different(file.path, file.mode, False)
