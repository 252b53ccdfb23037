#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_trust
version_added: 0.1.0
short_description: Make a host of the cluster trusted, and trust the others, by SSH certificates
description:
  - Gives a host a host certificate, its login user a key of their own with a user certificate, and makes sshd and ssh trust the
    cluster's certificate authority. Hosts that join later need no change on this one.
  - An action plugin of the same name signs in memory on the controller. The private key of the authority never goes to a host,
    and private keys of hosts and users never leave theirs.
  - The login user's key and everything else is in C(/etc/ssh/deeplearning), a folder that only root can change. Keys in the user's home
    are neither signed nor changed.
  - It first looks at the host by one shell command. Where everything is right the module does not run, and where something has to be
    signed it runs twice.
options:
  cluster:
    description:
      - Name of the cluster. Names that begin with it and a dash are the cluster's hosts.
    type: str
    required: true
  user:
    description:
      - The login user, who has the user key and is the only one that certificates of this authority let in.
    type: str
    required: true
  authority:
    description:
      - Public key of the certificate authority, an OpenSSH line.
    type: str
    required: true
  authority_private_key:
    description:
      - Private key of the certificate authority in OpenSSH's PEM format. Used on the controller only.
    type: str
  principals:
    description:
      - All names and addresses under which the host is reached. The first is the id of its instance, by which it can be revoked.
    type: list
    elements: str
    required: true
  address_patterns:
    description:
      - Patterns, as in C(known_hosts), of the addresses under which hosts of the cluster are reached.
    type: list
    elements: str
    default: []
  source_addresses:
    description:
      - Addresses or networks from which the user certificate may be used. The key does not leave the host, so its own address is enough.
      - When empty, the certificate may be used from anywhere.
    type: list
    elements: str
    default: []
  revoked:
    description:
      - Ids of instances whose certificates the host refuses, as a server and as a client.
    type: list
    elements: str
    default: []
  validity_days:
    description:
      - How long new certificates are valid. One that is valid for longer is replaced.
    type: int
    default: 10
  renew_days:
    description:
      - A certificate that ends in fewer days is renewed.
    type: int
    default: 5
  host_certificate:
    description:
      - The signed host certificate. Given by the action plugin.
    type: str
  user_certificate:
    description:
      - The signed user certificate. Given by the action plugin.
    type: str
attributes:
  check_mode:
    description: Predicts which certificates would be signed and which files would change.
    support: full
  diff_mode:
    description: Shows every file's difference.
    support: full
  idempotent:
    description: A host with valid certificates is not changed.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Trust the cluster's certificate authority
  deeplearning.cluster.ssh_trust:
    cluster: demo
    user: ubuntu
    authority: "{{ authority.public_key }}"
    authority_private_key: "{{ authority.private_key }}"
    principals: [i-0123456789abcdef0, deeplearning-worker2, demo-worker2, 10.0.1.5]
    address_patterns: ["10.0.*"]
    source_addresses: [10.0.1.5]
    revoked: [i-0123456789abcdef9]
  become: true
"""

RETURN = r"""
unsigned:
  description: Certificates that the host needs, by kind, with the reason. Empty when nothing had to be signed.
  returned: success
  type: dict
  contains:
    host: &need
      description: The certificate of that kind.
      returned: when the host needs it
      type: dict
      contains:
        public_key:
          description: The key that is to be signed.
          returned: when there is one
          type: str
          sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI...
        reason:
          description: Why.
          type: str
          sample: there is none
    user: *need
