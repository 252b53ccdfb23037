# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds SSH host keys in the text of an instance's console output. cloud-init prints the keys at the first boot. Performs no I/O."""

from __future__ import annotations

import re

# The block that cloud-init's keys_to_console writes. The lines of this block may have a prefix such as a timestamp
BLOCK = re.compile(r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL)
KEY = re.compile(r"\b(ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp\d+) (AAAA[A-Za-z0-9+/=]+)")


def host_keys(output: str) -> list[str]:
    """Return the public host keys in the output as `type base64`. If the output contains no complete block of keys, the result is empty.

    cloud-init prints only one block during the lifetime of an instance, but any process with access to the console can print another block.
    Raises ValueError if the blocks differ.
    """
    found = [[f"{kind} {key}" for kind, key in KEY.findall(block)] for block in BLOCK.findall(output)]
    if any(keys != found[0] for keys in found):
        raise ValueError("the console output contains conflicting SSH host keys")
    return found[0] if found else []
