"""Runs the host of each instance as a podman container."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..host_interface import OPEN, HostSpec
from . import fuse, user_namespace
from .file_systems import FileSystems
from .podman import LABEL, TIMEOUT, Podman, PodmanError, as_root

INSTANCE_LABEL = f"{LABEL}.instance"
NETWORK_LABEL = f"{LABEL}.network"
ADDRESS_LABEL = f"{LABEL}.address"
SEED = "/var/lib/cloud/seed/nocloud"
# The folder in which the image's local-cloud-aws.service finds the socket of the AWS API.
SOCKETS = "/var/lib/local-cloud"
SOCKET = "aws.sock"
SSH_PORT = 22
# Seconds for which the output of `podman ps` is reused although a host has ended, so that one call serves all hosts that are polled in one
# iteration.
STATE_AGE = 1.0
BANNER_TIMEOUT = 3.0
STOP_GRACE = 10
REMOVALS = 10
# Seconds after the start of a host for which its console output is part of the output at boot.
BOOT_TIME = 300
# The text that systemd prints before a container ends because of a reboot, and the number of last lines that can contain it.
REBOOTING, LAST_LINES = "Rebooting.", 3
# Capabilities in addition to podman's defaults: mount, change the network, debug, raise priorities, and lock memory.
CAPABILITIES = ("SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "SYS_NICE", "IPC_LOCK")


@dataclass(frozen=True)
class Container:
    """The state of a host's container."""

    running: bool
    address: str
    network: str
    mounts: tuple[str, ...] = ()
    pid: int = 0