"""

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.files import (
    THIS,
    Host,
    HostFile,
    agree,
    converge,
    difference,
    write,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.ssh_trust.certificates import (
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
    client_configuration,
    daemon_configuration,
    key_ids,
    name_patterns,
    renewal_reason,
    replace_known_hosts_line,
    revocation_list,
)

#: Nobody but root can change what is in it, so that nothing that root does here follows a link of somebody else.
DIRECTORY = "/etc/ssh/deeplearning"
AUTHORITY = DIRECTORY + "/authority.pub"
HOST_CERTIFICATE = DIRECTORY + "/ssh_host_ed25519_key-cert.pub"
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
#: The login user's own; ssh finds the certificate by the name of the key.
USER_KEY = DIRECTORY + "/user_ed25519"
USER_CERTIFICATE = USER_KEY + "-cert.pub"
REVOKED = DIRECTORY + "/revoked_keys"
KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
DAEMON_DROP_IN = "/etc/ssh/sshd_config.d/40-deeplearning.conf"
CLIENT_DROP_IN = "/etc/ssh/ssh_config.d/40-deeplearning.conf"
SERVICES = ("ssh.service", "sshd.service")
#: Everything that is_right() asks for. Of the user's private key nothing is read.
PATHS = (
    *(HOST_KEY + ".pub", HOST_CERTIFICATE, AUTHORITY, REVOKED, DAEMON_DROP_IN, KNOWN_HOSTS, CLIENT_DROP_IN),
    *(USER_KEY + "=", USER_KEY + ".pub", USER_CERTIFICATE),
)

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


def main() -> None:
    os.umask(0o022)  # on hardened hosts it would hide from the jobs' user what is made here
    module = AnsibleModule(**SPECIFICATION, supports_check_mode=True)
    try:
        check(module.params)
        run(module)
    except (ValueError, OSError) as error:
        module.fail_json(msg=f"SSH trust: {error}")


def check(params: dict[str, Any]) -> None:
    """Raise ValueError for parameters that do not fit each other, or that do not belong into a configuration file of SSH."""
    if params["validity_days"] <= params["renew_days"]:
        raise ValueError("validity_days must be greater than renew_days, or every run would renew the certificates")
    check_names(CLUSTER_NAME, "cluster", [params["cluster"]])
    check_names(USER_NAME, "user", [params["user"]])
    check_names(HOST_NAME, "principals", params["principals"])
    check_names(ADDRESS_PATTERN, "address_patterns", params["address_patterns"])
    check_networks("source_addresses", params["source_addresses"])
    check_names(HOST_NAME, "revoked", params["revoked"])
    bare_key(params["authority"])
    if params["principals"][0] in params["revoked"]:
        raise ValueError(f"{params['principals'][0]} is revoked, and gets no certificates. End this instance")


def run(module: AnsibleModule) -> None:
    """Say what has to be signed, or make the host right when nothing has to be, and end the module."""
    generated = ensure_user_key(module)
    unsigned = unsigned_certificates(module.params, THIS)
    daemon, client = daemon_files(module.params), client_files(module.params, THIS)
    if unsigned:
        # Nothing half done: files are written when the certificates are here. For now this is what will be.
        diff = generated + [change for change in map(difference, daemon + client) if change] + signatures(unsigned)
        module.exit_json(changed=True, diff=diff, unsigned=unsigned)
    diff = generated + converge_daemon(module, daemon) + converge(module, client)
    module.exit_json(changed=bool(diff), diff=diff, unsigned={})


def is_right(params: dict[str, Any], host: Host) -> bool:
    """Return whether nothing has to be signed or changed. Raises ValueError as the module itself would."""
    check(params)
    if not has_user_key(params, host) or unsigned_certificates(params, host):
        return False
    return agree(daemon_files(params) + client_files(params, host), host)


def key_comment(params: dict[str, Any]) -> str:
    """Return what the key of the host's login user is called. One with another comment came with the image."""
    return f"{params['user']}@{params['principals'][0]}"


def has_user_key(params: dict[str, Any], host: Host) -> bool:
    """Return whether the login user has a key that was made on this host, and alone can use it."""
    key, public_key, account = host.find(USER_KEY), host.read(USER_KEY + ".pub"), host.account(params["user"])
    if key is None or public_key is None or (key.mode, key.uid) != (0o600, account.uid):
        return False
    return public_key.split()[2:] == [key_comment(params)]


def ensure_user_key(module: AnsibleModule) -> list[dict[str, str]]:
    """Make a key for the login user unless there is one that was made on this host."""
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
    return [{"before_header": USER_KEY, "after_header": USER_KEY, "before": "", "after": "(a new key, made on the host)\n"}]


