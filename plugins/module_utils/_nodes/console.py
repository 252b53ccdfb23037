# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Host keys from an instance's console output, where cloud-init prints them at the first boot. Pure."""

from __future__ import annotations

import re

# The block that cloud-init's keys_to_console writes; lines may carry a prefix such as a time stamp
BLOCK = re.compile(r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL)
KEY = re.compile(r"\b(ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp\d+) (AAAA[A-Za-z0-9+/=]+)")


def host_keys(output: str) -> list[str]:
    """The public host keys of the newest boot that printed them, as C(type base64); none if there is no whole block."""
    blocks = BLOCK.findall(output)
    return [f"{kind} {key}" for kind, key in KEY.findall(blocks[-1])] if blocks else []
