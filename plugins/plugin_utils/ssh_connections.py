# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The inventory variables with which Ansible connects to the nodes of a cluster. Performs no I/O."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..module_utils._aws.node_group.inventory import Node
from ..module_utils._aws.node_names import MASTER

JUMP = "jump"
DIRECT = "direct"
SESSION_MANAGER = "session_manager"

# These settings take precedence over Ansible's settings and over the operator's own SSH configuration. If a host fails, the connection ends
# within a minute, so that tasks do not wait for it forever.
OPTIONS = {
    "StrictHostKeyChecking": "yes",
    "GlobalKnownHostsFile": "/dev/null",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "UpdateHostKeys": "no",
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "4",
}
# sshd drops connections at random if more than ten clients are logging in at the same time (MaxStartups). All connections to workers
# therefore share one connection to the master. $0 is its socket, $1 the worker, and the other arguments are those of ssh. The process that
# creates the lock opens the connection, and the others wait for it. If this fails, each process opens its own connection. They wait for
# about six seconds, because Ansible's ssh ends this script after ten. The lock is a link to the number of the process, because links are
# created in one step with their contents. Without this process, the lock is void.
JUMP_SCRIPT = "; ".join(
    (
        'worker=$1; shift; lock="$0.lock"; n=0; opening=',
        'free() { kill "$opening"; rm -f "$lock"; } 2>/dev/null',
        'while [ "$n" -lt 30 ]',
        'do if [ "$opening" ]; then kill -0 "$opening" 2>/dev/null || break',
        'elif [ -S "$0" ]; then break',
        'elif ln -s "$$" "$lock" 2>/dev/null; then trap "free; exit 255" HUP INT TERM; ssh -n "$@" true >/dev/null 2>&1 & opening=$!',
        'elif holder=$(readlink "$lock"); then kill -0 "$holder" 2>/dev/null || rm -f "$lock"',
        'elif [ ! -w "$(dirname "$0")" ]; then break; fi',
        "sleep 0.2; n=$((n+1)); done",
        '[ ! "$opening" ] || free',
        'trap - HUP INT TERM; exec ssh -W "$worker" "$@"',
    )
)
# How long the shared connection stays open after its last use, in seconds. Ansible's own shared connections stay open as long.
PERSIST_SECONDS = 60
NOT_SHARED = ["-o", "ControlPath=none"]
# An option of ssh that names the socket of shared connections, as one word.
CONTROL_PATH = re.compile(r"-S|-o\s*ControlPath\b", re.IGNORECASE)
# The maximum length of a socket's path in bytes, on Linux and macOS, without the suffix that ssh adds while it creates the socket.
SOCKET_PATH = 103 - len(".0123456789abcdef")


@dataclass(frozen=True)
class SshConnections:
    """How SSH reaches the nodes of a cluster. `path` is one of the choices of the inventory's option `connection_path`.

    `region` and `profile` are those that the AWS CLI needs for sessions. `ssh_args` is the operator's setting `ssh_args`.
    """

    path: str
    user: str
    private_key_file: str | None
    ssh_directory: str
    master: Node | None
    region: str
    profile: str | None = None
    ssh_args: str = ""

    def variables(self, node: Node) -> dict[str, Any]:
        session = self._session(node) if self.path == SESSION_MANAGER else None
        alias = f"{self._arguments} -o {shlex.quote(f'HostKeyAlias={node.instance_id}')}"
        proxy = shlex.join(["-o", f"ProxyCommand={session}"]) if session else self._jump if node is not self.master else ""
        return {
            "ansible_host": (node.public_ip if self.path == JUMP and node.group == MASTER else None) or node.private_ip,
            "ansible_user": self.user,
            # ssh uses the first value of an option. Ansible puts these arguments first, before its own and before those of the operator.
            "ansible_ssh_args": " ".join(filter(None, (alias, proxy, self._operator_arguments))),
            # Ansible's default depends only on the address, which nodes of different clusters can share. A connection that a previous run
            # left open would then lead to a node of the other cluster. The name is short, because paths of sockets are limited.
            "ansible_control_path": f"%(directory)s/{node.instance_id[-10:]}-%%r",
            **({"deeplearning_proxy_command": session} if session else {}),
            **({"ansible_ssh_private_key_file": self.private_key_file} if self.private_key_file else {}),
        }

    @cached_property
    def _arguments(self) -> str:
        """Return the arguments that all nodes have in common, quoted for a shell."""
        # The quotes are for ssh, which splits this list of files at spaces
        options = {"UserKnownHostsFile": f'"{os.path.join(self.ssh_directory, "known_hosts")}"', **OPTIONS}
        return shlex.join([word for name, value in options.items() for word in ("-o", f"{name}={value}")])

    @cached_property
    def _jump(self) -> str:
        """Return the argument with the command that connects to a worker through the master, or an empty string if SSH needs none."""
        if self.path != JUMP or self.master is None:
            return ""
        address, socket = self.master.public_ip or self.master.private_ip, self._socket
        command = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *shlex.split(self._arguments)]
        command += ["-o", f"HostKeyAlias={self.master.instance_id}", "-l", self.user]
        command += ["-i", self.private_key_file] if self.private_key_file else []
        if socket:
            shared = {"ControlMaster": "auto", "ControlPath": f'"{socket}"', "ControlPersist": PERSIST_SECONDS}
            command += [word for name, value in shared.items() for word in ("-o", f"{name}={value}")]
        start = ["sh", "-c", JUMP_SCRIPT, socket, "%h:%p"] if socket else ["ssh", "-W", "%h:%p", *NOT_SHARED]
        return shlex.join(["-o", f"ProxyCommand={shlex.join([*start, *command, address])}"])

    @cached_property
    def _operator_arguments(self) -> str:
        """Return the operator's own arguments, quoted for a shell.

        A socket that is named after an address could lead to a former node, whose host key would not be checked again.
        """
        words, kept = iter(shlex.split(self.ssh_args)), []
        for word in words:
            option = [word, *([next(words, "")] if word in ("-o", "-S") else [])]
            kept += [] if CONTROL_PATH.match(" ".join(option)) else option
        # Ansible names the socket only if connections persist. Otherwise, ssh would use the socket in the operator's SSH configuration.
        is_shared = any("controlpersist" in word.lower() for word in kept)
        return shlex.join([*([] if is_shared else NOT_SHARED), *kept])

    @property
    def _socket(self) -> str | None:
        """Return the path of the shared connection's socket, or None if the path would be too long. A new master gets a new socket."""
        master = self.master
        identity = (self.ssh_directory, self.user, self.private_key_file, master and (master.instance_id, master.public_ip))
        name = f"jump-{hashlib.sha256(repr(identity).encode()).hexdigest()[:10]}"
        candidates = [os.path.join(folder, name) for folder in (self.ssh_directory, os.path.expanduser("~/.ssh"))]
        return next((path for path in candidates if len(os.fsencode(path)) <= SOCKET_PATH), None)

    def _session(self, node: Node) -> str:
        """Return the proxy command for SSH connections to a node through AWS Systems Manager."""
        session = ["aws", "ssm", "start-session", "--target", node.instance_id, "--document-name", "AWS-StartSSHSession"]
        session += ["--parameters", "portNumber=%p", "--region", self.region]
        return shlex.join([*session, *(["--profile", self.profile] if self.profile else [])])
