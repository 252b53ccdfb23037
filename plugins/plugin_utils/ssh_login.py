# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Explains why a node refused a login. Pure."""

from __future__ import annotations

REFUSED = "Permission denied ("


def login_advice(message: str, user: str | None, key_file: str | None) -> str:
    """Return what to do about ssh's message, as further sentences. It is empty if the message is not about a refused login."""
    if REFUSED not in message:
        return ""
    with_key = f"the key file {key_file!r}" if key_file else "ssh's own default keys"
    return (
        f" The node refused user {user or 'of ssh'!r} with {with_key}. The options user and private_key_file of the inventory file set "
        "them. They must be the login user of the image (deeplearning_login_user) and the private key of the key pair "
        "(deeplearning_key_name) with which the nodes were launched."
    )
