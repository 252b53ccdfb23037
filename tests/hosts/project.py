"""A generated inventory of booted hosts, for tests of the host roles."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import ansible_commands
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.console import host_keys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from local_cloud.testing import BareHost, wait_until

COLLECTION = Path(__file__).resolve().parents[2]
CLUSTER = "trust"
REGION = "us-east-1"
FILE_SYSTEM = "fs-0123456789abcdef0"


class Project:
    """A generated inventory of booted hosts, a certificate authority, and ansible-playbook."""

    def __init__(self, folder: Path, runtime: Any, hosts: list[BareHost]) -> None:
        self.folder, self.runtime, self.hosts = folder, runtime, hosts
        self.directory = folder / "ssh"
        key = Ed25519PrivateKey.generate()
        self.private_key = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
        self.public_key = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        self.consoles = {host.name: self.console_keys(host) for host in hosts}

    def console_keys(self, host: BareHost) -> list[str]:
        wait_until(lambda: bool(host_keys(self.runtime.console_output(host.name))))
        return host_keys(self.runtime.console_output(host.name))

    def name(self, number: int) -> str:
        return f"{CLUSTER}-master" if number == 1 else f"{CLUSTER}-worker{number}"

    def write(self, count: int, **variables: Any) -> Path:
        """Write an inventory of the first `count` hosts with the variables that the inventory plugin sets. Return its path."""
        members = {self.name(number): self.variables(number) for number in range(1, count + 1)}
        common = {
            "ansible_user": self.hosts[0].user,
            "ansible_ssh_private_key_file": str(self.hosts[0].key_file),
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_retries": 5,
            "deeplearning_cluster": CLUSTER,
            "deeplearning_region": REGION,
            "deeplearning_ssh_directory": str(self.directory),
            "deeplearning_file_system_id": FILE_SYSTEM,
            "ssh_trust_authority_public_key": self.public_key,
            "ssh_trust_authority_private_key": self.private_key,
            "ssh_trust_host_keys": [{"instance_id": name, "keys": keys} for name, keys in self.consoles.items()],
            **variables,
        }
        path = self.folder / "inventory.yml"
        path.write_text(yaml.safe_dump({"trainers": {"hosts": members, "vars": common}}))
        return path

    def variables(self, number: int) -> dict[str, Any]:
        host, master = self.hosts[number - 1], self.hosts[0]
        arguments = self.host_key_arguments(host)
        if number > 1:
            jump = ["ssh", "-W", "%h:%p", "-i", str(host.key_file), *self.host_key_arguments(master), "-l", master.user, master.private_ip]
            arguments = [*arguments, "-o", f"ProxyCommand={shlex.join(jump)}"]
        return {
            "ansible_host": host.private_ip,
            "ansible_ssh_common_args": shlex.join(arguments),
            "deeplearning_number": number,
            "deeplearning_hostname": self.name(number),
            "deeplearning_private_ip": host.private_ip,
            "deeplearning_instance_id": host.name,
        }

    def host_key_arguments(self, host: BareHost) -> list[str]:
        known_hosts = self.directory / "known_hosts"
        return ["-oStrictHostKeyChecking=yes", f"-oUserKnownHostsFile={known_hosts}", f"-oHostKeyAlias={host.name}"]

    def play(self, *roles: str, arguments: tuple[str, ...] = (), check: bool = True) -> subprocess.CompletedProcess[str]:
        play = {"hosts": "trainers", "gather_facts": False, "roles": [f"deeplearning.cluster.{role}" for role in roles]}
        book = self.folder / "play.yml"
        book.write_text(yaml.safe_dump([play]))
        return self.run(str(book), arguments, check=check)

    def run(self, book: str, arguments: tuple[str, ...] = (), check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(self.folder / "none.cfg"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.directory / "control"),
            "ANSIBLE_NOCOLOR": "true",
        }
        (self.folder / "none.cfg").touch()
        command = ["ansible-playbook", "-i", str(self.folder / "inventory.yml"), book, *arguments]
        done = ansible_commands.run(command, environment, self.folder)
        assert self.private_key.splitlines()[3] not in done.stdout + done.stderr
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done


def changes(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Return the number of changed tasks by host, from the recap."""
    recap = done.stdout.split("PLAY RECAP", 1)[1].splitlines()[1:]
    return {line.split(":")[0].strip(): int(line.split("changed=")[1].split()[0]) for line in recap if "changed=" in line}
