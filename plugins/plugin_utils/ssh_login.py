# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Explains why a login to a node failed. All functions are pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..module_utils._aws.node_names import MASTER

REFUSED = "Permission denied ("
# ssh's name for the other end of a ProxyCommand.
PROXY = "by UNKNOWN port 65535"
# The advice about a node that SSH does not reach directly. The node may be unreachable only because the other host is unreachable.
THROUGH = "SSH reaches this node through {0}, and that connection was closed."
THROUGH_ANOTHER = re.compile(r"SSH reaches this node through (.{1,255}?), and that connection was closed\.")
SESSION_MANAGER = "Session Manager"
# What the AWS CLI or the shell says when no session begins, and the advice.
SESSION_ADVICE = (
    (
        re.compile(r"SessionManagerPlugin is not found", re.IGNORECASE),
        "connection_path: session_manager needs the AWS CLI's Session Manager plugin, which is not in PATH on the controller. Install it: "
        "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html",
    ),
    (
        re.compile(r"\baws: (?:command )?not found"),
        "connection_path: session_manager needs the AWS CLI and its Session Manager plugin in PATH on the controller. Install both.",
    ),
    (
        re.compile(r"\bTargetNotConnected\b"),
        "The node is not connected to Session Manager. A new node takes some minutes. The nodes' role must allow it "
        "(deeplearning_session_manager: true), and the node needs a route to AWS Systems Manager.",
    ),
    (
        re.compile(r"\b(?:ExpiredToken|ExpiredTokenException|RequestExpired)\b"),
        "The AWS credentials of the controller have expired. Renew them, and run the playbook again.",
    ),
)
AUTO_SCALING = "auto_scaling"
# The operating systems of AWS images, and their login users.
LOGIN_USERS = (("amazon-linux", "ec2-user"), ("ubuntu", "ubuntu"))


class Login(NamedTuple):
    """How SSH logs in to a node.

    `expected` is the login user of the node's image, `key_pair` the EC2 key pair of the nodes, `through` the host or the service that
    forwards the connection, and `inventory` the file of the nodes inventory. Each value is empty if it is unknown.
    """

    user: str | None = None
    key_file: str | None = None
    expected: str = ""
    key_pair: str = ""
    through: str = ""
    inventory: str = ""


def login_advice(message: str, login: Login) -> str:
    """Return sentences of advice about a message from ssh, or an empty string if there is none."""
    if PROXY in message:
        return _proxy_advice(message, login.through)
    if REFUSED not in message:
        return ""
    user, key_file = ("user", "private_key_file") if login.inventory else ("ansible_user", "ansible_ssh_private_key_file")
    where = f" in {login.inventory}" if login.inventory else " in the inventory"
    used = f"user {login.user!r}" if login.user else "ssh's default user"
    if login.expected and login.user != login.expected:
        return f"{user}: the login used {used}, but the login user of the image is {login.expected!r}. Set {user}: {login.expected}{where}."
    key = f"the key file {login.key_file!r}" if login.key_file else "ssh's default keys"
    pair = f"EC2 key pair {login.key_pair!r}" if login.key_pair else "the nodes' EC2 key pair"
    advice = f"Set {key_file}{where} to the file with the private key of {pair} (deeplearning_key_name)."
    if login.expected:
        return f"{key_file}: the login used {used}, which is correct, but the node does not accept {key}. {advice}"
    return f"The login used {used} with {key}. If {user} is not the login user of the image, correct {user}{where}. Otherwise: {advice}"


def _proxy_advice(message: str, through: str) -> str:
    for pattern, advice in SESSION_ADVICE if through == SESSION_MANAGER else ():
        if pattern.search(message):
            return advice
    return f"{THROUGH.format(through or 'another host')} Check that both are running and accept SSH connections."


def login_of(host: str, nodes: Mapping[str, Mapping[str, Any]], variable: Callable[[str], Any]) -> Login:
    """Return what the controller knows about the login to a host, except the user and the key file that SSH uses.

    `nodes` is the inventory's dictionary of nodes, and `variable` returns the value of one of the host's variables, or None.
    """
    node = nodes.get(host, {})
    master = next((name for name, each in nodes.items() if each.get("group") == MASTER), "")
    return Login(
        expected=image_user(variable),
        key_pair=str(variable("deeplearning_key_name") or ""),
        through=SESSION_MANAGER if node.get("proxy_command") else master if node.get("jump") else "",
        inventory=str(variable("deeplearning_inventory_file") or "") if node else "",
    )


def image_user(variable: Callable[[str], Any]) -> str:
    """Return the login user of the nodes' image, or an empty string if it is unknown.

    The operating system determines the user. The definition or the name of the image parameter specifies the operating system.
    """
    service = variable("deeplearning_node_service") or AUTO_SCALING
    if service != AUTO_SCALING:
        # Imported only for this message. Otherwise, each process that connects to a host would load the SDK.
        from ..module_utils._aws.node_services import NODE_SERVICES  # pylint: disable=import-outside-toplevel

        return NODE_SERVICES[service].login_user if service in NODE_SERVICES else ""

    def option(name: str) -> str:
        return str(variable(f"deeplearning_{name}") or variable(f"provision_{name}") or "")

    system = option("image_os") or (option("image_parameter") if not option("image_id") else "")
    found = next((user for start, user in LOGIN_USERS if start in system), "")
    is_looked_up = not any(map(option, ("image_id", "image_parameter", "image_os")))
    return found or option("login_user") or ("ubuntu" if is_looked_up else "")
