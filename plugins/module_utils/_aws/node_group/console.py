# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""SSH host keys on an instance's console, where cloud-init prints them at the first boot. Pure."""

from __future__ import annotations

import re

# The block that cloud-init's keys_to_console writes; lines may carry a prefix such as a time stamp
BLOCK = re.compile(r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL)
KEY = re.compile(r"\b(ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp\d+) (AAAA[A-Za-z0-9+/=]+)")


def host_keys(output: str) -> list[str]:
    """Return the public host keys on the console as `type base64`; none without a complete block.

    cloud-init prints them once in the life of an instance. Every process with access to the console could print a second block, so blocks
    that differ raise ValueError.
    """
    found = [[f"{kind} {key}" for kind, key in KEY.findall(block)] for block in BLOCK.findall(output)]
    if any(keys != found[0] for keys in found):
        raise ValueError("the console shows different SSH host keys")
    return found[0] if found else []
