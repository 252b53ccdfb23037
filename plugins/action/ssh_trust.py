# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Signs a host's certificates in memory on the controller, and runs the module that installs the certificates."""

from __future__ import annotations

import secrets
import time
from collections.abc import Generator, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._common.ssh_trust import converge, files
from ..module_utils._common.ssh_trust.certificates import CLOCK_SKEW, DAY, HOST, USER, Terms, bare_key, key_ids, parse_certificate
from ..plugin_utils import snapshot
from ..plugin_utils.answers import NodeAction
from ..plugin_utils.snapshot import Inspection, Request, Snapshot

try:
    from cryptography.exceptions import UnsupportedAlgorithm
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

VERSION = "signing certificates requires the Python package cryptography 41.0.2 or later on the controller"
UPGRADE = "Run pip install 'cryptography>=41.0.2'."
NEW_KEY = "Create a key with ssh-keygen -t ed25519 -N ''."


class ActionModule(NodeAction):
    """Skips correctly configured hosts, and runs the module twice on hosts that need a certificate."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Run the module, sign the certificates that the host needs, and run the module again with these certificates."""
        arguments = dict(self._task.args)
        private_key = arguments.pop("authority_private_key", None)
        right = snapshot.inspect(self, inspection(arguments))
        if right:
            return right[0]
        found = self._execute_module(self._module, module_args=arguments, task_vars=variables)
        if found.get("unsigned") and not found.get("failed") and not self._task.check_mode:
            arguments.update(certificates(found["unsigned"], arguments, private_key))
            installed = self._execute_module(self._module, module_args=arguments, task_vars=variables)
            refused = installed.get("unsigned", {})
            if refused:
                with self.reading(variables):
                    reasons = ", ".join(f"{kind} certificate: {need['reason']}" for kind, need in refused.items())
                raise AnsibleActionFail(f"The host rejects its new certificates ({reasons}). Check the host's clock.")
            found = {**installed, "changed": True, "unsigned": found["unsigned"]}
        return found


def inspection(arguments: Mapping[str, Any]) -> Inspection:
    return Inspection(arguments, converge.SPECIFICATION, check)


def check(parameters: dict[str, Any]) -> Generator[Request, Snapshot, dict[str, Any] | None]:
    """Return the task's result if the host is configured correctly, and None otherwise."""
    host = yield Request(parameters["user"], files.PATHS)
    return {"changed": False, "diff": [], "unsigned": {}} if converge.is_right(parameters, host) else None


def certificates(unsigned: Mapping[str, Any], arguments: Mapping[str, Any], private_key: str | None) -> dict[str, str]:
    """Return the module options that contain the certificates for a host.

    Only the public keys come from the host. Each key is a single line. Everything else in a certificate comes from the task, because a
    host must not choose its own identity.
    """
    authority = load_authority(private_key, arguments["authority"])
    host, user = arguments["principals"][0], arguments["user"]
    if host in arguments.get("revoked", ()):
        raise AnsibleActionFail(
            f"{host}: this instance's certificates have been revoked, and the instance does not receive new ones. Terminate the instance."
        )
    days, sources = int(arguments.get("validity_days", 10)), arguments.get("source_addresses", [])
    principals, ids = {HOST: arguments["principals"], USER: [user]}, key_ids(host, user)
    options = {}
    if not isinstance(unsigned, Mapping):
        raise AnsibleActionFail(f"The result does not list the certificates that the host needs: {unsigned!r:.60}. Check the host.")
    for kind in principals:
        if kind in unsigned:
            terms = Terms(kind, principals[kind], arguments["authority"], days, 0, sources)
            options[f"{kind}_certificate"] = sign(authority, offered_key(kind, unsigned[kind]), ids[kind], terms)
    return options


def offered_key(kind: str, need: Any) -> str:
    """Return the public key that a host submits for signing. Raises AnsibleActionFail unless the value is a single ed25519 key."""
    key = need.get("public_key") if isinstance(need, Mapping) else None
    try:
        if not isinstance(key, str):
            raise ValueError(f"{key!r:.60} is not a public key.")
        return bare_key(key)
    except ValueError as error:
        raise AnsibleActionFail(f"The host's {kind} key cannot be signed: {error}") from None


def load_authority(private_key: str | None, public_key: str) -> Ed25519PrivateKey:
    """Return the private key of the SSH certificate authority.

    Raises AnsibleActionFail if the key cannot be used. The error message contains no part of the key.
    """
    if CRYPTOGRAPHY_ERROR:
        raise AnsibleActionFail(f"{VERSION}: {CRYPTOGRAPHY_ERROR}. {UPGRADE}")
    if not private_key:
        raise AnsibleActionFail("authority_private_key: the key is required to sign the certificates of this host. Set this option.")
    try:
        authority = load_ssh_private_key(private_key.encode(), password=None)
    except (ValueError, TypeError):
        raise AnsibleActionFail(f"authority_private_key: the value is not an OpenSSH private key, or has a passphrase. {NEW_KEY}") from None
    if not isinstance(authority, Ed25519PrivateKey):
        raise AnsibleActionFail(f"authority_private_key: the value is not an ed25519 key. {NEW_KEY}")
    own = authority.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    if own != bare_key(public_key):
        raise AnsibleActionFail(
            "authority_private_key: the key does not match the public key in authority. Specify both keys of one key pair."
        )
    return authority


def sign(authority: Ed25519PrivateKey, public_key: str, key_id: str, terms: Terms) -> str:
    """Return an OpenSSH certificate for a public key, as one line. The certificate is valid immediately."""
    try:
        key = load_ssh_public_key(public_key.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise AnsibleActionFail(f"The host's {terms.kind} key cannot be signed: {error}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise AnsibleActionFail(f"The host's {terms.kind} key cannot be signed: it is not an ed25519 key.")
    now = int(time.time())
    builder = (
        SSHCertificateBuilder()
        .public_key(key)
        .serial(secrets.randbits(63))
        .type(SSHCertificateType.HOST if terms.kind == HOST else SSHCertificateType.USER)
        .key_id(key_id.encode())
        .valid_principals([principal.encode() for principal in terms.principals])
        .valid_after(now - CLOCK_SKEW)
        .valid_before(now + terms.validity_days * DAY)
    )
    for name, value in terms.critical_options.items():
        builder = builder.add_critical_option(name.encode(), value.encode())
    for permission in terms.extensions:
        builder = builder.add_extension(permission.encode(), b"")
    line: str = builder.sign(authority).public_bytes().decode()
    if not has_terms(line, terms):
        raise AnsibleActionFail(f"{VERSION}: the installed version encodes certificate options incorrectly. {UPGRADE}")
    return line


def has_terms(line: str, terms: Terms) -> bool:
    """Return whether a new certificate has the correct critical options.

    Versions of cryptography before 41.0.2 encode these options incorrectly.
    """
    try:
        return parse_certificate(line).critical_options == terms.critical_options
    except ValueError:
        return False
