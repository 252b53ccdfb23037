# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Converges the files that describe the cluster on a host: metadata, host file, /etc/hosts, /etc/hostname and environment variables."""

from __future__ import annotations

import os
import re
import socket
from typing import Any, Iterable

from ansible.module_utils.basic import AnsibleModule

from .. import gpus
from ..managed_files import THIS, HostFile, HostFiles, agree, converge
from .metadata import (
    Worker,
    address_file,
    environment_block,
    generation,
    hosts_block,
    metadata_file,
    ordered,
    own_block,
    profile_file,
    replace_block,
    variables,
    without_names,
    without_variables,
    workers_file,
)

HOSTS = "/etc/hosts"
HOST_NAME = "/etc/hostname"
PROFILE = "/etc/profile.d/deeplearning.sh"
# PAM sets these variables for all sessions of sshd and sudo, including `ssh host command` and programs that are not shells.
ENVIRONMENT = "/etc/environment"
CLOUD_INIT_DIRECTORY = "/etc/cloud/cloud.cfg.d"
# cloud-init reads the files in the order of their names.
CLOUD_INIT = CLOUD_INIT_DIRECTORY + "/zz-deeplearning-hosts.cfg"
# In some images, such as Debian's, cloud-init rewrites /etc/hosts at every boot. cloud-init may also reset the host name.
CLOUD_INIT_CONTENT = (
    "# Without these settings, cloud-init would overwrite the host name and the cluster's block in /etc/hosts on reboot.\n"
    "manage_etc_hosts: false\npreserve_hostname: true\n"
)
# The user data of an instance, as cloud-init has understood it. It overrides all files in the directory.
USER_DATA = "/var/lib/cloud/instance/cloud-config.txt"
MANAGED = re.compile(r"^[\"']?manage_etc_hosts[\"']?\s*:\s*[\"']?(true|yes|on|1|template|localhost)\b", re.IGNORECASE | re.MULTILINE)
# The value with which cloud-init does not use a template, but adds an entry for this host's name and 127.0.1.1 to /etc/hosts.
LOCALHOST = "localhost"
# The files from which cloud-init then writes /etc/hosts at every boot, and how they name this host.
TEMPLATES = ("/etc/cloud/templates/hosts.debian.tmpl", "/etc/cloud/templates/hosts.redhat.tmpl")
THIS_HOST = ("{{fqdn}}", "{{hostname}}")
WORKER = {
    "number": {"type": "int", "required": True},
    "name": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
}

SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "cluster": {"type": "str"},
        "number": {"type": "int"},
        "workers": {"type": "list", "elements": "dict", "options": WORKER},
        "user": {"type": "str"},
        "efs_mount": {"type": "path"},
        "directory": {"type": "path", "default": "/opt/deeplearning"},
        "workers_content": {"type": "str", "choices": ["names", "addresses"], "default": "names"},
        "worker_ip_file": {"type": "path"},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    },
    "required_if": [("state", "present", ["cluster", "number", "workers", "user"])],
}


def ensure_present(module: AnsibleModule) -> None:
    params = module.params
    THIS.account(params["user"])
    gpu_count = gpus.count(known_gpus(params, THIS), module.warn)
    diff = converge(module, described(params, gpu_count, THIS))
    if managed_hosts(THIS) == LOCALHOST:
        module.warn(
            f"{HOSTS}: the user data of this host sets manage_etc_hosts: {LOCALHOST}, so at each boot, cloud-init adds an entry that"
            " resolves this host's name to 127.0.1.1. Remove the setting from the user data."
        )
    if not module.check_mode:
        set_host_name(module, own_name(params))
    module.exit_json(changed=bool(diff), diff=diff, **facts(params, gpu_count))


def set_host_name(module: AnsibleModule, name: str) -> None:
    """Set the host name of the running system, because /etc/hostname takes effect only at the next boot."""
    try:
        if socket.gethostname() != name:
            socket.sethostname(name)
    except OSError as error:
        module.warn(f"The host name {name!r} cannot be set now: {error}. The new name takes effect at the next boot.")


def described(params: dict[str, Any], gpu_count: int, host: HostFiles) -> list[HostFile]:
    """Return the desired files of the host, derived from the parameters of the module. Raises ValueError."""
    workers = ordered(params["workers"])
    content = address_file if params["workers_content"] == "addresses" else workers_file
    files = [HostFile(workers_path(params), content(workers), owner=params["user"])]
    if params["worker_ip_file"]:
        files.append(HostFile(params["worker_ip_file"], address_file(workers), owner=params["user"]))
    if host.exists(CLOUD_INIT_DIRECTORY):
        files.append(HostFile(CLOUD_INIT, CLOUD_INIT_CONTENT))
    exports = variables(len(workers), workers_path(params), gpu_count, params["efs_mount"])
    return [
        *files,
        HostFile(HOST_NAME, own_name(params) + "\n", in_place=True),
        hosts_file(HOSTS, workers, host),
        *hosts_templates(workers, host),
        HostFile(PROFILE, profile_file(exports)),
        environment_file(host, environment_block(exports), exports),
        HostFile(metadata_path(params), metadata_file(params["cluster"], params["number"], workers, gpu_count)),
    ]


