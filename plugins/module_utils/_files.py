# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Files that a host module keeps right: compare, show the difference, write atomically."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import tempfile
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule


class HostFile(NamedTuple):
    """A file as it should be. No content means there should be no file."""

    path: str
    content: str | None
    mode: int = 0o644
    owner: str = "root"
    #: Write into the existing file where it cannot be replaced (a bind mount).
    in_place: bool = False


def account(user: str) -> pwd.struct_passwd:
    """Return the passwd entry of I(user). Raises ValueError when there is no such user."""
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise ValueError(f"there is no user {user} on this host: name its login user") from None


def read_text(path: str) -> str | None:
    """Return the file's text, None when there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return None


def difference(file: HostFile) -> dict[str, str] | None:
    """Return an Ansible diff from the file on disk to I(file), None when they agree."""
    before = _describe(file.path)
    after = _wanted(file)
    if before == after:
        return None
    return {
        "before_header": "{0} ({1})".format(file.path, before["is"]),
        "after_header": "{0} ({1})".format(file.path, after["is"]),
        "before": before["content"] or "",
        "after": after["content"] or "",
    }


def _describe(path: str) -> dict[str, Any]:
    content = read_text(path)
    if content is None:
        return {"content": None, "is": "absent"}
    status = os.stat(path)
    return {"content": content, "is": _attributes(stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)}


def _wanted(file: HostFile) -> dict[str, Any]:
    if file.content is None:
        return {"content": None, "is": "absent"}
    owner = pwd.getpwnam(file.owner)
    return {"content": file.content, "is": _attributes(file.mode, owner.pw_uid, owner.pw_gid)}


def _attributes(mode: int, uid: int, gid: int) -> str:
    return f"{mode:04o} {_name(pwd.getpwuid, uid)}:{_name(grp.getgrgid, gid)}"


def _name(lookup: Any, number: int) -> str:
    try:
        return lookup(number)[0]
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
    with open(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(file.content)
    owner = pwd.getpwnam(file.owner)
    if not os.path.exists(file.path):
        os.chmod(temporary, file.mode)
    module.atomic_move(temporary, file.path, unsafe_writes=file.in_place)
    module.set_owner_if_different(file.path, file.owner, False)
    module.set_group_if_different(file.path, str(owner.pw_gid), False)
    module.set_mode_if_different(file.path, file.mode, False)
