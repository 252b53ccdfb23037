# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Signs the certificates that a host lacks, in memory on the controller, around the module that installs them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.deeplearning.cluster.plugins.module_utils.ssh_certificates import DAY, HOST, USER, bare_key
from ansible_collections.deeplearning.cluster.plugins.modules import ssh_trust
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import snapshot

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        SSHCertificateBuilder,
        SSHCertificateType,
        load_ssh_private_key,
        load_ssh_public_key,
    )
except ImportError as error:
    CRYPTOGRAPHY_ERROR: ImportError | None = error
else:
    CRYPTOGRAPHY_ERROR = None

MODULE = "deeplearning.cluster.ssh_trust"
#: Clocks of hosts that have just booted may be behind.
CLOCK_SKEW = 3600
#: What a user certificate permits. Agent and X11 forwarding are not needed among the hosts.
PERMISSIONS = (b"permit-port-forwarding", b"permit-pty", b"permit-user-rc")


class ActionModule(ActionBase):
    """No run of the module on a host that is right, two where something has to be signed."""

    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module; sign what it lacks and run it again with the certificates."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        private_key = arguments.pop("authority_private_key", None)
        right = snapshot.look(arguments, ssh_trust.SPECIFICATION, self._find)
        if right:
            return {**result, **right}
        found = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
        if found.get("unsigned") and not found.get("failed") and not self._task.check_mode:
            arguments.update(certificates(found["unsigned"], arguments, private_key))
            installed = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
            refused = installed.get("unsigned", {})
            if refused:
                reasons = ", ".join(f"{kind} certificate: {need['reason']}" for kind, need in refused.items())
                raise AnsibleActionFail(f"the host does not accept its new certificates, is its clock right? ({reasons})")
            found = {**installed, "changed": True, "unsigned": found["unsigned"]}
        result.update(found)
        return result

    def _find(self, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result for a host that is right, None for any other."""
        host = snapshot.take(self, parameters["user"], ssh_trust.PATHS)
        return {"changed": False, "diff": [], "unsigned": {}} if host and ssh_trust.is_right(parameters, host) else None


def certificates(unsigned: Mapping[str, Any], arguments: Mapping[str, Any], private_key: str | None) -> dict[str, str]:
    """Return the module's certificate options for what a host lacks.

    Only the public keys come from the host. Names come from the task: a host must not choose who it is.
    """
    authority = load_authority(private_key, arguments["authority"])
    host = arguments["principals"][0]
    user = arguments["user"]
    names = {HOST: (host, arguments["principals"]), USER: (f"{user}@{host}", [user])}
    days = int(arguments.get("validity_days", 365))
    return {
        f"{kind}_certificate": sign(authority, kind, need["public_key"], key_id=names[kind][0], principals=names[kind][1], days=days)
        for kind, need in unsigned.items()
    }


def load_authority(private_key: str | None, public_key: str) -> Ed25519PrivateKey:
    """Return the authority's key. Raises AnsibleActionFail, without a word of the key, when it cannot be used."""
    if CRYPTOGRAPHY_ERROR:
        raise AnsibleActionFail(f"signing certificates needs Python's cryptography 40 or later on the controller: {CRYPTOGRAPHY_ERROR}")
    if not private_key:
        raise AnsibleActionFail("the host needs certificates: authority_private_key is required to sign them")
    try:
        authority = load_ssh_private_key(private_key.encode(), password=None)
    except (ValueError, TypeError):
        raise AnsibleActionFail("authority_private_key is not an OpenSSH private key without passphrase") from None
    if not isinstance(authority, Ed25519PrivateKey):
        raise AnsibleActionFail("authority_private_key is not an ed25519 key")
    own = authority.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    if own != bare_key(public_key):
        raise AnsibleActionFail("authority_private_key does not belong to authority")
    return authority


def sign(authority: Ed25519PrivateKey, kind: str, public_key: str, *, key_id: str, principals: Sequence[str], days: int) -> str:
    """Return an OpenSSH certificate line of the given kind for a public key, valid from now on for I(days) days."""
    key = load_ssh_public_key(public_key.encode())
    if not isinstance(key, Ed25519PublicKey):
        raise AnsibleActionFail(f"the host's {kind} key is not an ed25519 key")
    now = int(time.time())
    builder = (
        SSHCertificateBuilder()
        .public_key(key)
        .serial(secrets.randbits(63))
        .type(SSHCertificateType.HOST if kind == HOST else SSHCertificateType.USER)
        .key_id(key_id.encode())
        .valid_principals([principal.encode() for principal in principals])
        .valid_after(now - CLOCK_SKEW)
        .valid_before(now + days * DAY)
    )
    for permission in PERMISSIONS if kind == USER else ():
        builder = builder.add_extension(permission, b"")
    line: str = builder.sign(authority).public_bytes().decode()
    return line
