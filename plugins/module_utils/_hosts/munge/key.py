# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Creates, reads and writes the MUNGE key with which the hosts of a cluster authenticate users to each other."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import pwd
import secrets

from ansible.module_utils.basic import AnsibleModule

from ..._common.managed_files import HostFile, converge
from ..._files import replacing
from ..services import MUNGE, STARTED, STOPPED, converge_service, drop_in

# The key is not in munge.key, because the package creates munge.key with different contents on each host.
PATH = "/etc/munge/deeplearning.key"
USER = "munge"
# Key sizes in bytes. The package creates keys of size `SIZE`. MUNGE rejects keys with fewer than 32 bytes, and reads at most 1024 bytes.
SIZE, MINIMUM, MAXIMUM = 128, 32, 1024
# Running jobs hide the directory in which munged listens. If systemd replaced this directory when munged restarts, jobs would see the new
# directory.
DROP_IN = f"""\
# The module deeplearning.cluster.munge_key writes this file.
[Service]
Environment="OPTIONS=--key-file={PATH}"
RuntimeDirectoryPreserve=yes
"""


def read_key(path: str = PATH) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(MAXIMUM + 1)
    except FileNotFoundError:
        return None


def digest(key: bytes | None) -> str:
    """Return twelve hexadecimal digits that identify a key, or an empty string if there is no key."""
    return hashlib.sha256(key).hexdigest()[:12] if key else ""


def encode(key: bytes) -> str:
    return base64.b64encode(key).decode()


def decode(text: str) -> bytes:
    """Return the key that the text encodes. Raises ValueError if the text is not a key. The message does not contain the text."""
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not MINIMUM <= len(key) <= MAXIMUM:
        raise ValueError(
            f"key: the value is not a base64-encoded key of {MINIMUM} to {MAXIMUM} bytes. Use the key that another host returned."
        )
    return key


def ensure_key(module: AnsibleModule, given: str | None, *, replace: bool = False) -> tuple[list[dict[str, str]], bytes | None]:
    """Write the given key, or a new key if the host has none or `replace` is true, and run munged with it.

    Return the diffs and the key.

    In check mode, None is returned in place of a new key. Raises OSError, ServiceError or ValueError.
    """
    before = read_key()
    key = decode(given) if given else None if replace else before
    if key is None and not module.check_mode:
        key = secrets.token_bytes(SIZE)
    differences = []
    if before is None or before != key:
        differences.append(_difference(f"key {digest(before)}\n" if before else "", f"key {digest(key)}\n" if key else "new key\n"))
        if key and not module.check_mode:
            write_key(key)
    differences += converge(module, [HostFile(drop_in(MUNGE), DROP_IN)])
    return differences + converge_service(module, MUNGE, STARTED, changed=bool(differences)), key


def write_key(key: bytes, path: str = PATH) -> None:
    """Replace the key file. Only munged can read the file."""
    account = pwd.getpwnam(USER)
    with replacing(path, 0o400) as file:
        os.fchown(file.fileno(), account.pw_uid, account.pw_gid)
        file.write(key)


def ensure_no_key(module: AnsibleModule) -> list[dict[str, str]]:
    key = read_key()
    differences = []
    if key is not None:
        differences.append(_difference(f"key {digest(key)}\n", ""))
        if not module.check_mode:
            os.unlink(PATH)
    differences += converge(module, [HostFile(drop_in(MUNGE), None)])
    return differences + (converge_service(module, MUNGE, STOPPED) if differences else [])


def _difference(before: str, after: str) -> dict[str, str]:
    return {"before_header": PATH, "after_header": PATH, "before": before, "after": after}
