"""Hosts mount EFS and Lustre file systems by command, from fstab, and by systemd."""

from __future__ import annotations

import pytest
from local_cloud.host_interface import CLIENT, OPEN
from local_cloud.testing import wait_until

from .conftest import FILE_SYSTEM, SERVER, Hosts

OPTIONS = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport"
ADDRESS = "10.0.0.77"
POINT = "fsap-0123456789abcdef0"
WHOLE = {"path": "/", "creation": None, "allowed": CLIENT}
LUSTRE = "fs-0fedcba9876543210"
LUSTRE_SERVER = f"{LUSTRE}.fsx.us-east-1.amazonaws.com@tcp:"


@pytest.fixture
def exported(hosts: Hosts) -> Hosts:
    hosts.runtime.export(FILE_SYSTEM, [SERVER, ADDRESS], OPEN | {"access_points": {POINT: WHOLE}})
    hosts.runtime.export(LUSTRE, [f"{LUSTRE_SERVER}fzzzzbev"])
    return hosts


@pytest.mark.exhaustive
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
        ("efs", FILE_SYSTEM, f"tls,iam,accesspoint={POINT}"),
        ("efs", f"{FILE_SYSTEM}:/", f"tls,mounttargetip={ADDRESS}"),
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


def points(**more: object) -> dict[str, object]:
    return {"path": "/teams/bert", "creation": {"OwnerUid": 1000, "OwnerGid": 1000, "Permissions": "0750"}, "allowed": CLIENT, **more}


@pytest.mark.parametrize(
    ("access", "kind", "options", "message"),
    [
        ({"plain": [], "tls": CLIENT}, "nfs4", OPTIONS, f"mount.nfs4: access denied by server while mounting {SERVER}:/"),
        ({"plain": [], "tls": CLIENT}, "efs", "noresvport", "access denied by server while mounting 127.0.0.1:/"),
        ({"plain": [], "tls": CLIENT}, "efs", "tls", ""),
        ({"plain": CLIENT, "tls": CLIENT}, "nfs4", OPTIONS, ""),
        ({"plain": CLIENT, "tls": []}, "efs", "tls", "access denied"),
        ({"plain": [], "tls": []}, "efs", f"tls,accesspoint={POINT}", ""),
        ({"plain": [], "tls": [], "access_points": {POINT: points(allowed=[])}}, "efs", f"tls,accesspoint={POINT}", "access denied"),
        ({"access_points": {}}, "efs", f"tls,accesspoint={POINT}", "access denied"),
        (
            {"access_points": {POINT: points(path="/nowhere", creation=None)}},
            "efs",
            f"tls,accesspoint={POINT}",
            "No such file or directory",
        ),
    ],
)
def test_a_policy_decides_who_mounts(exported: Hosts, access: dict[str, object], kind: str, options: str, message: str) -> None:
    exported.runtime.export(FILE_SYSTEM, [SERVER], OPEN | {"access_points": {POINT: points()}} | access)
    command = f"sudo mkdir -p /mnt/asked && sudo mount -t {kind} -o {options} {SERVER}:/ /mnt/asked"
    done = exported.first.ssh(command, check=False)
    assert (done.returncode == 0) is (not message), done.stderr
    assert message in done.stderr
    if not message:
        exported.first.ssh("sudo umount /mnt/asked")


def test_without_the_right_to_write_a_mount_is_read_only(exported: Hosts) -> None:
    exported.runtime.export(FILE_SYSTEM, [SERVER], OPEN | {"plain": ["ClientMount"]})
    exported.first.ssh(f"sudo mkdir -p /mnt/asked && sudo mount -t nfs4 -o {OPTIONS} {SERVER}:/ /mnt/asked")
    assert "Read-only file system" in exported.first.ssh("sudo touch /mnt/asked/file; sudo umount /mnt/asked", check=False).stderr


def test_an_access_point_shows_its_directory_and_nothing_else(exported: Hosts) -> None:
    """EFS creates the root directory when a client first mounts the access point, and does not change it later."""
    exported.runtime.export(FILE_SYSTEM, [SERVER], OPEN | {"access_points": {POINT: points()}})
    host = exported.first
    mount = f"sudo mkdir -p /mnt/point /mnt/whole && sudo mount -t efs -o tls,accesspoint={POINT} {FILE_SYSTEM}:/ /mnt/point"
    host.ssh(f"{mount} && echo mine >/mnt/point/file && sudo mount -t efs -o tls {FILE_SYSTEM}:/ /mnt/whole")
    assert host.ssh("cat /mnt/whole/teams/bert/file; stat -c '%u:%g %a' /mnt/point; ls /mnt/point").stdout.split("\n") == [
        "mine",
        "1000:1000 750",
        "file",
        "",
    ]
    host.ssh("sudo umount /mnt/point && sudo chown root:root /mnt/whole/teams/bert")
    host.ssh(mount)
    assert host.ssh("stat -c %U /mnt/point").stdout == "root\n"
    host.ssh("sudo umount /mnt/point && sudo rm -r /mnt/whole/teams && sudo umount /mnt/whole")


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
    wait_until(lambda: exported.runtime.is_booted(host.name))
    wait_until(lambda: host.ssh("systemctl is-active remote-fs.target", check=False).returncode == 0)
    assert host.ssh("systemctl is-active fsx.mount data.mount; mountpoint -q /fsx && mountpoint -q /data").stdout.split() == ["active"] * 2
    assert {"nosuid", "nodev"} <= set(host.ssh("findmnt --noheadings --output OPTIONS /fsx").stdout.strip().split(","))
    host.ssh("sudo systemctl stop fsx.mount && sudo umount /data && ! mountpoint -q /fsx && ! mountpoint -q /data")


def test_without_mount_targets_nothing_can_be_mounted(exported: Hosts) -> None:
    exported.runtime.export(FILE_SYSTEM, [])
    assert exported.first.ssh(f"sudo mount -t nfs4 {SERVER}:/ /mnt", check=False).returncode == 32
