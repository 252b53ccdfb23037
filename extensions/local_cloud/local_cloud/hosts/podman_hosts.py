"""PodmanHosts: the runtime that makes a container of each instance."""

from __future__ import annotations

import ipaddress
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..host_interface import OPEN, HostSpec
from . import user_namespace
from .file_systems import FileSystems
from .podman import LABEL, TIMEOUT, Podman, PodmanError, as_root

INSTANCE_LABEL = f"{LABEL}.instance"
NETWORK_LABEL = f"{LABEL}.network"
ADDRESS_LABEL = f"{LABEL}.address"
SEED = "/var/lib/cloud/seed/nocloud"
# Where the image's local-cloud-aws.service finds the socket that leads to AWS.
SOCKETS = "/var/lib/local-cloud"
SOCKET = "aws.sock"
SSH_PORT = 22
# One answer of `podman ps` serves all questions of one round.
STATE_AGE = 1.0
BANNER_TIMEOUT = 0.5
STOP_GRACE = 10
REMOVALS = 10
# As much as EC2 keeps of a console.
CONSOLE_SIZE = 64 * 1024
# What a host may do that a plain container may not: mount, change its network, debug, raise priorities, pin memory.
CAPABILITIES = ("SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "SYS_NICE", "IPC_LOCK")


@dataclass(frozen=True)
class Container:
    """What podman says of a host."""

    running: bool
    address: str
    network: str


class PodmanHosts:
    """Hosts of one cloud. They outlive this process and are found again by their labels.

    `cloud` names the cloud on this machine, `folder` keeps the hosts' seeds, `file_systems` what they can mount,
    `environments` are the folders that they see as /opt/<name>. In a user namespace their root is nobody on this machine.
    """

    def __init__(
        self,
        podman: Podman,
        cloud: str,
        image: str,
        folder: Path,
        file_systems: Path,
        environments: Mapping[str, Path],
        in_user_namespace: bool,
    ) -> None:
        self._in_user_namespace = in_user_namespace
        self._podman = podman
        self._cloud = cloud
        self._image = image
        self._folder = folder
        self._file_systems = FileSystems(file_systems, user_namespace.ROOT if in_user_namespace else 0)
        self._environments = environments
        self._networks = threading.Lock()
        self._reading = threading.Lock()
        self._containers: dict[str, Container] = {}
        self._read_at = float("-inf")

    def start(self, spec: HostSpec) -> None:
        """Create the host, or start the one that exists. Raises PodmanError, a RuntimeError."""
        if spec.instance_id not in self._read(fresh=True):
            # Under one lock with the removal of networks, so that none goes away before its first host is there.
            with self._networks:
                self._ensure_network(spec)
                self._create(spec)
        try:
            self._boot(self._name(spec.instance_id))
        finally:
            self._forget()

    def is_booted(self, instance_id: str) -> bool:
        """Whether sshd answers."""
        container = self._read().get(instance_id)
        return container is not None and container.running and _answers(container.address)

    def is_alive(self, instance_id: str) -> bool:
        """Whether the host exists and runs."""
        container = self._read().get(instance_id)
        return container is not None and container.running

    def stop(self, instance_id: str) -> None:
        """Stop the host and keep its disk. Nothing happens when it is gone."""
        if instance_id in self._read(fresh=True):
            self._podman("stop", f"--time={STOP_GRACE}", self._name(instance_id))
        self._forget()

    def remove(self, instance_id: str) -> None:
        """Remove the host and its disk, and the network that it was the last on. Nothing happens when it is gone."""
        container = self._read(fresh=True).get(instance_id)
        if container:
            self._remove_containers(self._name(instance_id))
            self._remove_networks([container.network])
        shutil.rmtree(self._folder / instance_id, ignore_errors=True)
        self._forget()

    def remove_all(self) -> None:
        """Remove every host and network of this cloud, also those that no instance knows of any more."""
        containers, networks = self.labelled()
        if containers:
            self._remove_containers(*containers)
        self._remove_networks(networks)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._forget()

    def _remove_containers(self, *names: str) -> None:
        """Remove containers. The kernel may keep a mount of one that has just ended for a moment: tried again then."""
        for attempt in range(REMOVALS):
            try:
                self._podman("rm", "--force", "--time=0", "--volumes", "--ignore", *names)
                return
            except PodmanError as error:
                if "busy" not in str(error) or attempt == REMOVALS - 1:
                    raise
                time.sleep(1)

    def labelled(self) -> tuple[list[str], list[str]]:
        """Names of the containers and of the networks of this cloud."""
        label = f"--filter=label={LABEL}={self._cloud}"
        containers = self._podman("ps", "--all", label, "--format={{.Names}}").split()
        return containers, self._podman("network", "ls", label, "--format={{.Name}}").split()

    def console_output(self, instance_id: str) -> str:
        """What the host wrote to its console, '' when it is gone."""
        try:
            written = self._podman("logs", self._name(instance_id))
        except PodmanError:
            return ""
        return written.replace("\r", "")[-CONSOLE_SIZE:]

    def socket(self, instance_id: str) -> Path | None:
        """Where the host looks for AWS, None while there is no host."""
        folder = self._sockets(instance_id)
        return folder / SOCKET if folder.is_dir() else None

    def export(self, file_system_id: str, servers: Collection[str], access: Mapping[str, Any] = OPEN) -> None:
        """Let hosts mount the file system from these server names and addresses only; from none it cannot be mounted."""
        self._file_systems.export(file_system_id, servers, access)

    def delete_file_system(self, file_system_id: str) -> None:
        """Delete the file system with all that is on it."""
        self._file_systems.delete(file_system_id)

    def _boot(self, name: str) -> None:
        if self._in_user_namespace and not user_namespace.delegates_by_itself():
            self._podman("init", name)
            user_namespace.delegate_control_group(int(self._podman("inspect", "--format={{.State.Pid}}", name)))
        self._podman("start", name)

    def _sockets(self, instance_id: str) -> Path:
        return self._folder / instance_id / "sockets"

    def _name(self, instance_id: str) -> str:
        return f"{self._cloud}-{instance_id}"

    def _ensure_network(self, spec: HostSpec) -> None:
        name = self._name(spec.network)
        if not self._podman.succeeds("network", "exists", name):
            label = f"--label={LABEL}={self._cloud}"
            self._podman("network", "create", f"--subnet={spec.network_cidr}", "--disable-dns", label, name)

    def _remove_networks(self, names: Iterable[str]) -> None:
        with self._networks:
            in_use = {container.network for container in self._read(fresh=True).values()}
            for name in set(names) - in_use:
                self._remove_bridge(name)
                self._podman.succeeds("network", "rm", name)

    def _remove_bridge(self, network: str) -> None:
        """Remove the bridge of a network without hosts, if it is still there.

        Under load podman may fail to take a container off its network, and goes on as if it had not. Nobody could have the addresses then.
        """
        try:
            bridge = self._podman("network", "inspect", "--format={{.NetworkInterface}}", network).strip()
        except PodmanError:
            return
        if bridge and Path("/sys/class/net", bridge).exists():
            subprocess.run(as_root("ip", "link", "delete", bridge), check=False, capture_output=True, timeout=TIMEOUT)

    def _create(self, spec: HostSpec) -> None:
        labels = {
            LABEL: self._cloud,
            INSTANCE_LABEL: spec.instance_id,
            ADDRESS_LABEL: spec.private_ip,
            NETWORK_LABEL: self._name(spec.network),
        }
        sockets = self._sockets(spec.instance_id)
        _make_readable_folder(sockets)
        volumes = [
            f"{self._write_seed(spec)}:{SEED}:ro",
            f"{sockets}:{SOCKETS}:ro",
            f"{self._file_systems.folder}:{FileSystems.MOUNTED_AT}",
        ]
        volumes += [f"{place}:/opt/{name}:ro" for name, place in self._environments.items()]
        self._podman(
            *("create", "--tty", "--systemd=always", "--no-hosts", "--shm-size=1g"),
            *(f"--name={self._name(spec.instance_id)}", f"--hostname={spec.hostname}"),
            *(f"--network={self._name(spec.network)}", f"--ip={spec.private_ip}", f"--mac-address={_mac_address(spec.private_ip)}"),
            *([f"--publish={spec.public_ip}:{SSH_PORT}:{SSH_PORT}"] if spec.public_ip else []),
            *(f"--cap-add={capability}" for capability in CAPABILITIES),
            *(user_namespace.OPTIONS if self._in_user_namespace else ()),
            *_without_ipv6("default" if self._in_user_namespace else "eth0"),
            *("--security-opt=apparmor=unconfined", "--security-opt=label=disable"),
            *(f"--label={name}={value}" for name, value in labels.items()),
            *(f"--volume={volume}" for volume in volumes),
            self._image,
        )

    def _write_seed(self, spec: HostSpec) -> Path:
        """cloud-init's NoCloud seed: user data as it came, and what EC2's metadata service would say."""
        seed = self._folder / spec.instance_id / "seed"
        _make_readable_folder(seed)
        metadata = {
            "instance-id": spec.instance_id,
            "local-hostname": spec.hostname,
            "public-keys": list(spec.public_keys),
            "availability-zone": spec.zone,
            "region": spec.region,
            "instance-type": spec.instance_type,
            "ami-id": spec.image_id,
            "local-ipv4": spec.private_ip,
            "public-ipv4": spec.public_ip,
        }
        for name, content in (("meta-data", json.dumps(metadata, indent=1).encode()), ("user-data", spec.user_data)):
            (seed / name).write_bytes(content)
            (seed / name).chmod(0o644)
        return seed

    def _read(self, fresh: bool = False) -> dict[str, Container]:
        """This cloud's containers by instance id, at most STATE_AGE old."""
        asked_at = time.monotonic()
        with self._reading:
            if self._read_at < (asked_at if fresh else asked_at - STATE_AGE):
                read_at = time.monotonic()
                self._containers = self._list()
                self._read_at = read_at
            return self._containers

    def _forget(self) -> None:
        with self._reading:
            self._read_at = float("-inf")

    def _list(self) -> dict[str, Container]:
        listed = json.loads(self._podman("ps", "--all", f"--filter=label={LABEL}={self._cloud}", "--format=json") or "[]")
        return {
            labels[INSTANCE_LABEL]: Container(each["State"] == "running", labels[ADDRESS_LABEL], labels[NETWORK_LABEL])
            for each in listed
            if INSTANCE_LABEL in (labels := each["Labels"])
        }


def _make_readable_folder(path: Path) -> None:
    """Make a folder that root of a host, who is another user of this machine, can read. The folder of the cloud keeps others out."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o755)


def _mac_address(address: str) -> str:
    """One that stays with the private address: neighbours remember for half a minute where they saw it."""
    return ":".join(["0a", "ff", *(f"{number:02x}" for number in ipaddress.IPv4Address(address).packed)])


def _answers(address: str) -> bool:
    """Whether an SSH server sends its banner."""
    try:
        with socket.create_connection((address, SSH_PORT), BANNER_TIMEOUT) as connection:
            connection.settimeout(BANNER_TIMEOUT)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _without_ipv6(interface: str) -> list[str]:
    """Hosts of a VPC without IPv6 must not find a link-local address when they look up their own name.

    The interface of a host in a user namespace comes later, by default with what is set for `default`.
    """
    return [f"--sysctl=net.ipv6.conf.{interface}.disable_ipv6=1"] if Path("/proc/sys/net/ipv6").is_dir() else []
