# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Host keys from an instance's console output, where cloud-init prints them at the first boot. Pure."""

from __future__ import annotations

import re

# The block that cloud-init's keys_to_console writes; lines may carry a prefix such as a time stamp
BLOCK = re.compile(r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL)
KEY = re.compile(r"\b(ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp\d+) (AAAA[A-Za-z0-9+/=]+)")


def host_keys(output: str) -> list[str]:
    """The public host keys on the console, as C(type base64); none if there is no whole block.

    cloud-init prints them once in the life of an instance, whatever else boots print. Everything that runs on the instance with access to
    the console could print a second block, so that blocks that differ are refused by a ValueError.
    """
    found = [[f"{kind} {key}" for kind, key in KEY.findall(block)] for block in BLOCK.findall(output)]
    if any(keys != found[0] for keys in found):
        raise ValueError("the console shows different SSH host keys")
    return found[0] if found else []