def unsigned_certificates(params: dict[str, Any], host: Host) -> dict[str, dict[str, Any]]:
    """Return the certificates that are neither valid on the host nor given, with the public keys to be signed."""
    host_public_key = host.read(HOST_KEY + ".pub")
    if host_public_key is None:
        raise ValueError(f"there is no {HOST_KEY}.pub: make host keys with ssh-keygen -A")
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
    """Return the Ansible diff of certificates that will be signed."""
    headers = {kind: f"{kind} certificate" for kind in unsigned}
    return [
        {
            "before_header": headers[kind],
            "after_header": headers[kind],
            "before": need["reason"] + "\n",
            "after": "signed by the authority\n",
        }
        for kind, need in unsigned.items()
    ]


def daemon_files(params: dict[str, Any]) -> list[HostFile]:
    """Return what sshd reads; its configuration comes last because it names the others."""
    revoked_ids = [key_id for instance_id in params["revoked"] for key_id in key_ids(instance_id, params["user"]).values()]
    revoked = revocation_list(params["authority"], revoked_ids).decode("utf-8", "surrogateescape")
    files = [HostFile(AUTHORITY, bare_key(params["authority"]) + "\n"), HostFile(REVOKED, revoked)]
    if params["host_certificate"]:
        files.append(HostFile(HOST_CERTIFICATE, params["host_certificate"].strip() + "\n"))
    return [*files, HostFile(DAEMON_DROP_IN, daemon_configuration(params["user"], AUTHORITY, HOST_CERTIFICATE, REVOKED))]


def client_files(params: dict[str, Any], host: Host) -> list[HostFile]:
    """Return what ssh reads."""
    addresses = params["address_patterns"]
    patterns = name_patterns(params["cluster"]) + addresses
    known_hosts = replace_known_hosts_line(host.read(KNOWN_HOSTS) or "", params["cluster"], params["authority"], patterns)
    configuration = client_configuration(params["cluster"], params["user"], addresses, USER_KEY, REVOKED)
    files = [HostFile(KNOWN_HOSTS, known_hosts), HostFile(CLIENT_DROP_IN, configuration)]
    if params["user_certificate"]:
        files.append(HostFile(USER_CERTIFICATE, params["user_certificate"].strip() + "\n"))
    return files


def converge_daemon(module: AnsibleModule, files: list[HostFile]) -> list[dict[str, str]]:
    """Write sshd's files and reload it if any differed; when sshd would refuse them, put the old ones back and fail."""
    before = [file._replace(content=THIS.read(file.path)) for file in files]
    diff = converge(module, files)
    if not diff or module.check_mode:
        return diff
    problem = daemon_problem(module)
    if problem:
        for file in reversed(before):
            if file.content is not None or os.path.exists(file.path):
                write(module, file)
        module.fail_json(msg=f"sshd refuses its new configuration, so the old one is back: {problem}")
    reload_daemon(module)
    return diff


def daemon_problem(module: AnsibleModule) -> str | None:
    """Return what is wrong with sshd's configuration on disk, None when it is good and ours is part of it."""
    sshd = module.get_bin_path("sshd", required=True, opt_dirs=["/usr/sbin"])
    status, _output, error = module.run_command([sshd, "-t"])
    if status != 0:
        return error.strip()
    connection = "user={0},host=localhost,addr=127.0.0.1".format(module.params["user"])
    status, output, error = module.run_command([sshd, "-T", "-C", connection])
    if status != 0:
        return error.strip()
    settings = output.splitlines()
    wanted = ("hostcertificate " + HOST_CERTIFICATE, "trustedusercakeys " + AUTHORITY, "revokedkeys " + REVOKED)
    missing = [setting for setting in wanted if setting not in settings]
    if missing:
        return "/etc/ssh/sshd_config does not include {0}, or overrides it ({1})".format(DAEMON_DROP_IN, ", ".join(missing))
    return None


def reload_daemon(module: AnsibleModule) -> None:
    """Make the running sshd read its files; connections stay."""
    for service in SERVICES:
        status, _output, _error = module.run_command(["systemctl", "is-active", "--quiet", service])
        if status == 0:
            module.run_command(["systemctl", "reload", service], check_rc=True)
            return
    module.warn("sshd does not run as {0}: it reads its new files when it starts next".format(" or ".join(SERVICES)))


if __name__ == "__main__":
    main()
