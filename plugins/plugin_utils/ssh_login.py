# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Explains why a login to a node failed. All functions are pure."""

from __future__ import annotations

REFUSED = "Permission denied ("
# ssh's name for the other end of a ProxyCommand.
PROXY = "by UNKNOWN port 65535"
# The beginning of the advice about a node that SSH does not reach directly. Such a node may be unreachable only because the master is
# unreachable.
THROUGH_ANOTHER = "SSH reaches this node through the master or through Session Manager"


def login_advice(message: str, user: str | None, key_file: str | None) -> str:
    """Return sentences of advice about a message from ssh, or an empty string if there is none."""
    if PROXY in message:
        return f"{THROUGH_ANOTHER}, and that connection was closed. If the master is unreachable too, solve the master's problem first."
    if REFUSED not in message:
        return ""
    login = f"user {user!r}" if user else "ssh's default user"
    with_key = f"the key file {key_file!r}" if key_file else "ssh's default keys"
    return (
        f"The login used {login} with {with_key}. In the inventory file, set the option user to the login user of the image "
        "(deeplearning_login_user). Set private_key_file to the private key of the nodes' EC2 key pair (deeplearning_key_name)."
    )