class PodmanHosts:
    """The hosts of one local cloud. Hosts outlive this process, and a new process finds them by their labels.

    `cloud` is the label of the local cloud on this machine. `folder` contains the cloud-init seeds of hosts, and `file_systems` contains
    the file systems. `environments` are the folders that hosts see as /opt/<name>. `files` maps other files and folders of this machine to
    their paths on hosts.
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
        with_fuse: bool = False,
        files: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._in_user_namespace = in_user_namespace
        self._with_fuse = with_fuse
        self._podman = podman
        self._cloud = cloud
        self._image = image
        self._folder = folder
        self._file_systems = FileSystems(file_systems, user_namespace.ROOT if in_user_namespace else 0)
        self._environments = environments
        self._files = files
        self._networks = threading.Lock()
        self._reading = threading.Lock()
        self._containers: dict[str, Container] = {}
        self._read_at = float("-inf")

    def start(self, spec: HostSpec) -> None:
        """Create the host, or start the existing one. Raises `PodmanError`."""
        existing = self._read(fresh=True).get(spec.instance_id)
        if existing is None:
            # Network removal uses the same lock, so that no network is removed before its first host exists.
            with self._networks:
                if self._in_user_namespace:
                    user_namespace.share_network_namespaces()
                self._ensure_network(spec)
                self._create(spec)
        elif not existing.running:
            self._wait_for_monitor(self._name(spec.instance_id))
        try:
            self._boot(self._name(spec.instance_id))
        finally:
            self._forget()

    def is_booted(self, instance_id: str) -> bool:
        """Return whether sshd accepts connections."""
        container = self._read().get(instance_id)
        return container is not None and container.running and _answers(container.address)

    def is_alive(self, instance_id: str) -> bool:
        """Return whether the host exists and is running."""
        container = self._read().get(instance_id)
        return container is not None and container.running

    def is_rebooting(self, instance_id: str) -> bool:
        """Return whether the host has ended because a program on it has requested a reboot.

        A container ends in the same way after a reboot and after a shutdown, but systemd prints what was requested.
        """
        return not self.is_alive(instance_id) and REBOOTING in self.console_output(instance_id).replace("\r", "").splitlines()[-LAST_LINES:]

    def modified(self, instance_id: str, path: str) -> float | None:
        """Return when a file on the host was modified, in seconds since the epoch, or None if this is unknown.

        Uses the last list of containers, however old. Only root can see the files of containers.
        """
        container = self._containers.get(instance_id)
        if container is None or not container.running:
            return None
        try:
            return os.lstat(f"/proc/{container.pid}/root{path}").st_mtime
        except OSError:
            return None

    def without(self, environments: Collection[str]) -> set[str]:
        """Return the IDs of instances whose hosts were created without at least one of these environments."""
        needed = {f"/opt/{name}" for name in environments}
        return {instance_id for instance_id, container in self._read(fresh=True).items() if not needed <= set(container.mounts)}

    def stop(self, instance_id: str) -> None:
        """Stop the host and keep its disk. An unknown host is ignored."""
        if instance_id in self._read(fresh=True):
            self._podman("stop", f"--time={STOP_GRACE}", self._name(instance_id))
        self._forget()

    def remove(self, instance_id: str) -> None:
        """Remove the host and its disk, and its network if no other host uses it. An unknown host is ignored."""
        container = self._read(fresh=True).get(instance_id)
        if container:
            self._remove_containers(self._name(instance_id))
            self._remove_networks([container.network])
        shutil.rmtree(self._folder / instance_id, ignore_errors=True)
        self._forget()

    def remove_all(self) -> None:
        """Remove all hosts and networks of this local cloud, including hosts without an instance."""
        containers, networks = self.labelled()
        if containers:
            self._remove_containers(*containers)
        self._remove_networks(networks)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._forget()

    def _remove_containers(self, *names: str) -> None:
        """Remove containers. Retries while the kernel still holds a mount of a container that has just exited."""
        for attempt in range(REMOVALS):
            try:
                self._podman("rm", "--force", "--time=0", "--volumes", "--ignore", *names)
                return
            except PodmanError as error:
                if "busy" not in str(error) or attempt == REMOVALS - 1:
                    raise
                time.sleep(1)

    def labelled(self) -> tuple[list[str], list[str]]:
        """Return the names of the containers and networks of this local cloud."""
        label = f"--filter=label={LABEL}={self._cloud}"
        containers = self._podman("ps", "--all", label, "--format={{.Names}}").split()
        return containers, self._podman("network", "ls", label, "--format={{.Name}}").split()

    def console_output(self, instance_id: str, *, latest: bool = True) -> str:
        """Return the console output of the host, or '' for an unknown host.

        If `latest` is false, return what the host had printed `BOOT_TIME` after its last start. The result is empty until the host has
        booted.
        """
        name = self._name(instance_id)
        try:
            if latest:
                return self._podman("logs", name)
            started = int(self._podman("inspect", "--format={{.State.StartedAt.Unix}}", name))
            return self._podman("logs", f"--until={started + BOOT_TIME}", name) if self.is_booted(instance_id) else ""
        except PodmanError:
            return ""

    def socket(self, instance_id: str) -> Path | None:
        """Return the path of the host's socket, or None if the host does not exist."""
        folder = self._sockets(instance_id)
        return folder / SOCKET if folder.is_dir() else None

    def export(self, file_system_id: str, servers: Collection[str], access: Mapping[str, Any] = OPEN) -> None:
        """Let hosts mount the file system only from these servers. If `servers` is empty, the file system cannot be mounted."""
        self._file_systems.export(file_system_id, servers, access)

    def delete_file_system(self, file_system_id: str) -> None:
        """Delete the file system and its data."""
        self._file_systems.delete(file_system_id)

    def _boot(self, name: str) -> None:
        if self._in_user_namespace and not user_namespace.delegates_by_itself():
            self._podman("init", name)
            user_namespace.delegate_control_group(int(self._podman("inspect", "--format={{.State.Pid}}", name)))
        self._podman("start", name)

    def _wait_for_monitor(self, name: str) -> None:
        """Wait until podman's monitor of the host's previous run has ended. Raises `PodmanError`.

        After a host has stopped, its monitor frees the host's resources. A monitor that frees the resources late also stops a host that is
        about to start.
        """
        deadline = time.monotonic() + TIMEOUT
        while _is_monitored(name):
            if time.monotonic() > deadline:
                raise PodmanError(f"Timed out after {TIMEOUT:.0f} s waiting for podman to free the resources of the container {name}.")
            time.sleep(0.1)

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
        """Remove the bridge of a network that has no hosts, if the bridge still exists.

        Under load, podman may silently fail to detach a container from its network. The container's addresses would then stay in use.
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
        volumes += [f"{self._empty_file()}:/usr/local/sbin/{name}:ro" for name in spec.lacks]
        volumes += [f"{place}:/opt/{name}:ro" for name, place in self._environments.items()]
        volumes += [f"{place}:{path}:ro" for place, path in self._files.items()]
        self._podman(
            *("create", "--tty", "--systemd=always", "--no-hosts", "--shm-size=1g"),
            *(f"--name={self._name(spec.instance_id)}", f"--hostname={spec.hostname}"),
            *(f"--network={self._name(spec.network)}", f"--ip={spec.private_ip}", f"--mac-address={_mac_address(spec.private_ip)}"),
            *([f"--publish={spec.public_ip}:{SSH_PORT}:{SSH_PORT}"] if spec.public_ip else []),
            *(f"--cap-add={capability}" for capability in CAPABILITIES),
            *(user_namespace.OPTIONS if self._in_user_namespace else ()),
            *_without_ipv6("default" if self._in_user_namespace else "eth0"),
            *(fuse.options(self._folder) if self._with_fuse else ()),
            *("--security-opt=apparmor=unconfined", "--security-opt=label=disable"),
            *(f"--label={name}={value}" for name, value in labels.items()),
            *(f"--volume={volume}" for volume in volumes),
            self._image,
        )

    def _empty_file(self) -> Path:
        """Return the path of an empty file that is not executable. Such a file in place of a program hides the program."""
        path = self._folder / "empty"
        path.touch(mode=0o644)
        return path

    def _write_seed(self, spec: HostSpec) -> Path:
        """Write the NoCloud seed of cloud-init: user data, and the same metadata as on EC2. Return the folder that contains the seed."""
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
        """Return this local cloud's containers by instance ID, from a list that is at most STATE_AGE seconds old or still correct."""
        asked_at = time.monotonic()
        with self._reading:
            if self._read_at < (asked_at if fresh else asked_at - STATE_AGE) and (fresh or not self._all_run()):
                read_at = time.monotonic()
                self._containers = self._list()
                self._read_at = read_at
            return self._containers

    def _all_run(self) -> bool:
        """Return whether all containers of the last list still run. The kernel says so at much less cost than podman."""
        known = self._read_at > float("-inf")
        return known and all(each.running and Path("/proc", str(each.pid)).exists() for each in self._containers.values())

    def _forget(self) -> None:
        with self._reading:
            self._read_at = float("-inf")

    def _list(self) -> dict[str, Container]:
        listed = json.loads(self._podman("ps", "--all", f"--filter=label={LABEL}={self._cloud}", "--format=json") or "[]")
        return {
            labels[INSTANCE_LABEL]: Container(
                each["State"] == "running",
                labels[ADDRESS_LABEL],
                labels[NETWORK_LABEL],
                tuple(each.get("Mounts") or ()),
                each.get("Pid") or 0,
            )
            for each in listed
            if INSTANCE_LABEL in (labels := each["Labels"])
        }