def hosts_file(path: str, workers: list[Worker], host: HostFiles, own: Iterable[str] = ()) -> HostFile:
    """Return the desired /etc/hosts, or a template for it, with the cluster's block as the only place for the names of its hosts."""
    others, replaced = without_names(host.read(path) or "", workers, own)
    return HostFile(path, replace_block(others, hosts_block(workers)), in_place=True, replaced=replaced)


def hosts_templates(workers: list[Worker], host: HostFiles) -> list[HostFile]:
    """Return the desired templates from which cloud-init writes /etc/hosts, if the user data of the host demands it."""
    if managed_hosts(host) in ("", LOCALHOST):
        return []
    return [hosts_file(path, workers, host, THIS_HOST) for path in TEMPLATES if host.exists(path)]


def managed_hosts(host: HostFiles) -> str:
    """Return how cloud-init manages /etc/hosts according to the user data, or an empty string if it does not."""
    found = MANAGED.search(host.read(USER_DATA) or "")
    return found[1].lower() if found else ""


def environment_file(host: HostFiles, block: str, names: Iterable[str] = ()) -> HostFile:
    """Return the desired /etc/environment with this block, which is the only place for the variables `names`.

    The file's other lines and its mode stay the same.
    """
    found = host.find(ENVIRONMENT)
    content, mode = (found.content, found.mode) if found else ("", 0o644)
    others, replaced = without_variables(content, names) if names else (content, [])
    return HostFile(ENVIRONMENT, replace_block(others, block), mode, in_place=True, shown=own_block, replaced=replaced)


def own_name(params: dict[str, Any]) -> str:
    """Return this host's name from the list of workers. Raises ValueError."""
    for worker in params["workers"]:
        if worker["number"] == params["number"]:
            return str(worker["name"])
    raise ValueError("workers: no entry has this host's number, {0}. Add this host to the list.".format(params["number"]))


def facts(params: dict[str, Any], gpu_count: int) -> dict[str, Any]:
    """Return the module's return values for a configured host: the generation ID of the metadata and the number of GPUs."""
    return {"generation": generation(params["cluster"], params["workers"]), "gpu_count": gpu_count}


def own_paths(params: dict[str, Any]) -> list[str]:
    """Return the paths of the files that only this module writes. The last path is metadata.json, which a host needs to start jobs."""
    address_files = [params["worker_ip_file"]] if params["worker_ip_file"] else []
    return [workers_path(params), *address_files, CLOUD_INIT, PROFILE, metadata_path(params)]


def paths(params: dict[str, Any]) -> list[str]:
    return [*own_paths(params), CLOUD_INIT_DIRECTORY, ENVIRONMENT, HOSTS, HOST_NAME, USER_DATA, *TEMPLATES]


def is_right(params: dict[str, Any], gpu_count: int, host: HostFiles) -> bool:
    """Return whether all files are in their desired state. Raises ValueError if the module would reject the parameters."""
    return agree(described(params, gpu_count, host), host)


def ensure_absent(module: AnsibleModule) -> None:
    """Remove this module's files and its blocks in /etc/hosts and /etc/environment, and exit the module.

    Removes metadata.json first, because jobs do not start on a host without it.
    """
    files: list[HostFile] = [HostFile(path, None) for path in reversed(own_paths(module.params))]
    hosts = THIS.read(HOSTS)
    if hosts is not None:
        files.append(HostFile(HOSTS, replace_block(hosts, ""), in_place=True))
    files += [HostFile(path, replace_block(THIS.read(path) or "", ""), in_place=True) for path in TEMPLATES if THIS.exists(path)]
    if THIS.exists(ENVIRONMENT):
        files.append(environment_file(THIS, ""))
    diff = converge(module, files)
    directory = module.params["directory"]
    if not module.check_mode and os.path.isdir(directory) and not os.listdir(directory):
        os.rmdir(directory)
    module.exit_json(changed=bool(diff), diff=diff)


def workers_path(params: dict[str, Any]) -> str:
    return os.path.join(params["directory"], "workers")


def metadata_path(params: dict[str, Any]) -> str:
    return os.path.join(params["directory"], "metadata.json")


def known_gpus(params: dict[str, Any], host: HostFiles) -> int:
    """Return the number of GPUs that this host had when it was configured, or 0."""
    address = next((worker["address"] for worker in params["workers"] if worker["number"] == params["number"]), "")
    return gpus.known_count(host.read(metadata_path(params)), address)
