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
      - All names and addresses under which the host is reached.
    type: list
    elements: str
    required: true
  address_patterns:
    description:
      - Patterns, as in C(known_hosts), of the addresses under which hosts of the cluster are reached.
    type: list
    elements: str
    default: []
  validity_days:
    description:
      - How long new certificates are valid.
    type: int
    default: 365
  renew_days:
    description:
      - A certificate that ends in fewer days is renewed.
    type: int
    default: 30
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
  become: true
"""

RETURN = r"""
unsigned:
  description: Certificates that the host needs, by kind, with the reason. Empty when nothing had to be signed.
  returned: success
  type: dict
  sample: {"host": {"public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI...", "reason": "there is none"}}
"""

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._files import (
    THIS,
    Host,
    HostFile,
    agree,
    converge,
    difference,
    write,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils.ssh_certificates import (
    HOST,
    USER,
    bare_key,
    client_configuration,
    daemon_configuration,
    name_patterns,
    renewal_reason,
    replace_known_hosts_line,
)

DIRECTORY = "/etc/ssh/deeplearning"
AUTHORITY = DIRECTORY + "/authority.pub"
HOST_CERTIFICATE = DIRECTORY + "/ssh_host_ed25519_key-cert.pub"
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
#: In the home of the login user.
USER_KEY = ".ssh/id_ed25519"
KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
DAEMON_DROP_IN = "/etc/ssh/sshd_config.d/40-deeplearning.conf"
CLIENT_DROP_IN = "/etc/ssh/ssh_config.d/40-deeplearning.conf"
SERVICES = ("ssh.service", "sshd.service")
#: Everything that is_right() asks for. Of the user's private key nothing is read.
PATHS = (
    *(HOST_KEY + ".pub", HOST_CERTIFICATE, AUTHORITY, DAEMON_DROP_IN, KNOWN_HOSTS, CLIENT_DROP_IN),
    *(f"~/{USER_KEY}=", f"~/{USER_KEY}.pub", f"~/{USER_KEY}-cert.pub"),
)

SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "cluster": {"type": "str", "required": True},
        "user": {"type": "str", "required": True},
        "authority": {"type": "str", "required": True},
        "authority_private_key": {"type": "str", "no_log": True},
        "principals": {"type": "list", "elements": "str", "required": True},
        "address_patterns": {"type": "list", "elements": "str", "default": []},
        "validity_days": {"type": "int", "default": 365},
        "renew_days": {"type": "int", "default": 30},
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
    """Raise ValueError for parameters that do not fit each other."""
    if params["validity_days"] <= params["renew_days"]:
        raise ValueError("validity_days must be greater than renew_days, or every run would renew the certificates")


def run(module: AnsibleModule) -> None:
    """Say what has to be signed, or make the host right when nothing has to be, and end the module."""
    user_key = os.path.join(THIS.account(module.params["user"]).home, USER_KEY)
    generated = ensure_user_key(module, user_key)
    unsigned = unsigned_certificates(module.params, user_key, THIS)
    daemon, client = daemon_files(module.params), client_files(module.params, user_key, THIS)
    if unsigned:
        # Nothing half done: files are written when the certificates are here. For now this is what will be.
        diff = generated + [change for change in map(difference, daemon + client) if change] + signatures(unsigned)
        module.exit_json(changed=True, diff=diff, unsigned=unsigned)
    diff = generated + converge_daemon(module, daemon) + converge(module, client)
    module.exit_json(changed=bool(diff), diff=diff, unsigned={})


def is_right(params: dict[str, Any], host: Host) -> bool:
    """Return whether nothing has to be signed or changed. Raises ValueError as the module itself would."""
    check(params)
    user_key = os.path.join(host.account(params["user"]).home, USER_KEY)
    keys = host.exists(user_key) and host.exists(user_key + ".pub")
    if not keys or unsigned_certificates(params, user_key, host):
        return False
    return agree(daemon_files(params) + client_files(params, user_key, host), host)


def ensure_user_key(module: AnsibleModule, path: str) -> list[dict[str, str]]:
    """Let the login user make a key unless they have one."""
    if os.path.exists(path):
        if not os.path.exists(path + ".pub"):
            raise ValueError(f"{path} has no public half {path}.pub: make it with ssh-keygen -y, or move the key away")
        return []
    if not module.check_mode:
        user = module.params["user"]
        comment = "{0}@{1}".format(user, module.params["principals"][0])
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path]
        # As the user, so that nothing in their home is followed with root's rights.
        script = 'umask 077 && mkdir -p "$(dirname "$1")" && shift && exec "$@"'
        module.run_command(["runuser", "-u", user, "--", "sh", "-c", script, "sh", path, *keygen], check_rc=True)
    return [{"before_header": path, "after_header": path, "before": "", "after": "(a new key, made on the host)\n"}]


def unsigned_certificates(params: dict[str, Any], user_key: str, host: Host) -> dict[str, dict[str, Any]]:
    """Return the certificates that are neither valid on the host nor given, with the public keys to be signed."""
    host_public_key = host.read(HOST_KEY + ".pub")
    if host_public_key is None:
        raise ValueError(f"there is no {HOST_KEY}.pub: make host keys with ssh-keygen -A")
    candidates = {
        HOST: (host_public_key, params["principals"], params["host_certificate"] or host.read(HOST_CERTIFICATE)),
        USER: (host.read(user_key + ".pub"), [params["user"]], params["user_certificate"] or host.read(user_key + "-cert.pub")),
    }
    unsigned = {}
    for kind, (public_key, principals, certificate) in candidates.items():
        reason = renewal_reason(certificate, kind, public_key, principals, params["authority"], time.time(), params["renew_days"])
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
    files = [HostFile(AUTHORITY, bare_key(params["authority"]) + "\n")]
    if params["host_certificate"]:
        files.append(HostFile(HOST_CERTIFICATE, params["host_certificate"].strip() + "\n"))
    return [*files, HostFile(DAEMON_DROP_IN, daemon_configuration(params["user"], AUTHORITY, HOST_CERTIFICATE))]


def client_files(params: dict[str, Any], user_key: str, host: Host) -> list[HostFile]:
    """Return what ssh reads."""
    patterns = name_patterns(params["cluster"]) + params["address_patterns"]
    known_hosts = replace_known_hosts_line(host.read(KNOWN_HOSTS) or "", params["cluster"], params["authority"], patterns)
    files = [HostFile(KNOWN_HOSTS, known_hosts), HostFile(CLIENT_DROP_IN, client_configuration(params["cluster"]))]
    if params["user_certificate"]:
        files.append(HostFile(user_key + "-cert.pub", params["user_certificate"].strip() + "\n", owner=params["user"]))
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
    wanted = ("hostcertificate " + HOST_CERTIFICATE, "trustedusercakeys " + AUTHORITY)
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
