"""Plays the sshd of all nodes of a cluster in one process, with the answers that a small cluster has given.

Hundreds of hosts would need more than one machine. Instead, a run of a job on three real hosts is recorded (`recording_ssh.sh`), and the
master and the first worker of this run answer for all nodes, with the name, number, addresses and instance ID of each node. The answers
contain an entry for each node of the large cluster, and the files that `node_configuration_info` inspects are those that the modules would
write. The certificates are real, so the clients verify the hosts as usual. Workers are reached through the master.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import asyncssh
from ansible_collections.deeplearning.cluster.plugins.action import ssh_trust
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import converge as storage
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.ssh_trust import files as ssh_files
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.worker_metadata import converge as metadata
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import snapshot
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.ssh_files import KnownHosts, known_hosts_file

USER, MOUNT = "ubuntu", "/efs"
# What a command asks for: the module that Python reads, or the inspection of the node's files.
MODULE = re.compile(r"ansible_collections\.deeplearning\.cluster\.plugins\.modules\.(\w+)")
INSPECTION, INSPECTS, PYTHON = "inspection", "getent passwd root", "/usr/bin/python3"
# sudo has worked as soon as the command prints this word. Ansible then sends the module.
BECOME = re.compile(r"BECOME-SUCCESS-\w+")
FOLDER = re.compile(r'echo (ansible-tmp-[\w.-]+)="` echo (\S+) `"')
INSTANCE = re.compile(r"HostKeyAlias=(i-\w+)")
# The contents of files in the output of an inspection.
BASE64 = re.compile(r"^[A-Za-z0-9+/]{8,}=*$", re.MULTILINE)
METADATA = {"directory": "/opt/deeplearning", "workers_content": "names", "worker_ip_file": None}
# How an answer counts the nodes of a cluster, each of which has one process.
COUNT = r'("(?:hosts|process_count|processes|nodes)": |--nnodes=)'


class Node(NamedTuple):
    """A node as the inventory describes it. `host` is the address of its sshd."""

    name: str
    number: int
    instance_id: str
    address: str
    host: str

    @property
    def words(self) -> list[str]:
        """Return the words of answers that differ between the nodes, in the same order for each node."""
        rank = self.number - 1
        ranks = [f"rank{rank}", f'"rank": {rank}', f'"ranks": [{rank}]', f"--node-rank={rank}"]
        return [self.name, f'"number": {self.number}', self.instance_id, self.address, *ranks]

    def is_in(self, text: str) -> bool:
        """Return whether a text is about this node."""
        return self.name in text or self.instance_id in text


class Cluster(NamedTuple):
    """The nodes of a cluster in the order of their numbers, and its file system."""

    name: str
    nodes: list[Node]
    file_system: str


def described(listed: str) -> Cluster:
    """Return the cluster in the output of `ansible-inventory --list`."""
    found = json.loads(listed, object_hook=lambda item: item.get("__ansible_unsafe", item))["_meta"]["hostvars"]
    keys = ("deeplearning_number", "deeplearning_instance_id", "deeplearning_private_ip", "ansible_host")
    nodes = [Node(name, *(variables[key] for key in keys)) for name, variables in found.items()]
    first = next(iter(found.values()))
    return Cluster(first["deeplearning_cluster"], sorted(nodes, key=lambda node: node.number), first["deeplearning_file_system_id"])


def replaced(text: str, words: Mapping[str, str]) -> str:
    """Return the text with other words."""
    return re.sub(rf"(?<!\w)({'|'.join(map(re.escape, words))})(?!\w)", lambda found: words[found[1]], text)


def recorded(folder: Path) -> dict[tuple[str, str], list[str]]:
    """Return the answers in a folder that `recording_ssh.sh` has filled, by instance ID and subject."""
    answers: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file in sorted(each for each in folder.iterdir() if not each.suffix):
        command, given = file.read_text(), file.with_suffix(".input")
        key = (INSTANCE.findall(command)[0], subject(command, given.read_text() if given.exists() else ""))
        answers[key].append(BECOME.sub("", file.with_suffix(".output").read_text(), count=1).lstrip("\n"))
    return dict(answers)


def subject(command: str, given: str) -> str:
    """Return what a command asks for: the name of a module, `INSPECTION`, or an empty string for a command of Ansible itself."""
    found = MODULE.search(given)
    return found[1] if found else INSPECTION if INSPECTS in command else ""


class Answers:
    """The answers of all nodes of a cluster, made from those of a small one."""

    def __init__(self, recording: Mapping[tuple[str, str], list[str]], small: Cluster, cluster: Cluster) -> None:
        self.recording, self.small, self.cluster = recording, small, cluster
        self._whole: dict[tuple[str, str, int], tuple[str, list[str]]] = {}
        authority = asyncssh.generate_private_key("ssh-ed25519")
        self._private_key = authority.export_private_key().decode()
        self.authority = _line(authority)
        self.keys = {node.name: asyncssh.generate_private_key("ssh-ed25519") for node in cluster.nodes}
        self.workers = [{"number": node.number, "name": node.name, "address": node.address} for node in cluster.nodes]

    @property
    def known_hosts(self) -> str:
        """Return the file of a controller that has configured the cluster."""
        keys = {node.instance_id: (_line(self.keys[node.name]),) for node in self.cluster.nodes}
        return known_hosts_file(KnownHosts((self.authority,), (), keys), keys)

    def module(self, node: Node, name: str, number: int) -> str:
        """Return the answer of a module that has answered `number` times before. The last answer is repeated."""
        source = self._source(node)
        answers = self.recording[source.instance_id, name]
        key = (source.name, name, min(number, len(answers) - 1))
        if key not in self._whole:
            self._whole[key] = self._for_all(answers[key[2]])
        text, lists = self._whole[key]
        text = replaced(text, dict(zip(source.words, node.words)))
        return re.sub(r'"list (\d+)"', lambda found: lists[int(found[1])], text)

    def inspection(self, node: Node, certificates: Mapping[str, str]) -> str:
        """Return what the inspection of a configured node prints."""
        (text,) = self.recording[self._source(node).instance_id, INSPECTION]
        text = BASE64.sub(partial(_recoded, words={self.small.file_system: self.cluster.file_system}), text)
        own = {"cluster": self.cluster.name, "number": node.number, "workers": self.workers, "user": USER, "efs_mount": MOUNT}
        parameters = {**METADATA, **own}
        trust = {**self.trust(node), **certificates}
        paths = (ssh_files.PATHS, (*storage.PATHS, MOUNT), metadata.paths(parameters))
        parts = text.split(f"{snapshot.SEPARATOR}\n")
        ssh, _storage, others = (snapshot.parse(part, USER, each) for part, each in zip(parts, paths, strict=True))
        files = [*ssh_files.daemon_files(trust), *ssh_files.client_files(trust, ssh), *metadata.described(parameters, 0, others)]
        contents = {file.path: file.content for file in files}
        key = _line(self.keys[node.name])
        contents.update({f"{ssh_files.HOST_KEY}.pub": key, f"{ssh_files.USER_KEY}.pub": f"{key} {USER}@{node.instance_id}"})
        return f"{snapshot.SEPARATOR}\n".join(_printed(part, each, contents) for part, each in zip(parts, paths))

    def certificates(self, node: Node) -> dict[str, str]:
        """Return the certificates that the controller would sign for a node, as arguments of the module `ssh_trust`.

        The key of the host is also that of its login user, which nobody uses.
        """
        unsigned = {kind: {"public_key": _line(self.keys[node.name])} for kind in ("host", "user")}
        return ssh_trust.certificates(unsigned, self.trust(node), self._private_key)

    def trust(self, node: Node) -> dict[str, Any]:
        """Return the arguments of the module `ssh_trust` for a node, as the role determines them."""
        names = [node.instance_id, node.name, f"deeplearning-worker{node.number}", node.address]
        master = ["deeplearning-master"] if node.number == 1 else []
        network = ".".join(node.address.split(".")[:2]) + ".*"
        own = {"principals": [*names, *master], "address_patterns": [network], "source_addresses": [node.address]}
        return {"cluster": self.cluster.name, "user": USER, "authority": self.authority, "revoked": [], **own}

    def _source(self, node: Node) -> Node:
        """Return the node whose answers were recorded for this node."""
        return self.small.nodes[0 if node.number == 1 else 1]

    def _for_all(self, answer: str) -> tuple[str, list[str]]:
        """Return an answer with a word in place of each list of nodes, and these lists, with all nodes of the large cluster."""
        (master, one, other), lists = self.small.nodes, list[str]()
        words = [dict(zip(one.words, node.words)) for node in self.cluster.nodes[1:]]
        answer = replaced(answer, dict(zip(master.words[2:4], self.cluster.nodes[0].words[2:4])))
        answer = re.sub(rf"{COUNT}{len(self.small.nodes)}\b", rf"\g<1>{len(self.cluster.nodes)}", answer)

        def walk(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: walk(each) for name, each in value.items()}
            if not isinstance(value, list):
                return value
            about = {text: [node for node in (one, other) if node.is_in(text)] for text in map(json.dumps, value)}
            if [one] not in about.values() or [other] not in about.values():
                return [walk(each) for each in value]
            texts = [text for text, nodes in about.items() if not nodes]
            texts += [replaced(text, each) for each in words for text, nodes in about.items() if nodes == [one]]
            lists.append(f"[{', '.join(texts)}]")
            return f"list {len(lists) - 1}"

        return json.dumps(walk(json.loads(answer))), lists


def _line(key: asyncssh.SSHKey) -> str:
    return " ".join(key.export_public_key().decode().split()[:2])


def _recoded(found: re.Match[str], words: Mapping[str, str]) -> str:
    text = base64.b64decode(found[0]).decode("utf-8", "surrogateescape")
    return base64.b64encode(replaced(text, words).encode("utf-8", "surrogateescape")).decode()


def _printed(part: str, paths: Sequence[str], contents: Mapping[str, str | None]) -> str:
    """Return the output of an inspection with other contents of files."""
    lines = part.splitlines()
    for index, path in enumerate(paths):
        content = contents.get(path)
        if content is not None:
            lines[3 + 2 * index] = base64.b64encode(content.encode("utf-8", "surrogateescape")).decode()
    return "".join(f"{line}\n" for line in lines)


@dataclass
class Traffic:
    """What the nodes have received: connections, bytes of commands with their input by node, how often each was asked for what, and when
    each was last asked for it."""

    connections: int = 0
    received: Counter[str] = field(default_factory=Counter)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    times: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, node: str, subject: str, size: int) -> None:
        self.received[node] += size
        self.asked[node, subject] += 1
        self.times[node, subject] = time.time()


class Discarding(asyncssh.SFTPServer):
    """Accepts files and forgets them."""

    def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> Any:
        return tempfile.TemporaryFile()


class Server(asyncssh.SSHServer):
    """The sshd of a node. It accepts any key, and forwards connections to the sshd of other nodes."""

    def __init__(self, hosts: SimulatedHosts) -> None:
        self._hosts = hosts

    def connection_made(self, connection: asyncssh.SSHServerConnection) -> None:
        self._connection = connection
        self._hosts.connections.add(connection)
        self._hosts.traffic.connections += 1

    def connection_lost(self, _error: Exception | None) -> None:
        self._hosts.connections.discard(self._connection)

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, _username: str, _key: asyncssh.SSHKey) -> bool:
        return True

    def connection_requested(self, dest_host: str, *_others: Any) -> Any:
        return self._connection.forward_connection("127.0.0.1", self._hosts.ports[dest_host])


class SimulatedHosts:
    """The sshd of all nodes, in a thread within a `with` block. Their processor time is that of this process."""

    def __init__(self, answers: Answers) -> None:
        self.answers, self.ports, self.traffic = answers, dict[str, int](), Traffic()
        self.connections: set[asyncssh.SSHServerConnection] = set()
        self._listeners: list[asyncssh.SSHAcceptor] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> SimulatedHosts:
        self._thread.start()
        try:
            self._run(self._start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def reset(self) -> None:
        """Close all connections and forget what they have sent. A job with the same name is then a new one."""
        self._run(self._disconnect())

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    async def _start(self) -> None:
        for node in self.answers.cluster.nodes:
            certificates = self.answers.certificates(node)
            certificate = asyncssh.import_certificate(certificates["host_certificate"])
            listener = await asyncssh.listen(
                *((node.host, 22) if node.number == 1 else ("127.0.0.1", 0)),
                server_factory=partial(Server, self),
                server_host_keys=[(self.answers.keys[node.name], certificate)],
                process_factory=partial(self._answer, node, self.answers.inspection(node, certificates)),
                sftp_factory=Discarding,
            )
            self.ports[node.host] = listener.get_port()
            self._listeners.append(listener)

    async def _disconnect(self) -> None:
        for connection in list(self.connections):
            connection.close()
        await asyncio.gather(*(connection.wait_closed() for connection in list(self.connections)))
        self.traffic = Traffic()

    async def _stop(self) -> None:
        for listener in self._listeners:
            listener.close()
        await self._disconnect()

    async def _answer(self, node: Node, inspected: str, process: asyncssh.SSHServerProcess[str]) -> None:
        command = process.command or ""
        if found := BECOME.search(command):
            process.stdout.write(f"{found[0]}\n")
        given = await process.stdin.read() if PYTHON in command else ""
        asked = subject(command, given)
        status, output = 0, ""
        if asked == INSPECTION:
            output = inspected
        elif asked:
            output = self.answers.module(node, asked, self.traffic.asked[node.name, asked])
        else:
            status, output = shell(command)
        process.stdout.write(output)
        process.exit(status)
        self.traffic.add(node.name, asked, len(command) + len(given))


def shell(command: str) -> tuple[int, str]:
    """Return the exit status and the output of a command of Ansible itself. No file exists, and all can be created."""
    if found := FOLDER.search(command):
        return 0, f"{found[1]}={found[2]}\n"
    return int("test -e" in command), f"/home/{USER}\n" if f"echo ~{USER}" in command else ""
