# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Converges the SSH trust of this host: writes files, creates the user key, and determines which certificates to sign."""

from __future__ import annotations

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..managed_files import THIS, HostFiles, agree, converge, difference
from .certificates import (
    ADDRESS_PATTERN,
    CLUSTER_NAME,
    HOST,
    HOST_NAME,
    USER,
    USER_NAME,
    Terms,
    bare_key,
    check_names,
    check_networks,
    renewal_reason,
)
from .files import DIRECTORY, HOST_CERTIFICATE, HOST_KEY, USER_CERTIFICATE, USER_KEY, client_files, daemon_files
from .sshd import check_conflicts, converge_daemon

SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "cluster": {"type": "str", "required": True},
        "user": {"type": "str", "required": True},
        "authority": {"type": "str", "required": True},
        "authority_private_key": {"type": "str", "no_log": True},
        "principals": {"type": "list", "elements": "str", "required": True},
        "address_patterns": {"type": "list", "elements": "str", "default": []},
        "source_addresses": {"type": "list", "elements": "str", "default": []},
        "revoked": {"type": "list", "elements": "str", "default": []},
        "validity_days": {"type": "int", "default": 10},
        "renew_days": {"type": "int", "default": 5},
        "host_certificate": {"type": "str"},
        "user_certificate": {"type": "str"},
    },
}


def check(params: dict[str, Any]) -> None:
    """Raise ValueError if parameters contradict each other, or have values that are not allowed in an SSH configuration file."""
    if params["validity_days"] <= params["renew_days"]:
        raise ValueError("validity_days: must be greater than renew_days. Otherwise, every run would renew the certificates.")
    check_names(CLUSTER_NAME, "cluster", [params["cluster"]])
    check_names(USER_NAME, "user", [params["user"]])
    check_names(HOST_NAME, "principals", params["principals"])
    check_names(ADDRESS_PATTERN, "address_patterns", params["address_patterns"])
    check_networks("source_addresses", params["source_addresses"])
    check_names(HOST_NAME, "revoked", params["revoked"])
    bare_key(params["authority"])
    if params["principals"][0] in params["revoked"]:
        raise ValueError(
            f"{params['principals'][0]}: the certificates of this instance are revoked, so it receives no new certificates. "
            "Terminate the instance."
        )


def run(module: AnsibleModule) -> None:
    """Exit the module with the certificates to sign. If all certificates are already signed, converge the host before exiting.

    Fails before anything is changed if settings of others contradict those of the cluster.
    """
    check_conflicts(module)
    generated = ensure_user_key(module)
    unsigned = unsigned_certificates(module.params, THIS)
    daemon, client = daemon_files(module.params), client_files(module.params, THIS)
    if unsigned:
        # The files are not written until all certificates are present. As long as a certificate is missing, return the predicted diff.
        diff = generated + [change for change in map(difference, daemon + client) if change] + signatures(unsigned)
        module.exit_json(changed=True, diff=diff, unsigned=unsigned)
    diff = generated + converge_daemon(module, daemon) + converge(module, client)
    module.exit_json(changed=bool(diff), diff=diff, unsigned={})


def is_right(params: dict[str, Any], host: HostFiles) -> bool:
    """Return whether the certificates and files are in their desired state. Raises ValueError in the same cases as the module."""
    check(params)
    if not has_user_key(params, host) or unsigned_certificates(params, host):
        return False
    return agree(daemon_files(params) + client_files(params, host), host)


def key_comment(params: dict[str, Any]) -> str:
    """Return the comment of the login user's key. A key with a different comment was part of the image."""
    return f"{params['user']}@{params['principals'][0]}"


def has_user_key(params: dict[str, Any], host: HostFiles) -> bool:
    """Return whether the login user has a key that was created on this host and that no other user can read."""
    key, public_key, account = host.find(USER_KEY), host.read(USER_KEY + ".pub"), host.account(params["user"])
    if key is None or public_key is None or (key.mode, key.uid) != (0o600, account.uid):
        return False
    return public_key.split()[2:] == [key_comment(params)]


def ensure_user_key(module: AnsibleModule) -> list[dict[str, str]]:
    """Create a key for the login user unless one was already created on this host, and return the Ansible diff."""
    if has_user_key(module.params, THIS):
        return []
    if not module.check_mode:
        os.makedirs(DIRECTORY, mode=0o755, exist_ok=True)
        for path in (USER_KEY, USER_KEY + ".pub"):
            if os.path.lexists(path):
                os.unlink(path)
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key_comment(module.params), "-f", USER_KEY]
        module.run_command(keygen, check_rc=True)
        account = THIS.account(module.params["user"])
        os.chown(USER_KEY, account.uid, account.gid)
    return [{"before_header": USER_KEY, "after_header": USER_KEY, "before": "", "after": "(a new key, generated on the host)\n"}]


def unsigned_certificates(params: dict[str, Any], host: HostFiles) -> dict[str, dict[str, Any]]:
    """Return the certificates that the host needs, with the public keys to sign.

    A certificate is needed if neither the parameters nor the host has a valid certificate of this kind.
    """
    host_public_key = host.read(HOST_KEY + ".pub")
    if host_public_key is None:
        raise ValueError(f"{HOST_KEY}.pub does not exist. Create host keys with ssh-keygen -A.")
    user_public_key = host.read(USER_KEY + ".pub")
    candidates = {
        HOST: (host_public_key, params["principals"], params["host_certificate"] or host.read(HOST_CERTIFICATE)),
        USER: (user_public_key, [params["user"]], params["user_certificate"] or host.read(USER_CERTIFICATE)),
    }
    unsigned = {}
    for kind, (public_key, principals, certificate) in candidates.items():
        validity_days, renew_days, sources = params["validity_days"], params["renew_days"], params["source_addresses"]
        terms = Terms(kind, principals, params["authority"], validity_days, renew_days, sources)
        reason = renewal_reason(certificate, public_key, terms, time.time())
        if reason:
            unsigned[kind] = {"public_key": public_key and bare_key(public_key), "reason": reason}
    return unsigned


def signatures(unsigned: dict[str, dict[str, Any]]) -> list[dict[str, str]]:
    headers = {kind: f"{kind} certificate" for kind in unsigned}
    return [
        {
            "before_header": headers[kind],
            "after_header": headers[kind],
            "before": need["reason"] + "\n",
            "after": "signed by the certificate authority\n",
        }
        for kind, need in unsigned.items()
    ]