def _make_readable_folder(path: Path) -> None:
    """Create a folder that root on a host can read, although this root is a different user on this machine.

    The local cloud's home folder excludes other users.
    """
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o755)


def _mac_address(address: str) -> str:
    """Return a MAC address that depends only on the private address, because neighbors cache MAC addresses for half a minute."""
    return ":".join(["0a", "ff", *(f"{number:02x}" for number in ipaddress.IPv4Address(address).packed)])


def _is_monitored(name: str) -> bool:
    """Return whether podman's monitor of the container is running."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            program, *arguments = path.read_text(errors="replace").split("\0")
        except OSError:
            continue
        if Path(program).name == "conmon" and name in arguments:
            return True
    return False


def _answers(address: str) -> bool:
    """Return whether an SSH server sends its banner."""
    try:
        with socket.create_connection((address, SSH_PORT), BANNER_TIMEOUT) as connection:
            connection.settimeout(BANNER_TIMEOUT)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _without_ipv6(interface: str) -> list[str]:
    """Return options that disable IPv6, so that a host's own name does not resolve to a link-local address.

    In a user namespace, the host's interface is created later, with the settings of `default`.
    """
    return [f"--sysctl=net.ipv6.conf.{interface}.disable_ipv6=1"] if Path("/proc/sys/net/ipv6").is_dir() else []
