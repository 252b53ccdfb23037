# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds SSH host keys in the text of an instance's console output. cloud-init prints the keys at the first boot. Performs no I/O."""

from __future__ import annotations

import base64
import binascii
import re

# A message of the kernel, which begins anywhere in a line of another program. The kernel prints this prefix before each line of a message.
# An unprivileged process can write lines to the kernel log, for example in the name of a mount option.
KERNEL_LINE = re.compile(r"\[ *\d+\.\d{6}\][^\n]*\n?")
# The block that cloud-init's keys_to_console writes.
BLOCK = re.compile(r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL)
KEY = re.compile(r"\b(ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp(?:256|384|521)) (AAAA[A-Za-z0-9+/]{1,1990}={0,2})(?!\S)")
# The length in bytes of each field behind the type, or None for any length (RFC 4253, RFC 5656 and RFC 8709).
FIELDS = {
    "ssh-ed25519": (32,),
    "ssh-rsa": (None, None),
    "ecdsa-sha2-nistp256": (8, 65),
    "ecdsa-sha2-nistp384": (8, 97),
    "ecdsa-sha2-nistp521": (8, 133),
}


def host_keys(output: str) -> list[str]:
    """Return the valid public host keys in the first complete block as `type base64`.

    If the output contains no complete block of keys, the result is empty. Later blocks are ignored: cloud-init prints its block before any
    job can run, but any process with access to the console can print another block.
    """
    block = BLOCK.search(KERNEL_LINE.sub("", output.replace("\r", "")))
    return [f"{kind} {key}" for kind, key in KEY.findall(block[1]) if is_key(kind, key)] if block else []


def is_key(kind: str, encoded: str) -> bool:
    """Return whether the base64 text is a complete public key of this type."""
    try:
        name, *fields = _fields(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        return False
    lengths = FIELDS[kind]
    is_curve = kind.startswith("ssh-") or fields[:1] == [kind.rpartition("-")[2].encode()]
    return (
        name == kind.encode()
        and is_curve
        and len(fields) == len(lengths)
        and all(length in (None, len(field)) for field, length in zip(fields, lengths))
    )


def _fields(blob: bytes) -> list[bytes]:
    """Return the fields of a key, each of which follows its length in four bytes. Raises ValueError if the key is incomplete."""
    fields = []
    while blob:
        end = 4 + int.from_bytes(blob[:4], "big")
        if len(blob) < end:
            raise ValueError("the key is incomplete")
        fields.append(blob[4:end])
        blob = blob[end:]
    return fields
