# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes the controller's SSH files for a cluster.

The plugin does not run a module, because starting a module would slow down every playbook run, and most runs change nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import starmap
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._files import replace_file
from ..plugin_utils import ssh_files
from ..plugin_utils.answers import refuse_injected_facts
from ..plugin_utils.inventory_nodes import node_table, refuse_failed_inventory
from ..plugin_utils.ssh_files import KnownHosts

KNOWN_HOSTS, CONFIG, REVOKED_KEYS = "known_hosts", "config", "revoked_keys"

ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "hosts": {"type": "list", "elements": "str", "default": []},
    "jump_host": {"type": "str", "default": ""},
    "region": {"type": "str", "default": ""},
    "account": {"type": "str", "default": ""},
    "authority": {"type": "str", "default": ""},
    "forget_authority": {"type": "bool", "default": False},
    "host_keys": {"type": "list", "elements": "dict", "default": [], "no_log": False},
    "answers": {"type": "dict", "default": {}},
    "revoked": {"type": "list", "elements": "str", "default": []},
    "former": {"type": "list", "elements": "str"},
}


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        refuse_injected_facts()
        refuse_failed_inventory(variables)
        _validation, arguments = self.validate_argument_spec(
            argument_spec=ARGUMENTS, required_if=[("state", "present", ("hosts", "jump_host"))]
        )
        if arguments["state"] == "absent":
            return {**result, "changed": self._delete(Path(arguments["directory"]))}
        hostvars, table = variables["hostvars"], node_table(variables)
        try:
            nodes = ssh_files.read_nodes({name: row(name, hostvars[name], table) for name in arguments["hosts"]})
            check_key_files(nodes)
            directory = Path(arguments["directory"])
            before = ssh_files.parse_known_hosts(_read(directory / KNOWN_HOSTS).decode(errors="replace"))
            known, gone = learn(before, nodes, arguments)
            # Keep the keys of instances that are no longer hosts until AWS has listed the former nodes. Former nodes are then revoked.
            contents = file_contents(directory, nodes, known, gone if arguments["former"] is None else [], arguments)
            diff = list(filter(None, starmap(_write, contents.items())))
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None
        except OSError as error:
            where = arguments["directory"]
            raise AnsibleActionFail(f"SSH files: reading or writing failed: {error}. Check the directory {where}.") from None
        ids = [node.instance_id for node in nodes if node.instance_id not in known.revoked]
        return {
            **result,
            "changed": bool(diff),
            "diff": diff,
            "authority": known.authority,
            "revoked": sorted(known.revoked),
            "unknown": [instance_id for instance_id in ids if not known.keys.get(instance_id)],
            "cached": is_cached(before, ids, known.authorities),
            "gone": gone,
        }

    def _delete(self, directory: Path) -> bool:
        """Delete the files and the directories that are then empty, and return whether there was anything to delete."""
        files = [path for name in (CONFIG, KNOWN_HOSTS, REVOKED_KEYS) if os.path.lexists(path := directory / name)]
        if not self._task.check_mode:
            # ssh removes the socket of the connection to the master only after a while
            for path in (*files, *filter(Path.is_socket, directory.glob("jump-*"))):
                path.unlink(missing_ok=True)
            delete_empty(directory)
        return bool(files)


def delete_empty(directory: Path) -> None:
    """Delete a cluster's directory if it is empty. In the default layout, also delete the parents that are then empty."""
    is_default = directory.parents[2].name == "deeplearning" if len(directory.parents) > 2 else False
    for path in (directory, *list(directory.parents)[: 3 if is_default else 0]):
        try:
            path.rmdir()
        except OSError:
            return


def check_key_files(nodes: list[ssh_files.SshNode]) -> None:
    """Raise ValueError if a private key file does not exist.

    If only the public key file exists, ssh can use a private key from an agent.
    """
    for path in sorted({node.private_key_file for node in nodes if node.private_key_file}):
        if not any(os.path.isfile(os.path.expanduser(path) + end) for end in ("", ".pub")):
            raise ValueError(
                f"private_key_file: '{path}' is not a file on the controller. In the inventory file, specify the path of the key pair's "
                "private key."
            )


