# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Configures and reloads the SSH daemon, and restores the old configuration if the daemon rejects the new one."""

from __future__ import annotations

import os
import re
import time

from ansible.module_utils.basic import AnsibleModule

from ..managed_files import THIS, HostFile, converge, write
from . import conflicts
from .certificates import CERTIFICATE_TYPE
from .files import AUTHORITY, DAEMON_DROP_IN, HOST_CERTIFICATE, HOST_KEY, REVOKED

SERVICES = ("ssh.service", "sshd.service")
# Seconds within which a reloaded sshd should offer the new certificate, and the addresses at which all addresses of a family are reached.
OFFER, LOCAL = 10.0, {"0.0.0.0": "127.0.0.1", "[::]": "::1"}


def converge_daemon(module: AnsibleModule, files: list[HostFile]) -> list[dict[str, str]]:
    """Write sshd's files, and reload sshd if any of the files has changed. If sshd would reject the new files, restore the old files and
    fail.
    """
    before = [file._replace(content=THIS.read(file.path)) for file in files]
    diff = converge(module, files)
    if not diff or module.check_mode:
        return diff
    problem = daemon_problem(module)
    is_reloaded = not problem and reload_daemon(module)
    if is_reloaded:
        problem = offer_problem(module)
    if problem:
        for file in reversed(before):
            if file.content is not None or os.path.exists(file.path):
                write(module, file)
        if is_reloaded:
            reload_daemon(module)
        module.fail_json(msg=f"sshd rejected its new configuration, so the old one was restored: {problem}")
    return diff


def check_conflicts(module: AnsibleModule) -> None:
    """Fail if settings of others for SSH contradict those of the cluster."""
    ssh = module.get_bin_path("ssh")
    found = conflicts.find(module.run_command, find_sshd(module), ssh, module.params["user"], THIS.read(HOST_KEY + ".pub"))
    if found:
        module.fail_json(msg="SSH is configured in a way that excludes the certificates of the cluster. " + " ".join(found))


def find_sshd(module: AnsibleModule) -> str:
    """Return the path of sshd. Fails if it is not installed."""
    return str(module.get_bin_path("sshd", required=True, opt_dirs=["/usr/sbin"]))


def daemon_problem(module: AnsibleModule) -> str | None:
    """Return the problem with sshd's configuration on disk, or None if it is valid and includes this collection's settings."""
    sshd = find_sshd(module)
    status, _output, error = module.run_command([sshd, "-t"])
    if status != 0:
        return error.strip()
    status, output, error = module.run_command([sshd, *conflicts.connection_test(module.params["user"])])
    if status != 0:
        return error.strip()
    settings = output.splitlines()
    wanted = ("hostcertificate " + HOST_CERTIFICATE, "trustedusercakeys " + AUTHORITY, "revokedkeys " + REVOKED)
    missing = [setting for setting in wanted if setting not in settings]
    if missing:
        return "/etc/ssh/sshd_config does not include {0}, or overrides it ({1})".format(DAEMON_DROP_IN, ", ".join(missing))
    return None


def offer_problem(module: AnsibleModule) -> str | None:
    """Return the problem with the host certificate that the running sshd offers to clients, or None if it is the certificate on disk.

    An sshd that has just been reloaded may still offer the old certificate. If it accepts no connection from this host, a warning says so.
    """
    expected = (THIS.read(HOST_CERTIFICATE) or "").split()[:2]
    end, offered = time.monotonic() + OFFER, ""
    while expected and module.get_bin_path("ssh-keyscan"):
        offered = _offered(module)
        if offered.split()[:2] == expected:
            return None
        if time.monotonic() > end:
            break
        time.sleep(0.2)
    if not expected or not offered:
        module.warn("The host certificate that sshd offers could not be read with ssh-keyscan, so it was not verified.")
        return None
    return f"sshd offers another host certificate than {HOST_CERTIFICATE}. Remove the setting HostCertificate for the other certificate."


def _offered(module: AnsibleModule) -> str:
    """Return the host certificate that the running sshd offers for its ed25519 key.

    Return an empty string if sshd offers none or does not answer.
    """
    _status, output, _error = module.run_command([find_sshd(module), *conflicts.connection_test(module.params["user"])])
    listening = [line.split()[1].rpartition(":")[::2] for line in output.splitlines() if line.startswith("listenaddress ")]
    for address, port in listening:
        host = LOCAL.get(address, address.strip("[]"))
        _status, output, _error = module.run_command(["ssh-keyscan", "-c", "-T", "5", "-t", "ed25519", "-p", port, host])
        found = re.search(rf"{re.escape(CERTIFICATE_TYPE)} \S+", output)
        if found:
            return found[0]
    return ""


def reload_daemon(module: AnsibleModule) -> bool:
    """Reload the running sshd, and return whether it runs. Existing connections stay open."""
    for service in SERVICES:
        status, _output, _error = module.run_command(["systemctl", "is-active", "--quiet", service])
        if status == 0:
            module.run_command(["systemctl", "reload", service], check_rc=True)
            return True
    module.warn("Neither {0} is running. sshd will read the new files at its next start.".format(" nor ".join(SERVICES)))
    return False
