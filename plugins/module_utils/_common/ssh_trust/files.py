# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The paths and contents of the files that make a host trust the certificate authority of its cluster."""

from __future__ import annotations

from typing import Any

from ..managed_files import HostFile, HostFiles
from .certificates import bare_key, key_ids, revocation_list
from .known_hosts import replace_known_hosts_line
from .ssh_configuration import client_configuration, daemon_configuration, name_patterns

# Only root can change this directory, so root cannot follow a link that another user has created in it.
DIRECTORY = "/etc/ssh/deeplearning"
AUTHORITY = DIRECTORY + "/authority.pub"
HOST_CERTIFICATE = DIRECTORY + "/ssh_host_ed25519_key-cert.pub"
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
# The login user's key. ssh derives the name of the certificate from the name of the key.
USER_KEY = DIRECTORY + "/user_ed25519"
USER_CERTIFICATE = USER_KEY + "-cert.pub"
REVOKED = DIRECTORY + "/revoked_keys"
KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
DAEMON_DROP_IN = "/etc/ssh/sshd_config.d/40-deeplearning.conf"
CLIENT_DROP_IN = "/etc/ssh/ssh_config.d/40-deeplearning.conf"
# All paths that is_right() inspects. A trailing `=` means that only the file's attributes are read, which keeps the private key secret.
PATHS = (
    *(HOST_KEY + ".pub", HOST_CERTIFICATE, AUTHORITY, REVOKED, DAEMON_DROP_IN, KNOWN_HOSTS, CLIENT_DROP_IN),
    *(USER_KEY + "=", USER_KEY + ".pub", USER_CERTIFICATE),
)


def daemon_files(params: dict[str, Any]) -> list[HostFile]:
    """Return the files that sshd reads. The configuration is last because it refers to the other files."""
    revoked_ids = [key_id for instance_id in params["revoked"] for key_id in key_ids(instance_id, params["user"]).values()]
    revoked = revocation_list(params["authority"], revoked_ids).decode("utf-8", "surrogateescape")
    files = [HostFile(AUTHORITY, bare_key(params["authority"]) + "\n"), HostFile(REVOKED, revoked)]
    if params["host_certificate"]:
        files.append(HostFile(HOST_CERTIFICATE, params["host_certificate"].strip() + "\n"))
    return [*files, HostFile(DAEMON_DROP_IN, daemon_configuration(params["user"], AUTHORITY, HOST_CERTIFICATE, REVOKED))]


def client_files(params: dict[str, Any], host: HostFiles) -> list[HostFile]:
    addresses = params["address_patterns"]
    patterns = name_patterns(params["cluster"]) + addresses
    known_hosts, older = replace_known_hosts_line(host.read(KNOWN_HOSTS) or "", params["cluster"], params["authority"], patterns)
    configuration = client_configuration(params["cluster"], params["user"], addresses, USER_KEY, REVOKED)
    files = [HostFile(KNOWN_HOSTS, known_hosts, replaced=older), HostFile(CLIENT_DROP_IN, configuration)]
    if params["user_certificate"]:
        files.append(HostFile(USER_CERTIFICATE, params["user_certificate"].strip() + "\n"))
    return files
