"""Mounting EFS and Lustre file systems on a host: by hand, from fstab, by systemd."""

from __future__ import annotations

import pytest
from local_cloud.testing import BOOT_TIMEOUT, wait_until

from .conftest import FILE_SYSTEM, SERVER, Hosts

OPTIONS = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport"
ADDRESS = "10.0.0.77"
LUSTRE = "fs-0fedcba9876543210"
LUSTRE_SERVER = f"{LUSTRE}.fsx.us-east-1.amazonaws.com@tcp:"


@pytest.fixture
def exported(hosts: Hosts) -> Hosts:
    hosts.runtime.export(FILE_SYSTEM, [SERVER, ADDRESS])
    hosts.runtime.export(LUSTRE, [f"{LUSTRE_SERVER}fzzzzbev"])
    return hosts


def test_a_host_boots_without_its_file_system_and_mounts_it_from_fstab_later(hosts: Hosts) -> None:
    refused = hosts.first.ssh("sudo mount /efs", check=False)
    assert (refused.returncode, refused.stderr.strip()) == (32, f"mount.nfs4: Failed to resolve server {SERVER}: Name or service not known")
    hosts.runtime.export(FILE_SYSTEM, [SERVER])
    hosts.first.ssh("sudo mount /efs && mountpoint /efs && sudo umount /efs")


def test_systemd_mounts_from_fstab(exported: Hosts) -> None:
    host = exported.first
    host.ssh("sudo systemctl daemon-reload; sudo systemctl start efs.mount")
    assert host.ssh("systemctl is-active efs.mount; stat -c '%U:%G %a' /efs").stdout.splitlines() == ["active", "root:root 755"]
    host.ssh("sudo systemctl stop efs.mount")
    assert host.ssh("mountpoint /efs", check=False).returncode != 0


def test_hosts_share_files_and_owners(exported: Hosts) -> None:
    for host in (exported.first, exported.second):
        host.ssh(f"sudo mkdir -p /mnt/shared && sudo mount -t nfs4 -o {OPTIONS} {SERVER}:/ /mnt/shared")
    exported.first.ssh("sudo install -o ubuntu -g ubuntu -d /mnt/shared/work && echo hello >/mnt/shared/work/file")
    assert exported.second.ssh("cat /mnt/shared/work/file; stat -c %U /mnt/shared/work/file").stdout.split() == ["hello", "ubuntu"]
    for host in (exported.first, exported.second):
        host.ssh("sudo umount /mnt/shared")


def test_sub_folders_and_addresses_of_mount_targets_work(exported: Hosts) -> None:
    host = exported.first
    mount = f"sudo mount -t nfs4 -o {OPTIONS}"
    host.ssh(f"sudo mkdir -p /mnt/a && {mount} {ADDRESS}:/ /mnt/a && sudo mkdir -p /mnt/a/deep/er && sudo umount /mnt/a")
    host.ssh(f"{mount} {SERVER}:/deep /mnt/a && test -d /mnt/a/er && sudo umount /mnt/a")


def test_read_only_is_read_only(exported: Hosts) -> None:
    host = exported.first
    host.ssh(f"sudo mkdir -p /mnt/ro && sudo mount -t nfs4 -o {OPTIONS},ro {SERVER}:/ /mnt/ro")
    assert "Read-only file system" in host.ssh("sudo touch /mnt/ro/file", check=False).stderr
    host.ssh("sudo umount /mnt/ro")


@pytest.mark.parametrize(
    ("source", "options", "status", "message"),
    [
        ("fs-00000000000000000.efs.us-east-1.amazonaws.com:/", OPTIONS, 32, "Failed to resolve server"),
        ("10.0.0.250:/", OPTIONS, 32, "Connection timed out"),
        (f"{SERVER}:/missing", OPTIONS, 32, "No such file or directory"),
        (f"{SERVER}:/", "nfsvers=3", 32, "Protocol not supported"),
        (f"{SERVER}:/", "no-such-option", 32, "an incorrect mount option was specified"),
    ],
)
def test_refuses_what_nfs_refuses(exported: Hosts, source: str, options: str, status: int, message: str) -> None:
    done = exported.first.ssh(f"sudo mkdir -p /mnt/bad && sudo mount -t nfs4 -o {options} {source} /mnt/bad", check=False)
    assert done.returncode == status
    assert message in done.stderr


