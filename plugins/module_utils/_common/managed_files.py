# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Compares the files that a host module manages with their definition, shows the differences, and writes the files atomically."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import stat
import tempfile
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


# Maximum number of characters of an entry in a warning.
SHOWN = 120


class HostFile(NamedTuple):
    """The desired state of a file. If `content` is None, the file should not exist."""

    path: str
    content: str | None
    mode: int = 0o644
    owner: str = "root"
    # Write into the existing file if it cannot be replaced because it is a bind mount.
    in_place: bool = False
    # Returns the part of the content that diffs show. If other programs also write to the file, the rest of the content may contain
    # secrets.
    shown: Callable[[str], str] = lambda content: content
    # Entries of others in the existing file that the content replaces. A copy of the file is kept.
    replaced: Sequence[str] = ()


class FileState(NamedTuple):
    """The actual state of a file or directory. The `content` of a directory is empty."""

    content: str
    mode: int
    uid: int
    gid: int


class Account(NamedTuple):
    uid: int
    gid: int
    home: str


class HostFiles:
    """Reads the files and accounts of this host. For other hosts, action plugins use the subclass in plugin_utils/snapshot.py."""

    def find(self, path: str) -> FileState | None:
        try:
            status = os.stat(path)
            content = "" if stat.S_ISDIR(status.st_mode) else _read(path)
        except FileNotFoundError:
            return None
        return FileState(content, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def read(self, path: str) -> str | None:
        found = self.find(path)
        return None if found is None else found.content

    def account(self, user: str) -> Account:
        """Return the account of `user`. Raises ValueError if the user does not exist."""
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            raise ValueError(f"user {user!r} does not exist on this host. Specify the host's login user.") from None
        return Account(entry.pw_uid, entry.pw_gid, entry.pw_dir)


THIS = HostFiles()


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def wanted(file: HostFile, host: HostFiles) -> FileState | None:
    if file.content is None:
        return None
    owner = host.account(file.owner)
    return FileState(file.content, file.mode, owner.uid, owner.gid)


def agree(files: Iterable[HostFile], host: HostFiles) -> bool:
    return all(host.find(file.path) == wanted(file, host) for file in files)


def difference(file: HostFile) -> dict[str, str] | None:
    """Return an Ansible diff between the file on disk and `file`, or None if they do not differ."""
    before, after = THIS.find(file.path), wanted(file, THIS)
    if before == after:
        return None
    return {
        "before_header": f"{file.path} ({_attributes(before)})",
        "after_header": f"{file.path} ({_attributes(after)})",
        "before": _text(file.shown(before.content)) if before else "",
        "after": _text(file.shown(after.content)) if after else "",
    }


def _text(content: str) -> str:
    """Return text unchanged. For binary content, return a line with its size and digest."""
    data = content.encode("utf-8", "surrogateescape")
    if b"\0" not in data:
        return content
    return f"({len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()})\n"


def _attributes(found: FileState | None) -> str:
    if found is None:
        return "absent"
    return f"{found.mode:04o} {_name(pwd.getpwuid, found.uid)}:{_name(grp.getgrgid, found.gid)}"


def _name(lookup: Callable[[int], Any], number: int) -> str:
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def converge(module: AnsibleModule, files: list[HostFile]) -> list[dict[str, str]]:
    """Bring the files to their desired state in the given order, and return the diffs. In check mode, nothing is written."""
    differences = []
    for file in files:
        change = difference(file)
        if change is None:
            continue
        differences.append(change)
        if file.replaced:
            keep_copy(module, file)
        if not module.check_mode:
            write(module, file)
    return differences


def keep_copy(module: AnsibleModule, file: HostFile) -> None:
    """Copy the existing file, and warn that entries of others are replaced."""
    kept = "" if module.check_mode else f" The old file is {module.backup_local(file.path)}."
    shown = "; ".join(entry if len(entry) <= SHOWN else f"{entry[:SHOWN]}..." for entry in file.replaced)
    module.warn(f"{file.path}: older entries are replaced: {shown}.{kept}")


def write(module: AnsibleModule, file: HostFile) -> None:
    """Replace the file atomically, or delete it if it should not exist. Creates missing parent directories."""
    if file.content is None:
        os.unlink(file.path)
        return
    os.makedirs(os.path.dirname(file.path), mode=0o755, exist_ok=True)
    # The temporary file is not in module.tmpdir, because Ansible prints a warning if a module creates that directory.
    handle, temporary = tempfile.mkstemp()
    with open(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        stream.write(file.content)
    if not os.path.exists(file.path):
        os.chmod(temporary, file.mode)
    module.atomic_move(temporary, file.path, unsafe_writes=file.in_place)
    module.set_owner_if_different(file.path, file.owner, False)
    module.set_group_if_different(file.path, str(THIS.account(file.owner).gid), False)
    module.set_mode_if_different(file.path, file.mode, False)
