"""Hosts with systemd and an SSH server that share the GPUs of this machine, without containers.

Each host has namespaces of its own, a network interface, and an overlay over this machine's file system, so it has this machine's software
and drivers. NCCL treats the hosts as different machines, because their names differ, so a job on two hosts uses NCCL's network transport
even if both hosts have the same GPU. Needs root, systemd, openssh-server, sudo and iproute2.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

USER = "ubuntu"
# Units that every machine starts, but that are for hardware or would change this machine.
MASKED = (
    *("systemd-udevd.service", "systemd-udevd-kernel.socket", "systemd-udevd-control.socket", "systemd-udev-trigger.service"),
    *("systemd-modules-load.service", "systemd-sysctl.service", "systemd-logind.service", "systemd-binfmt.service"),
    *("sys-kernel-config.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-fs-fuse-connections.mount"),
    *("dev-hugepages.mount", "dev-mqueue.mount", "proc-sys-fs-binfmt_misc.automount", "tmp.mount", "getty.target"),
)
# Runs in the host's namespaces, in the directory that contains the overlay `root`. The arguments are the host's name and the shared folder.
INIT = r"""
set -e
mount --make-rprivate /
cd root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
for device in null zero full random urandom tty kmsg fuse; do [ ! -e "/dev/$device" ] || cp -a "/dev/$device" dev/; done
for device in /dev/nvidia*; do cp -a "$device" dev/; done
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
touch dev/console
mount --bind dev/null dev/console
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p efs
mount --bind "$2" efs
# Drivers and other software can be mounted.
findmnt --raw --noheadings --output TARGET | grep -E '^/(usr|opt)/' | while read -r place; do mount --bind "$place" ".$place"; done
hostname "$1"
mkdir -p .former
pivot_root . .former
umount --lazy /.former
ldconfig
exec env --ignore-environment container=gpu-host PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
"""


class Host(NamedTuple):
    """A running host. The only child of `process` is the host's systemd."""

    name: str
    address: str
    key: Path
    process: subprocess.Popen

    def ssh(self, command: str, check: bool = True) -> str:
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=2", "BatchMode=yes")
        done = subprocess.run(
            ["ssh", "-i", str(self.key), *(part for option in options for part in ("-o", option)), f"{USER}@{self.address}", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=check,
        )
        return done.stdout

    def kill(self) -> None:
        """End the host at once, as if its power had failed."""
        if self.process.poll() is None:
            for child in _children(self.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            self.process.wait(30)


@contextlib.contextmanager
def gpu_hosts(folder: Path, count: int, index: int = 0) -> Iterator[list[Host]]:
    """Start `count` hosts that share the directory /efs, and end them when the context ends.

    Hosts that run at the same time and were started with different values of `index` have different networks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key, shared = folder / "key", folder / "efs"
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    shared.mkdir()
    shared.chmod(0o777)
    with contextlib.ExitStack() as undo:
        _run("ip", "link", "add", f"gpu{index}", "type", "bridge")
        undo.callback(_try, "ip", "link", "delete", f"gpu{index}")
        _run("ip", "address", "add", f"10.78.{index}.1/24", "dev", f"gpu{index}")
        _run("ip", "link", "set", f"gpu{index}", "up")
        hosts = [_start(folder, number, index, key, shared, undo) for number in range(1, count + 1)]
        for host in hosts:
            _wait_for(host)
        yield hosts


def _start(folder: Path, number: int, index: int, key: Path, shared: Path, undo: contextlib.ExitStack) -> Host:
    name, address, space = f"gpu-{number}", f"10.78.{index}.{10 + number}", f"gpu{index}-{number}"
    place, group = folder / name, Path("/sys/fs/cgroup") / space
    upper, root = place / "upper", place / "root"
    place.mkdir()
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(place))
    undo.callback(_try, "umount", "--lazy", str(place))
    for directory in (upper, place / "work", root):
        directory.mkdir(parents=True)
    _write_files(upper, name, key)
    overlay = f"lowerdir=/,upperdir={upper},workdir={place / 'work'}"
    _run("mount", "-t", "overlay", "-o", overlay, "overlay", str(root))
    undo.callback(_try, "umount", "--lazy", str(root))
    own = f"/home/{USER} /home/{USER}/.ssh /home/{USER}/.ssh/authorized_keys"
    _run("chroot", str(root), "sh", "-c", f"id {USER} >/dev/null 2>&1 || useradd --create-home --shell /bin/bash {USER}")
    _run("chroot", str(root), "sh", "-c", f"chown {USER}: {own}; usermod --password '*' {USER}; ssh-keygen -A >/dev/null")
    _run("ip", "netns", "add", space)
    undo.callback(_try, "ip", "netns", "delete", space)
    _run("ip", "link", "add", f"v{space}", "type", "veth", "peer", "name", "eth0", "netns", space)
    _run("ip", "link", "set", f"v{space}", "master", f"gpu{index}", "up")
    for command in (f"address add {address}/24 dev eth0", "link set eth0 up", "link set lo up"):
        _run("ip", "-netns", space, *command.split())
    group.mkdir(exist_ok=True)
    undo.callback(_try, "find", str(group), "-depth", "-type", "d", "-delete")
    # The process moves into the control group before it gets a namespace in which this control group is the root.
    enter = f'echo $$ >{group}/cgroup.procs && exec ip netns exec {space} unshare -m -p -f -u -i -C --kill-child sh -c "$0" init "$@"'
    with (place / "console").open("w") as console:
        process = subprocess.Popen(
            ["sh", "-c", enter, INIT, name, str(shared)],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    host = Host(name, address, key, process)
    undo.callback(host.kill)
    return host


def _write_files(upper: Path, name: str, key: Path) -> None:
    libraries = "".join(f"{path}\n" for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path)
    files = {
        "etc/hostname": f"{name}\n",
        "etc/machine-id": "",
        "etc/hosts": "127.0.0.1 localhost\n",
        "etc/fstab": "",
        "etc/resolv.conf": "",
        "etc/ld.so.conf.d/gpu-host.conf": libraries,
        f"etc/sudoers.d/90-{USER}": f"{USER} ALL=(ALL) NOPASSWD:ALL\n",
        f"home/{USER}/.ssh/authorized_keys": key.with_suffix(".pub").read_text(),
        # journald reads no messages of the kernel in containers.
        "etc/systemd/journald.conf.d/kernel.conf": "[Journal]\nReadKMsg=yes\nStorage=volatile\n",
        "etc/ssh/sshd_config.d/gpu-host.conf": "UseDNS no\n",
    }
    for path, text in files.items():
        (upper / path).parent.mkdir(parents=True, exist_ok=True)
        (upper / path).write_text(text)
    (upper / f"etc/sudoers.d/90-{USER}").chmod(0o440)
    (upper / f"home/{USER}/.ssh").chmod(0o700)
    units = upper / "etc/systemd/system"
    (units / "multi-user.target.wants").mkdir(parents=True)
    os.setxattr(units, "trusted.overlay.opaque", b"y")  # hides the units that this machine starts
    for unit in MASKED:
        (units / unit).symlink_to("/dev/null")
    (units / "default.target").symlink_to("/lib/systemd/system/multi-user.target")
    (units / "multi-user.target.wants/ssh.service").symlink_to("/lib/systemd/system/ssh.service")
    (upper / "usr/local/bin").mkdir(parents=True)
    (upper / "usr/local/bin/nvidia-smi").symlink_to(shutil.which("nvidia-smi") or "nvidia-smi")


def _wait_for(host: Host, seconds: float = 60) -> None:
    end, said = time.monotonic() + seconds, ""
    while time.monotonic() < end:
        try:
            said = host.ssh("systemctl is-system-running --wait", check=False)
        except subprocess.TimeoutExpired:
            continue
        if said.strip() in ("running", "degraded"):
            return
        time.sleep(0.3)
    raise AssertionError(f"{host.name} did not start: {said}")


def _children(pid: int) -> Sequence[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _try(*command: str) -> None:
    """Undo a step. An error must not prevent that the other steps are undone."""
    subprocess.run(command, check=False)
