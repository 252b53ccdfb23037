# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Configures and reloads the SSH daemon, and restores the old configuration if the daemon rejects the new one."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.files import THIS, HostFile, converge, write
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.ssh_trust.files import (
    AUTHORITY,
    DAEMON_DROP_IN,
    HOST_CERTIFICATE,
    REVOKED,
)

SERVICES = ("ssh.service", "sshd.service")


def converge_daemon(module: AnsibleModule, files: list[HostFile]) -> list[dict[str, str]]:
    """Write sshd's files, and reload sshd if any of the files has changed. If sshd would reject the new files, restore the old files and
    fail.
    """
    before = [file._replace(content=THIS.read(file.path)) for file in files]
    diff = converge(module, files)
    if not diff or module.check_mode:
        return diff
    problem = daemon_problem(module)
    if problem:
        for file in reversed(before):
            if file.content is not None or os.path.exists(file.path):
                write(module, file)
        module.fail_json(msg=f"sshd rejected its new configuration, so the old one was restored: {problem}")
    reload_daemon(module)
    return diff


def daemon_problem(module: AnsibleModule) -> str | None:
    """Return the problem with sshd's configuration on disk, or None if it is valid and includes this collection's settings."""
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
    """Reload the running sshd. Existing connections stay open."""
    for service in SERVICES:
        status, _output, _error = module.run_command(["systemctl", "is-active", "--quiet", service])
        if status == 0:
            module.run_command(["systemctl", "reload", service], check_rc=True)
            return
    module.warn("Neither {0} is running. sshd will read the new files at its next start.".format(" nor ".join(SERVICES)))
