# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the public key from a private key file on the controller, without asking for a passphrase."""

from __future__ import annotations

import base64
import binascii
import os
import stat
import struct

MAGIC = b"openssh-key-v1\0"
BEGIN, END = "-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"
PUBLIC = ("ssh-", "ecdsa-", "sk-")
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_public_key(path: str) -> str | None:
    """Return the type and the base64 data of the public key, or None if the file is encrypted and there is no `.pub` file next to it.

    Raises ValueError if ssh cannot use the file.
    """
    expanded = os.path.expanduser(path)
    if not os.path.isfile(expanded):
        raise ValueError(
            f"'{path}' is not a file on the controller. Specify the path of the key pair's private key. If an SSH agent has the key, "
            "remove this option from the inventory file."
        )
    try:
        with open(expanded, encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 20)
    except OSError as error:
        raise ValueError(f"'{path}' cannot be read: {error.strerror}. Specify the path of a private key that you can read.") from error
    if text.startswith(PUBLIC):  # in this case, ssh uses the private key from an agent
        return public_part(text)
    state = os.stat(expanded)
    if state.st_uid == os.getuid() and state.st_mode & OTHERS:
        raise ValueError(
            f"'{path}' has mode {stat.S_IMODE(state.st_mode):04o}, but ssh refuses keys that other users can read. "
            "Run chmod 600 on the file."
        )
    try:
        return openssh_public_key(text) if text.lstrip().startswith(BEGIN) else pem_public_key(text, expanded)
    except (ValueError, struct.error) as error:
        raise ValueError(f"'{path}' is not a private key. Specify the path of the key pair's private key.") from error


def public_part(line: str) -> str:
    """Return the type and the base64 data of a public key, without its comment."""
    return " ".join(line.split()[:2])


def openssh_public_key(text: str) -> str:
    """Return the public key from a file in OpenSSH format. In such a file, the public key is never encrypted.

    Raises ValueError or struct.error if the content is invalid.
    """
    body, end, _rest = text.partition(BEGIN)[2].partition(END)
    try:
        content = base64.b64decode("".join(body.split()), validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
    if not end or not content.startswith(MAGIC):
        raise ValueError("not a key")
    rest = content[len(MAGIC) :]
    for _field in ("cipher", "key derivation function", "its options"):
        rest = _string(rest)[1]
    blob = _string(rest[4:])[0]  # the public key comes after the number of keys, which has 4 bytes
    return f"{_string(blob)[0].decode('ascii')} {base64.b64encode(blob).decode()}"


def _string(content: bytes) -> tuple[bytes, bytes]:
    """Return the length-prefixed string at the start of the content, and the remaining content."""
    (length,) = struct.unpack(">I", content[:4])
    if length > len(content) - 4:
        raise ValueError("too short")
    return content[4 : 4 + length], content[4 + length :]


def pem_public_key(text: str, path: str) -> str | None:
    """Return the public key from a file in PEM format. Raises ValueError if the content is invalid."""
    # ansible-core requires cryptography, which takes a while to import. Most key files are in OpenSSH format.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_private_key(text.encode(), password=None).public_key()
        return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    except (TypeError, UnsupportedAlgorithm):  # encrypted, or of a type that only ssh may support
        try:
            with open(f"{path}.pub", encoding="utf-8", errors="replace") as file:
                return public_part(file.read())
        except OSError:
            return None