@pytest.mark.parametrize(
    ("kind", "source", "options"),
    [
        ("lustre", f"{LUSTRE_SERVER}/fzzzzbev", "noatime,flock,_netdev"),
        ("efs", f"{FILE_SYSTEM}:/", "tls,_netdev"),
        ("efs", FILE_SYSTEM, "tls,iam,accesspoint=fsap-0123456789abcdef0"),
        ("efs", f"{SERVER}:/", "tls,noresvport"),
    ],
)
def test_clients_of_other_kinds(exported: Hosts, kind: str, source: str, options: str) -> None:
    first, second = exported.first, exported.second
    for host in (first, second):
        host.ssh(f"sudo mkdir -p /mnt/{kind} && sudo mount -t {kind} -o {options} {source} /mnt/{kind}")
    first.ssh(f"sudo mkdir /mnt/{kind}/shelf && echo hello | sudo tee /mnt/{kind}/shelf/file")
    assert second.ssh(f"cat /mnt/{kind}/shelf/file; sudo umount /mnt/{kind}").stdout == "hello\n"
    deep = source.rstrip("/") + ("/shelf" if ":" in source else ":/shelf")
    second.ssh(f"sudo mount -t {kind} {deep} /mnt/{kind} && test -f /mnt/{kind}/file && sudo umount /mnt/{kind}")
    first.ssh(f"sudo rm -r /mnt/{kind}/shelf && sudo umount /mnt/{kind}")


@pytest.mark.parametrize(
    ("kind", "source", "options", "status", "message"),
    [
        ("lustre", f"{LUSTRE_SERVER}/wrong", "flock", 22, "Is 'wrong' the correct filesystem name?"),
        ("lustre", f"{LUSTRE_SERVER}/fzzzzbev/missing", "flock", 2, "No such file or directory"),
        ("lustre", "fs-00000000000000000.fsx.us-east-1.amazonaws.com@tcp:/fsx", "flock", 22, "Can't parse NID"),
        ("lustre", f"{LUSTRE_SERVER}/fzzzzbev", "nfsvers=4.1", 22, "Are the mount options correct?"),
        ("efs", "fs-00000000000000000:/", "tls", 1, 'Failed to resolve "fs-00000000000000000"'),
        ("efs", f"{FILE_SYSTEM}:/missing", "tls", 32, "No such file or directory"),
        ("efs", f"{FILE_SYSTEM}:/", "iam", 1, 'The "tls" option is required'),
        ("efs", f"{FILE_SYSTEM}:/", "tls,flock", 32, "incorrect mount option"),
        ("nfs4", f"{LUSTRE_SERVER}/fzzzzbev", OPTIONS, 32, "Failed to resolve server"),
    ],
)
def test_other_clients_refuse(exported: Hosts, kind: str, source: str, options: str, status: int, message: str) -> None:
    done = exported.first.ssh(f"sudo mkdir -p /mnt/bad && sudo mount -t {kind} -o {options} {source} /mnt/bad", check=False)
    assert (done.returncode, message in done.stderr) == (status, True), done.stderr


def test_what_is_in_fstab_is_there_after_a_boot(exported: Hosts) -> None:
    host = exported.second
    lines = [
        f"{LUSTRE_SERVER}/fzzzzbev /fsx lustre defaults,noatime,flock,nosuid,nodev,_netdev 0 0",
        f"{FILE_SYSTEM}:/ /data efs tls,_netdev,nofail 0 0",
    ]
    for line in lines:
        host.ssh(f"echo '{line}' | sudo tee -a /etc/fstab && sudo mkdir -p /fsx /data")
    exported.runtime.stop(host.name)
    exported.runtime.start(host.spec())
    wait_until(lambda: exported.runtime.is_booted(host.name), BOOT_TIMEOUT)
    wait_until(lambda: host.ssh("systemctl is-active remote-fs.target", check=False).returncode == 0, BOOT_TIMEOUT)
    assert host.ssh("systemctl is-active fsx.mount data.mount; mountpoint -q /fsx && mountpoint -q /data").stdout.split() == ["active"] * 2
    assert {"nosuid", "nodev"} <= set(host.ssh("findmnt --noheadings --output OPTIONS /fsx").stdout.strip().split(","))
    host.ssh("sudo systemctl stop fsx.mount && sudo umount /data && ! mountpoint -q /fsx && ! mountpoint -q /data")


def test_without_mount_targets_nothing_can_be_mounted(exported: Hosts) -> None:
    exported.runtime.export(FILE_SYSTEM, [])
    assert exported.first.ssh(f"sudo mount -t nfs4 {SERVER}:/ /mnt", check=False).returncode == 32