def row(name: str, variables: Mapping[str, Any], table: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a node in the form that `read_nodes` expects.

    The values come from `table`, which contains the nodes that the inventory plugin has found. If it is empty, they come from the host's
    variables. The connection variables are those that Ansible itself uses to connect. Data from a host cannot change these variables.
    """
    arguments = f"{variables.get('ansible_ssh_args', '')} {variables.get('ansible_ssh_common_args', '')}"
    own = {
        "instance_id": variables.get("deeplearning_instance_id"),
        "proxy_command": variables.get("deeplearning_proxy_command"),
        "jump": "ProxyCommand" in arguments or "ProxyJump" in arguments,
    }
    if table and name not in table:
        raise ValueError(f"{name!r}: the host is not a node of the cluster. Run the playbook again with --flush-cache.")
    return {
        **(table[name] if table else own),
        "address": variables.get("ansible_host"),
        "user": variables.get("ansible_user"),
        "port": variables.get("ansible_port"),
        "private_key_file": variables.get("ansible_ssh_private_key_file"),
    }


def learn(before: KnownHosts, nodes: list[ssh_files.SshNode], arguments: Mapping[str, Any]) -> tuple[KnownHosts, list[str]]:
    """Return the new known hosts, and the instances that have known keys but are no longer in the cluster.

    Keys that were learned under a different SSH certificate authority are ignored, because they may come from certificates of that
    authority.
    """
    authorities = tuple(ssh_files.bare_key(line) for line in arguments["authority"].splitlines())
    keys = {} if is_rotated(before, authorities) else dict(before.keys)
    for node in nodes:
        if not keys.get(node.instance_id):
            keys[node.instance_id] = ssh_files.answered_key(str(arguments["answers"].get(node.name, "")))
    for instance_id, given in ssh_files.given_keys(arguments["host_keys"]).items():
        if not keys.get(instance_id) or not set(keys[instance_id]) <= set(given):
            keys[instance_id] = given
    ids = {node.instance_id for node in nodes}
    authorities = () if arguments["forget_authority"] else authorities or before.authorities
    return KnownHosts(authorities, revoked_ids(before, ids, arguments), keys), sorted(set(before.keys) - ids)


def revoked_ids(before: KnownHosts, ids: set[str], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the revoked instances. `ids` contains the instances of the cluster. Raises ValueError for anything else than instance IDs."""
    former = {*before.revoked} - ids if arguments["former"] is None else arguments["former"]
    revoked = tuple(sorted({*arguments["revoked"], *former}))
    for instance_id in revoked:
        if not ssh_files.HOST_NAME.fullmatch(instance_id):
            raise ValueError(f"revoked: {instance_id!r} is not an instance ID. Use an ID such as i-0123456789abcdef0.")
    return revoked


def is_rotated(before: KnownHosts, authorities: tuple[str, ...]) -> bool:
    """Return whether the SSH certificate authority in the existing files is no longer valid."""
    return bool(authorities and before.authority and before.authority not in authorities)


def is_cached(before: KnownHosts, instance_ids: list[str], authorities: tuple[str, ...]) -> bool:
    """Return whether the files from an earlier run contain valid keys for at least one of the instances."""
    return not is_rotated(before, authorities) and any(before.keys.get(instance_id) for instance_id in instance_ids)


def file_contents(
    directory: Path, nodes: list[ssh_files.SshNode], known: KnownHosts, gone: list[str], arguments: Mapping[str, Any]
) -> dict[Path, bytes]:
    """Return the file contents by path. `gone` lists instances that have left the cluster but whose keys are kept."""
    place = [part for part in (arguments["region"], arguments["account"]) if part]
    config = ssh_files.config_file(nodes, arguments["jump_host"], str(directory / KNOWN_HOSTS), str(directory / REVOKED_KEYS), place)
    ids = [*(node.instance_id for node in nodes), *gone]
    return {
        directory / REVOKED_KEYS: ssh_files.revoked_keys_file(known, {node.user for node in nodes}),
        directory / KNOWN_HOSTS: ssh_files.known_hosts_file(known, ids).encode(),
        directory / CONFIG: config.encode(),
    }


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _make_private(directory: Path) -> None:
    """Create a directory and its missing parents for this user only. `Path.mkdir` would use the umask for the parents, such as ~/.ssh."""
    if not directory.is_dir():
        _make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def _write(path: Path, content: bytes) -> dict[str, str] | None:
    """Replace the file atomically if its content differs. Return the diff for diff mode, or None if nothing changed."""
    if path.exists() and path.read_bytes() == content:
        return None
    before = _read(path)
    _make_private(path.parent)
    replace_file(path, content)
    if path.name == REVOKED_KEYS:
        before, content = b"", b"(a key revocation list)\n"
    return {"before_header": str(path), "after_header": str(path), "before": before.decode(errors="replace"), "after": content.decode()}
