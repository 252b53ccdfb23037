"""Faults that a health check must find: in the output of NVIDIA's and Amazon's tools, in the kernel log, and in the state of a host.

The hosts of the local cloud have no GPUs. Instead, programs in a directory that comes first in PATH replay the output of a host with eight
GPUs and four Elastic Fabric Adapters. A fault changes this output. Each function changes one host, and `restore` undoes all changes.
"""

from __future__ import annotations

import shlex

import gpu_tools
from gpu_tools import LOST, NO_DRIVER, NO_HOST_ENGINE, PERSISTENCE, dcgm_4, driver, kernel_log, nvlink, process, program, smi

PROGRAMS = "/usr/local/sbin"
FI_INFO = "/opt/amazon/efa/bin/fi_info"
GPUS, LINKS, ADAPTERS = 8, 18, 4
CERTIFICATE = "/etc/ssh/deeplearning/ssh_host_ed25519_key-cert.pub"
# Without this file, a host is like a new one.
EXCLUSIONS = "/var/lib/deeplearning-node-health/exclusions.json"
METADATA = "/opt/deeplearning/metadata.json"
# A file whose lines Python executes when it starts.
PTH = "/usr/lib/python3/dist-packages/clock.pth"

# Parameters of the module node_health for hosts in this state.
PARAMETERS = {
    "user": "ubuntu",
    "instance_type": "p5.48xlarge",
    "efa_devices": ADAPTERS,
    "disks": ["/mnt/disk"],
    "mounts": ["/mnt/storage", "/checkpoints"],
}


def write(host, path, text, mode="755"):
    host.ssh(
        f"sudo mkdir -p {path.rpartition('/')[0]} && printf %s {shlex.quote(text)} | sudo tee {path} >/dev/null && sudo chmod {mode} {path}"
    )


def prepare(host):
    """Make a host look like one with GPUs and adapters, and save the files that faults change."""
    host.ssh(f'sudo sed -i \'s/"gpu_count": [0-9]*/"gpu_count": {GPUS}/\' {METADATA} && sudo cp -p {METADATA} /etc/hosts /root/')
    host.ssh("mountpoint -q /sys/class || sudo mount -t tmpfs tmpfs /sys/class; sudo mkdir -p /sys/class/infiniband /mnt/disk /mnt/storage")
    restore(host)


def restore(host):
    """Undo the changes that a fault made, so that the host is healthy again."""
    host.ssh(
        f"sudo cp -p /root/metadata.json {METADATA}; sudo cp /root/hosts /etc/hosts; sudo rm -f {CERTIFICATE} {EXCLUSIONS}; "
        f"sudo mkdir -p {' '.join(f'/sys/class/infiniband/rdmap{number}s0' for number in range(ADAPTERS))}; "
        f"sudo umount -q /proc/meminfo; sudo rm -f {PTH}; sudo pkill -KILL -x rclone; "
        "for each in disk storage; do sudo umount -q --lazy /mnt/$each; "
        "sudo mount -t tmpfs -o mode=1777,size=4m,nr_inodes=1000 tmpfs /mnt/$each; done; sudo mount -o remount,rw,bind /"
    )
    write(host, FI_INFO, "#!/bin/sh\necho 'provider: efa'\n")
    nvidia(host)
    log(host)
    dcgm(host)


def nvidia(host, count=GPUS, changes=(), links=(), links_failure="", failure="", status=0, pause=0, processes=""):
    """Replay nvidia-smi output in which GPUs differ from healthy GPUs."""
    text = failure or smi(count, *changes, processes=processes)
    active = links_failure or nvlink(*(links or [LINKS] * count))
    host.ssh(f"sudo install -D /dev/null {PERSISTENCE}")
    write(host, f"{PROGRAMS}/nvidia-smi", program(*driver(text, status, active, int(bool(links_failure))), pause=pause))


def dcgm(host, version=4, fault="", failure="", pause=0):
    """Replay the output of dcgmi of DCGM 3 or 4, with a fault that gpu_tools defines, or with an error."""
    write_output = {3: gpu_tools.dcgm_3, 4: dcgm_4}[version]
    output = failure or write_output(*([getattr(gpu_tools, fault)] if fault else []))
    write(host, f"{PROGRAMS}/dcgmi", program(("diag*", output, 226 if fault or failure else 0), pause=pause))


def no_host_engine(host):
    dcgm(host, failure=NO_HOST_ENGINE)


def no_driver(host):
    nvidia(host, failure=NO_DRIVER, status=9)


def lost(host):
    nvidia(host, failure=LOST, status=15)


def no_program(host):
    host.ssh(f"sudo rm {PROGRAMS}/nvidia-smi")


def left_process(host):
    """Replay nvidia-smi output that lists process 1, which belongs to no job, on a GPU."""
    nvidia(host, processes=process(1, "/usr/lib/systemd/systemd"))


def configured(host, count):
    host.ssh(f'sudo sed -i \'s/"gpu_count": [0-9]*/"gpu_count": {count}/\' {METADATA}')


def log(host, *lines):
    """Replay a kernel log with these lines."""
    write(host, f"{PROGRAMS}/journalctl", program(("'--dmesg --boot'*", kernel_log(*lines), 0)))


def no_log(host):
    """Make the program that reads the kernel log fail."""
    write(host, f"{PROGRAMS}/journalctl", program(("'--dmesg --boot'*", "", 1)))


def xid(host, code, text, pid="'<unknown>'", name="<unknown>"):
    """Replay a kernel log with a GPU error that names process 1, which is running."""
    log(host, f"NVRM: Xid (PCI:0000:64:00): {code}, pid={pid}, name={name}, {text}")


def xid_of_driver(host, code, text):
    """Replay a kernel log with a GPU error that names no process."""
    log(host, f"NVRM: Xid (PCI:0000:64:00): {code}, {text}")


def sxid(host, code, texts):
    """Replay a kernel log with NVSwitch errors."""
    log(host, *(f"nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): {code}, {text}" for text in texts))


def shell(host, command):
    """Change the state of a host with a shell command."""
    host.ssh(f"sudo sh -ec {shlex.quote(command)}")


def meminfo(host, available):
    """Make the kernel report this many kibibytes of available memory."""
    shell(
        host,
        f"sed 's/^MemAvailable:.*/MemAvailable: {available} kB/' /proc/meminfo >/run/meminfo && mount --bind /run/meminfo /proc/meminfo",
    )


def clock(host, seconds):
    """Let the clock that Python programs read be ahead of the clock that all hosts share."""
    write(host, PTH, f"import time; time.time = lambda real=time.time: real() + {seconds}\n", mode="644")


def storage(host, signal):
    """Mount a FUSE file system at /mnt/storage, and send its process a signal."""
    shell(
        host,
        "umount /mnt/storage; mkdir -p /run/source; chown ubuntu /run/source /mnt/storage; "
        f"sudo -u ubuntu rclone mount --daemon /run/source /mnt/storage; pkill -{signal} -x rclone",
    )


def certificate(host, validity):
    """Give a host an SSH certificate with a validity in the format of ssh-keygen."""
    shell(
        host,
        "rm -rf /run/authority && mkdir -p /run/authority /etc/ssh/deeplearning && cd /run/authority && "
        "ssh-keygen -q -t ed25519 -N '' -f key && cp /etc/ssh/ssh_host_ed25519_key.pub host.pub && "
        f"ssh-keygen -q -s key -I host -h -V {validity} host.pub && cp host-cert.pub {CERTIFICATE}",
    )


def fi_info(host, error):
    write(host, FI_INFO, f"#!/bin/sh\necho '{error}' >&2\nexit 61\n")
