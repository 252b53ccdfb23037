# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The settings of sshd and ssh on hosts."""

from __future__ import annotations

from typing import Sequence


def daemon_configuration(user: str, authority_path: str, certificate_path: str, revoked_path: str) -> str:
    """Return sshd's drop-in file, which sets the host certificate and makes sshd trust the SSH certificate authority only for `user`."""
    return f"""# Written by deeplearning.cluster.ssh_trust
HostCertificate {certificate_path}
Match User {user}
    TrustedUserCAKeys {authority_path}
    RevokedKeys {revoked_path}
Match all
"""


def client_configuration(cluster: str, user: str, address_patterns: Sequence[str], key_path: str, revoked_path: str) -> str:
    """Return the drop-in file for ssh: strict host key checking for the cluster's host names, and the key of the login user.

    A configured key replaces the keys that ssh tries by default, so the file also lists the default keys.
    """
    names = name_patterns(cluster)
    hosts = [*names, *address_patterns]
    return """# Written by deeplearning.cluster.ssh_trust
Host {names}
    StrictHostKeyChecking yes
    CheckHostIP no
Host {hosts}
    RevokedHostKeys {revoked}
Match originalhost {listed} localuser {user}
    IdentityFile {key}
    IdentityFile ~/.ssh/id_rsa
    IdentityFile ~/.ssh/id_ecdsa
    IdentityFile ~/.ssh/id_ed25519
""".format(names=" ".join(names), hosts=" ".join(hosts), listed=",".join(hosts), user=user, key=key_path, revoked=revoked_path)


def name_patterns(cluster: str) -> list[str]:
    return ["deeplearning-*", cluster + "-*"]
