"""Shared storage and its network do not let one host attack another."""

from __future__ import annotations

import ipaddress
import shlex
import subprocess

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import definition as network
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import inventory
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators import ssh_access
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import boot, mount_table, mounts
from hosts.cluster import Cluster
from local_cloud.host_interface import OPEN
from local_cloud.hosts.podman import as_root
from local_cloud.testing import bare_hosts

FILE_SYSTEM = "fs-0123456789abcdef0"
REGION = "us-east-1"
PLAIN = mounts.efs(FILE_SYSTEM, REGION, "/efs", encrypted=False)
TLS = mounts.efs(FILE_SYSTEM, REGION, "/efs", encrypted=True)
CLIENT = "/usr/local/sbin/mount.efs"
POINT = "fsap-0123456789abcdef0"
# The fstab entry of earlier versions of the collection, without nosuid and nodev.
OLD = PLAIN.entry.replace(",nosuid,nodev", "")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Two hosts with the mounts, fstab and boot scripts of an earlier version of the collection."""
    folder = tmp_path_factory.mktemp("storage")
    script = boot.boot_script([PLAIN], "ubuntu").replace(PLAIN.entry, OLD)
    with bare_hosts(folder, count=2) as (runtime, booted):
        runtime.export(FILE_SYSTEM, [PLAIN.source.split(":", maxsplit=1)[0]])
        for host in booted:
            # Hosts without the EFS client keep using plain NFS
            host.ssh(
                f"sudo mv {CLIENT} {CLIENT}.away && sudo mkdir -p /efs"
                f" && echo {shlex.quote(OLD)} | sudo tee -a /etc/fstab && sudo mount /efs && sudo chown ubuntu: /efs"
            )
            host.ssh(f"printf %s {shlex.quote(script)} | sudo install -m 755 /dev/stdin {boot.SCRIPT_PATH}")
        yield Cluster(folder, runtime, booted)


def configure(cluster, *arguments, fails=False):
    playbook = cluster.folder / "storage.yml"
    variables = {"deeplearning_region": REGION, "deeplearning_file_system_id": FILE_SYSTEM}
    play = {"hosts": "trainers", "gather_facts": False, "vars": variables, "roles": ["deeplearning.cluster.shared_storage"]}
    playbook.write_text(yaml.safe_dump([play]))
    done = cluster.play(str(playbook), *arguments)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout


def entries(host):
    """Return the lines of /etc/fstab for the shared storage."""
    return [line for line in host.ssh("cat /etc/fstab").stdout.splitlines() if "/efs" in line]


def becomes_root(host):
    """Return whether a file that root on another host has left on the storage makes an ordinary user root on this host."""
    return host.ssh("sudo -u nobody /efs/become-root -u", check=False).stdout.strip() == "0"


def test_root_of_one_host_is_not_root_on_the_others_by_a_file(hosts):
    first, second = hosts.hosts
    first.ssh("sudo cp /usr/bin/id /efs/become-root && sudo chmod 4755 /efs/become-root")
    # Unlike root on a real host, root on a host of the local cloud cannot create devices
    subprocess.run(as_root("mknod", "--mode=666", str(hosts.folder / "file-systems" / FILE_SYSTEM / "null"), "c", "1", "3"), check=True)
    assert becomes_root(second), "the mount from the earlier version allows it"
    assert second.ssh("cat /efs/null").returncode == 0
    predicted = configure(hosts, "--check", "--diff")
    assert "nosuid,nodev" in predicted
    assert becomes_root(second), "check mode changes nothing"
    # A job that has a file open is not affected
    second.ssh("nohup sh -c 'exec 3>/efs/held; exec sleep 600' >/dev/null 2>&1 & echo $! >/tmp/job")
    configure(hosts)
    assert not becomes_root(second)
    assert second.ssh("cat /efs/null", check=False).returncode != 0
    second.ssh("kill -0 $(cat /tmp/job) && kill $(cat /tmp/job)")
    assert configure(hosts).count("changed=0") == 2
    for host in hosts.hosts:
        assert entries(host) == [PLAIN.entry]


def test_a_boot_mounts_as_safely_as_the_role(hosts):
    """The role makes the mounts at boot safe, even on a host that was launched with the boot script of an earlier version."""
    host = hosts.hosts[1]
    configure(hosts)
    host.ssh("sudo umount /efs && sudo timeout 300 " + boot.SCRIPT_PATH)
    assert entries(host) == [PLAIN.entry]
    assert mount_table.mounted_at(host.ssh("cat /proc/self/mountinfo").stdout, "/efs").is_safe
    assert configure(hosts).count("changed=0") == 2


@pytest.mark.exhaustive
def test_a_host_that_has_the_client_mounts_through_tls(hosts):
    """The other host has no EFS client and uses plain NFS. Existing mounts are kept when the EFS client is installed, because jobs may use
    them.
    """
    host = hosts.hosts[0]
    configure(hosts)
    host.ssh(f"sudo mv {CLIENT}.away {CLIENT}")
    assert configure(hosts).count("changed=0") == 2
    assert entries(host) == [PLAIN.entry]
    host.ssh("sudo umount /efs")
    predicted = configure(hosts, "--check", "--diff")
    assert f"+{TLS.entry}" in predicted
    assert entries(host) == [PLAIN.entry], "check mode changes nothing"
    configure(hosts)
    assert [entries(each) for each in hosts.hosts] == [[TLS.entry], [PLAIN.entry]]
    assert configure(hosts).count("changed=0") == 2
    # If the definition requires TLS, a host without the client fails
    second = hosts.hosts[1]
    second.ssh("sudo umount /efs")
    refused = configure(hosts, "-e", '{"deeplearning_encrypt_in_transit": true}', fails=True)
    assert "amazon-efs-utils, which encrypts data in transit, is not installed on this host" in refused
    assert second.ssh("mountpoint -q /efs", check=False).returncode != 0
    configure(hosts)
    # Restore the hosts for the next tests
    host.ssh(f"sudo umount /efs && sudo mv {CLIENT} {CLIENT}.away")
    configure(hosts)
    assert [entries(each) for each in hosts.hosts] == [[PLAIN.entry]] * 2


def test_a_policy_that_demands_tls_keeps_plain_nfs_out(hosts):
    """The message says that the file system denies access, and tells users what to do."""
    first, second = hosts.hosts
    configure(hosts)
    first.ssh(f"sudo umount /efs && sudo mv {CLIENT}.away {CLIENT}")
    second.ssh("sudo umount /efs")
    servers = [PLAIN.source.split(":", maxsplit=1)[0]]
    try:
        hosts.runtime.export(FILE_SYSTEM, servers, OPEN | {"plain": []})
        refused = configure(hosts, "-e", "shared_storage_timeout=2", fails=True)
        assert "denies this host access. Check the file system's policy" in refused
        assert "If that policy requires TLS, install amazon-efs-utils on the host" in refused
        first.ssh("mountpoint -q /efs")
        assert second.ssh("mountpoint -q /efs", check=False).returncode != 0
    finally:
        hosts.runtime.export(FILE_SYSTEM, servers)
        first.ssh(f"sudo umount /efs; sudo mv {CLIENT} {CLIENT}.away")
    configure(hosts)


@pytest.mark.exhaustive
def test_through_an_access_point_a_host_sees_its_directory_alone(hosts):
    """The role fails if the tag of the access point is missing, or if the whole file system is mounted instead."""
    first, second = hosts.hosts
    configure(hosts)
    servers = [PLAIN.source.split(":", maxsplit=1)[0]]
    creation = {"OwnerUid": 1000, "OwnerGid": 1000, "Permissions": "0755"}
    point = {"path": "/teams/bert", "creation": creation, "allowed": OPEN["tls"]}
    demanded = ("--limit", "localhost,*-worker1", "-e", "deeplearning_file_system_directory=/teams/bert")
    through = (
        *demanded,
        "-e",
        "deeplearning_file_system_access_point=fsap-0123456789abcdef0",
        "-e",
        f"deeplearning_file_system_id={FILE_SYSTEM}",
    )
    second.ssh("echo secret >/efs/others")
    refused = configure(hosts, *demanded, fails=True)
    assert "this host has no access point to /teams/bert, so it could access the whole" in " ".join(refused.split())
    first.ssh(f"sudo mv {CLIENT}.away {CLIENT}")
    try:
        hosts.runtime.export(FILE_SYSTEM, servers, OPEN | {"plain": [], "tls": [], "access_points": {POINT: point}})
        first.ssh("sudo umount /efs")
        configure(hosts, *through)
        assert configure(hosts, *through).count("changed=0") == 1
        assert first.ssh("stat -c '%u:%g %a' /efs; ls /efs; touch /efs/mine; cat /efs/others", check=False).stdout == "1000:1000 755\n"
        assert second.ssh("ls /efs/teams/bert").stdout == "mine\n"
        assert f"accesspoint={POINT}" in entries(first)[0]
        # The file system allows mounts through access points only
        assert "access denied" in first.ssh(f"sudo mkdir -p /mnt/w && sudo mount -t efs -o tls {FILE_SYSTEM}:/ /mnt/w", check=False).stderr
        mounted = configure(hosts, *through, "-e", "deeplearning_file_system_access_point=fsap-00000000000000000", fails=True)
        assert f"instead of {FILE_SYSTEM}:/ as efs through fsap-00000000000000000" in mounted
    finally:
        hosts.runtime.export(FILE_SYSTEM, servers)
        first.ssh(f"sudo umount /efs; sudo mv {CLIENT} {CLIENT}.away")
    configure(hosts)


@pytest.mark.parametrize("described", [PLAIN, TLS, mounts.lustre("a@tcp:/b", "/fsx")])
def test_no_kind_of_storage_brings_privileges_or_devices(described):
    assert {"nosuid", "nodev"} <= set(described.options.split(","))
    assert ",nosuid,nodev" in boot.boot_script([described], "ubuntu")


@pytest.mark.parametrize(
    "cidrs",
    [
        ["0.0.0.0/1", "128.0.0.0/1"],
        [str(part) for part in ipaddress.ip_network("0.0.0.0/0").subnets(new_prefix=4)],
        ["8000::/1", "::/1"],
        ["0.0.0.0/2"],
    ],
)
def test_the_whole_internet_in_parts_is_refused(cidrs):
    assert any("would open SSH to" in finding for finding in ssh_access.check_ssh_cidrs(cidrs, False))


def test_without_lustre_nothing_outside_reaches_the_nodes():
    items = network.access(["us-east-1a"], [], ["203.0.113.0/24"], {}, lambda _address: {})
    nodes = next(item for item in items if item.address == network.NODES_GROUP)
    assert nodes.properties["ingress"] == {(*network.ALL_TRAFFIC, network.SELF)}


def test_an_adopted_file_system_keeps_its_owner(hosts):
    """The role reports that the login user cannot write to the file system, and does not change the owner of the root directory."""
    first = hosts.hosts[0]
    first.ssh("sudo chown root:root /efs && sudo chmod 755 /efs")
    refused = configure(hosts, "-e", f"deeplearning_file_system_id={FILE_SYSTEM}", fails=True)
    assert "ubuntu cannot write to /efs, which belongs to 0:0 and has mode 0755. This collection does not change adopted" in refused
    for permitted in ("sudo chmod 777 /efs", "sudo chgrp ubuntu /efs && sudo chmod 775 /efs"):
        first.ssh(permitted)
        before = first.ssh("stat -c '%u:%g %a' /efs").stdout
        assert configure(hosts, "-e", f"deeplearning_file_system_id={FILE_SYSTEM}").count("changed=0") == 2
        assert first.ssh("stat -c '%u:%g %a' /efs").stdout == before
    configure(hosts)
    assert first.ssh("stat -c %U /efs").stdout == "ubuntu\n", "the login user owns the cluster's file system"


@pytest.mark.parametrize(
    ("tags", "through_tls"),
    [
        ({"deeplearning:file-system-tls": "true"}, "true"),
        ({"deeplearning:file-system-tls": "false"}, "false"),
        ({"deeplearning:file-system-tls": "preferred"}, "preferred"),
        ({"deeplearning:file-system-tls": "none"}, None),
        ({}, None),
    ],
)
def test_a_tag_that_is_gone_does_not_mean_plain_nfs(tags, through_tls):
    """Without the tag, the inventory sets no value and the role uses the definition."""
    instance = {
        "InstanceId": "i-0123456789abcdef0",
        "InstanceType": "c5.large",
        "LaunchTime": "2026-11-28T03:10:46.000Z",
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "PrivateIpAddress": "10.0.0.4",
        "Tags": [{"Key": key, "Value": value} for key, value in {"deeplearning:file-system": FILE_SYSTEM, **tags}.items()],
    }
    assert inventory._node("bert", "master", 1, instance).storage["file_system_tls"] == through_tls
