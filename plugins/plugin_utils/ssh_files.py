# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The contents of the files `known_hosts`, `config` and `revoked_keys`, which the controller uses to connect to a cluster.

All functions are pure.

Every value must match a pattern in full, because a value with a line break could inject a line that applies to any host.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ..module_utils._common.ssh_trust.certificates import HOST_NAME, USER_NAME, bare_key, key_ids, revocation_list

# A host key without a comment, as cloud-init prints it and as known_hosts contains it.
HOST_KEY = re.compile(r"(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/=]{1,2000}")
# A command that ssh passes to a shell: one line of printable characters.
COMMAND = re.compile(r"[\x20-\x7e]{1,2000}")
# A path that can be quoted for ssh, which expands % and ${...} even in quotes.
FILE = re.compile(r'[^\x00-\x1f\x7f"\\$]{1,1000}')
CERTIFICATE_AUTHORITY = "@cert-authority"

# The patterns that the fields of a node must match.
PATTERNS = {
    "name": HOST_NAME,
    "instance_id": HOST_NAME,
    "address": HOST_NAME,
    "user": USER_NAME,
    "private_key_file": FILE,
    "proxy_command": COMMAND,
}
REQUIRED = ("instance_id", "address", "user")


class SshNode(NamedTuple):
    name: str
    instance_id: str
    address: str
    user: str
    port: int | None = None
    private_key_file: str | None = None
    proxy_command: str | None = None
    jump: bool = False


class KnownHosts(NamedTuple):
    """The contents of a `known_hosts` file in this collection's format.

    During a rotation, a second certificate authority is that of the certificates that nodes still have.
    """

    authorities: tuple[str, ...]
    revoked: tuple[str, ...]
    keys: dict[str, tuple[str, ...]]

    @property
    def authority(self) -> str:
        """Return the current certificate authority, or an empty string if there is none."""
        return next(iter(self.authorities), "")


def read_nodes(table: Mapping[str, Mapping[str, Any]]) -> list[SshNode]:
    """Return the nodes in `table`, which maps inventory names to nodes.

    If a value is not valid, raises ValueError with the name of the host.
    """
    return [_node(str(name), row) for name, row in table.items()]


def _node(name: str, row: Mapping[str, Any]) -> SshNode:
    missing = [field for field in REQUIRED if not row.get(field)]
    if missing:
        raise ValueError(
            f"{name!r}: the inventory does not set {', '.join(missing)} for this host. Use the nodes inventory, or set these variables."
        )
    values = {field: str(row[field]) for field in PATTERNS if row.get(field)} | {"name": name}
    for field, value in values.items():
        _check(f"{name!r}: {field} ", value, PATTERNS[field])
    return SshNode(**values, port=_port(name, row.get("port")), jump=bool(row.get("jump")))


def _check(subject: str, value: str, pattern: re.Pattern[str]) -> None:
    if not pattern.fullmatch(value):
        raise ValueError(f"{subject}{value!r} is not allowed in SSH files. Use a value that matches {pattern.pattern}")


def _port(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if not re.fullmatch(r"[0-9]{1,5}", str(value)):
        raise ValueError(f"{name!r}: port {value!r} is not a valid port number. Use 1 to 65535.")
    return int(value)


def parse_known_hosts(text: str) -> KnownHosts:
    """Return the contents of a `known_hosts` file. Lines that are not in this collection's format are ignored."""
    authorities: list[str] = []
    revoked: tuple[str, ...] = ()
    keys: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        first, _space, rest = line.partition(" ")
        if first == CERTIFICATE_AUTHORITY:
            patterns, _space, key = rest.partition(" ")
            authorities += filter(None, [_authority(key)])
            revoked = tuple(pattern[1:] for pattern in patterns.split(",") if pattern.startswith("!") and HOST_NAME.fullmatch(pattern[1:]))
        elif HOST_NAME.fullmatch(first) and HOST_KEY.fullmatch(rest):
            keys[first] = (*keys.get(first, ()), rest)
    return KnownHosts(tuple(authorities), revoked, keys)


def _authority(key: str) -> str:
    try:
        return bare_key(key)
    except ValueError:
        return ""


def answered_key(answer: str) -> tuple[str, ...]:
    """Return the host key that a host printed, or an empty tuple if the output is not a single line with a key."""
    key = _authority(answer)
    return (key,) if key else ()


def given_keys(host_keys: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the keys by instance ID, without comments. Raises ValueError if a key is not a host key."""
    result = {}
    for entry in host_keys:
        instance_id = str(entry["instance_id"])
        keys = tuple(" ".join(str(key).split(" ")[:2]).rstrip() for key in entry["keys"])
        if not HOST_NAME.fullmatch(instance_id) or not all(HOST_KEY.fullmatch(key) for key in keys):
            raise ValueError(
                f"host_keys: the keys of {instance_id!r} are not OpenSSH host keys: {list(keys)!r:.200}. "
                "Specify keys such as ssh-ed25519 AAAA..."
            )
        result[instance_id] = keys
    return result


def known_hosts_file(known: KnownHosts, instance_ids: Collection[str]) -> str:
    """Return the text of `known_hosts`: the keys of these instances, and the certificate authorities for all except revoked instances."""
    patterns = ",".join(["*", *(f"!{instance_id}" for instance_id in sorted(known.revoked))])
    lines = [f"{CERTIFICATE_AUTHORITY} {patterns} {authority}" for authority in known.authorities]
    for instance_id in sorted(set(instance_ids) - set(known.revoked)):
        lines += [f"{instance_id} {key}" for key in known.keys.get(instance_id, ())]
    return "".join(line + "\n" for line in lines)


def revoked_keys_file(known: KnownHosts, users: Collection[str]) -> bytes:
    if not known.authority:
        return revocation_list("", [])
    ids = [key_id for instance_id in known.revoked for user in users for key_id in key_ids(instance_id, user).values()]
    return revocation_list(known.authority, ids)


def config_file(nodes: Sequence[SshNode], jump_host: str, known_hosts: str, revoked_keys: str, place: Sequence[str] = ()) -> str:
    """Return the text of a configuration for `ssh -F`. Raises ValueError if a path cannot be quoted.

    `place` contains the region and the account of the cluster, as far as they are known. Each node also has names with these suffixes,
    which stay unambiguous if clusters in several regions or accounts have the same name.
    """
    suffixes = ["", *accumulate(f".{part}" for part in place)]
    for part in place:
        _check("", part, HOST_NAME)
    _check("jump_host: ", jump_host, HOST_NAME)
    parts = [
        "# Written by the role deeplearning.cluster.ssh_trust. "
        "Use this file with `ssh -F`, or with an Include line at the top of ~/.ssh/config.\n"
    ]
    for node in nodes:
        settings = {
            "HostName": node.address,
            "Port": node.port,
            "User": node.user,
            "IdentityFile": node.private_key_file and quoted(node.private_key_file),
            "HostKeyAlias": node.instance_id,
            "UserKnownHostsFile": quoted(known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
            "RevokedHostKeys": quoted(revoked_keys),
            "StrictHostKeyChecking": "yes",
            "UpdateHostKeys": "no",
            "ForwardAgent": "no",
            "ForwardX11": "no",
            "ProxyCommand": node.proxy_command,
            "ProxyJump": jump_host + suffixes[-1] if node.jump and not node.proxy_command and node.name != jump_host else None,
        }
        names = " ".join(node.name + suffix for suffix in suffixes)
        parts.append(f"\nHost {names}\n" + "".join(f"    {name} {value}\n" for name, value in settings.items() if value is not None))
    return "".join(parts)


def quoted(path: str) -> str:
    """Return a path in quotes for ssh. Raises ValueError if the path cannot be quoted."""
    if not FILE.fullmatch(path):
        raise ValueError(f'{path!r} cannot be quoted in SSH files. Use a path without ", \\, $ or control characters.')
    return '"' + path.replace("%", "%%") + '"'
