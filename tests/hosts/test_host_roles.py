"""SSH trust, shared storage and worker metadata on real hosts, with the connection variables that the inventory plugin sets."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import first_boot
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import boot, mounts
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.worker_metadata import metadata
from gpu_tools import driver, program, smi
from local_cloud.testing import bare_hosts, wait_until

from .packages import purge
from .project import CLUSTER, FILE_SYSTEM, REGION, Project, changes

EFS = mounts.efs(FILE_SYSTEM, REGION, "/efs")
SOURCE = EFS.source
LUSTRE = "fs-0123456789abcdef1"
LUSTRE_SERVER = f"{LUSTRE}.fsx.{REGION}.amazonaws.com"
ROLES = ("ssh_trust", "shared_storage", "worker_metadata")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("roles")
    config = first_boot.cloud_config(boot.cloud_config([EFS], "ubuntu"))
    with bare_hosts(folder, count=3, user_data=b"#cloud-config\n" + json.dumps(config).encode()) as (runtime, hosts):
        yield Project(folder, runtime, hosts)


@pytest.fixture(scope="module")
def cluster(project: Project) -> Project:
    """Two hosts to which all three roles have been applied."""
    project.runtime.export(FILE_SYSTEM, [SOURCE.split(":", maxsplit=1)[0]])
    project.write(2)
    project.play(*ROLES)
    return project


def test_without_mount_target_the_role_says_so(project: Project) -> None:
    project.write(2, shared_storage_timeout=2)
    done = project.play("ssh_trust", "shared_storage", check=False)
    assert done.returncode != 0
    assert "check that there is a mount target" in done.stdout, done.stdout
    assert FILE_SYSTEM in project.hosts[0].ssh("cat /etc/fstab").stdout


def test_boot_mounts_by_itself_once_there_is_a_mount_target(project: Project) -> None:
    host = project.hosts[2]
    assert host.ssh("mountpoint -q /efs", check=False).returncode != 0
    project.runtime.export(FILE_SYSTEM, [SOURCE.split(":", maxsplit=1)[0]])
    wait_until(lambda: host.ssh("systemctl is-active deeplearning-shared-storage", check=False).stdout.strip() == "active")
    host.ssh("mountpoint -q /efs && touch /efs/by-worker3")
    assert host.ssh("cat /etc/fstab").stdout.splitlines()[-1] == EFS.preferred.entry, "these hosts have the client for TLS"
    assert host.ssh("systemctl is-system-running --wait", check=False).stdout.strip() == "running"


def test_a_host_from_the_image_of_a_node_forgets_the_node(project: Project) -> None:
    """The host runs the commands of its first boot again, with files of a former node."""
    host, former = project.hosts[2], " ".join(first_boot.FORMER)
    project.runtime.export(FILE_SYSTEM, [SOURCE.split(":", maxsplit=1)[0]])
    old = "fs-0aaaaaaaaaaaaaaaa:/ /efs/ nfs4 nosuid,nodev,_netdev,nofail 0 0"
    host.ssh(
        f"sudo mkdir -p /etc/ssh/deeplearning /opt/deeplearning && sudo touch {former}"
        " && sudo rm -f /var/lib/cloud/instance/sem/bootper.deeplearning_former_node*"
        " && sudo cloud-init single --name bootcmd --frequency always"
    )
    assert host.ssh(f"ls -d {former}", check=False).stdout == ""
    host.ssh(f"sudo sed -i '/ \\/efs /d' /etc/fstab && echo {shlex.quote(old)} | sudo tee -a /etc/fstab")
    host.ssh("sudo systemctl restart deeplearning-shared-storage")
    assert host.ssh("grep efs /etc/fstab").stdout.splitlines() == [EFS.preferred.entry]
    assert old in host.ssh("cat /etc/fstab.before-deeplearning").stdout.splitlines()
    host.ssh("mountpoint -q /efs && touch /efs/by-worker3")
    assert '"linux-image"' in host.ssh("apt-config dump Unattended-Upgrade::Package-Blacklist").stdout


def test_second_run_changes_nothing_and_asks_each_host_once_per_role(cluster: Project) -> None:
    done = cluster.play(*ROLES, arguments=("-vvv",))
    assert set(changes(done).values()) == {0}, done.stdout
    assert done.stdout.count("ESTABLISH SSH CONNECTION") == 2 * len(ROLES)
    assert "AnsiballZ" not in done.stdout
    assert "/usr/bin/python3" not in done.stdout, "a module has run"


def test_hosts_keep_the_files_of_modules_until_they_reboot(cluster: Project) -> None:
    host, modules = cluster.hosts[0], "/run/deeplearning/modules"
    damage = "sudo rm /etc/profile.d/deeplearning.sh"
    for _task in ("build", "keep"):
        host.ssh(f"sudo rm -rf {modules} && {damage}")
        cluster.play("worker_metadata")
    assert host.ssh(f"sudo find {modules} -mindepth 1 -maxdepth 1 -printf '%U %m'").stdout == "0 700"
    host.ssh(f"{damage} && sudo find {modules} -name worker_metadata.py -exec sed -i '1i no Python' {{}} +")
    assert "invalid syntax (worker_metadata.py, line 1)" in cluster.play("worker_metadata", check=False).stdout, "the files were not used"
    host.ssh(f"sudo rm -rf {modules} && sudo touch {modules}")  # stands for a full disk
    cluster.play("worker_metadata")
    host.ssh(f"sudo rm {modules} && test -e /etc/profile.d/deeplearning.sh")


# Additional faults that the roles repair
MORE_DAMAGE = [
    ("ssh_trust", "sudo chown ubuntu /etc/ssh/ssh_config.d/40-deeplearning.conf"),
    ("ssh_trust", "echo '# edited' | sudo tee -a /etc/ssh/sshd_config.d/40-deeplearning.conf"),
    ("ssh_trust", "sudo rm /etc/ssh/deeplearning/user_ed25519-cert.pub"),
    ("ssh_trust", "sudo rm /etc/ssh/ssh_known_hosts"),
    ("ssh_trust", "sudo chown root /etc/ssh/deeplearning/user_ed25519"),
    ("shared_storage", "sudo chown root /efs"),
    ("worker_metadata", "sudo chown root /opt/deeplearning/workers"),
    ("worker_metadata", "sudo rm /etc/profile.d/deeplearning.sh"),
    ("worker_metadata", "sudo sed -i /EFS_MOUNT/d /etc/environment"),
]


@pytest.mark.parametrize(
    ("role", "damage"),
    [
        ("ssh_trust", "sudo chmod 600 /etc/ssh/deeplearning/authority.pub"),
        ("ssh_trust", "sudo rm /etc/ssh/deeplearning/user_ed25519 /etc/ssh/deeplearning/user_ed25519.pub"),
        ("ssh_trust", "sudo truncate -s 0 /etc/ssh/deeplearning/revoked_keys"),
        ("shared_storage", "sudo umount /efs"),
        ("shared_storage", "sudo sed -i '/ \\/efs /d' /etc/fstab"),
        ("worker_metadata", "sudo sed -i /deeplearning-worker2/d /etc/hosts"),
        ("worker_metadata", "sudo touch /etc/cloud/cloud.cfg.d/zz-deeplearning-hosts.cfg && sudo truncate -s 0 $_"),
        *(pytest.param(*each, marks=pytest.mark.exhaustive) for each in MORE_DAMAGE),
    ],
)
def test_whatever_is_damaged_is_mended_and_nothing_else_changed(cluster: Project, role: str, damage: str) -> None:
    cluster.hosts[0].ssh(damage)
    mended = changes(cluster.play(role))
    if damage.endswith("chown root /efs"):
        assert sum(mended.values()) >= 1, "the storage is damaged on both hosts, and either host may repair it first"
    else:
        assert mended == {cluster.name(1): 1, cluster.name(2): 0}
    assert set(changes(cluster.play(role)).values()) == {0}


@pytest.mark.parametrize(
    ("role", "path", "older"),
    [
        ("ssh_trust", "/etc/ssh/ssh_known_hosts", "deeplearning-worker2 ssh-ed25519 AAAA old"),
        ("shared_storage", "/etc/fstab", "elsewhere:/ /efs/ nfs4 noauto 0 0"),
        ("worker_metadata", "/etc/hosts", f"127.0.1.1 {CLUSTER}-master"),
    ],
)
def test_older_entries_are_replaced_and_the_old_file_is_kept(cluster: Project, role: str, path: str, older: str) -> None:
    host = cluster.hosts[0]
    host.ssh(f"sudo sed -i {shlex.quote(f'1i {older}')} {path}")
    done = cluster.play(role)
    assert changes(done) == {cluster.name(1): 1, cluster.name(2): 0}
    said = " ".join((done.stdout + done.stderr).split())
    assert f"{path}: older entries are replaced: {older}. The old file is {path}." in said
    assert host.ssh(f"sudo cat {path}").stdout.count(older) == 0
    assert host.ssh(f"sudo cat {path}.*").stdout.count(older) == 1
    assert host.ssh(f"getent ahostsv4 {cluster.name(1)}").stdout.split()[0] == host.private_ip
    host.ssh(f"sudo rm {path}.*@*")
    assert set(changes(cluster.play(role)).values()) == {0}


def test_settings_of_others_for_sshd_are_refused_before_a_change(cluster: Project) -> None:
    host, certificate = cluster.hosts[0], "/etc/ssh/deeplearning/user_ed25519-cert.pub"
    count = int(host.ssh("wc -l </etc/ssh/sshd_config").stdout)
    host.ssh(f"echo 'TrustedUserCAKeys /etc/ssh/org_ca.pub' | sudo tee -a /etc/ssh/sshd_config && sudo rm {certificate}")
    try:
        done = cluster.play("ssh_trust", check=False)
        assert f"/etc/ssh/sshd_config:{count + 1}: trustedusercakeys /etc/ssh/org_ca.pub applies to ubuntu." in done.stdout
        assert changes(done)[cluster.name(1)] == 0
        assert host.ssh(f"sudo test -e {certificate}", check=False).returncode != 0
    finally:
        host.ssh("sudo sed -i '$d' /etc/ssh/sshd_config")
    assert changes(cluster.play("ssh_trust")) == {cluster.name(1): 1, cluster.name(2): 0}


def test_a_lost_cache_comes_back_from_the_hosts_themselves(cluster: Project) -> None:
    shutil.rmtree(cluster.directory)
    # Without these host keys, the role would need AWS for a host that has no certificate. These tests run without an AWS API.
    cluster.write(2, ssh_trust_host_keys=[])
    done = cluster.play("ssh_trust")
    hosts = cluster.hosts[:2]
    lines = (cluster.directory / "known_hosts").read_text().splitlines()
    assert lines[0] == f"@cert-authority * {cluster.public_key}"
    known = {line.split()[0]: " ".join(line.split()[1:3]) for line in lines[1:]}
    assert set(known) == {host.name for host in hosts}
    assert all(known[host.name] in [" ".join(key.split()[:2]) for key in cluster.consoles[host.name]] for host in hosts)
    again = cluster.play("ssh_trust")
    assert set(changes(again).values()) == {0}, done.stdout + again.stdout
    cluster.write(2)


@pytest.mark.exhaustive
def test_hosts_that_trust_the_known_authority_need_no_private_key(cluster: Project) -> None:
    cluster.write(2, ssh_trust_authority_public_key="", ssh_trust_authority_private_key="")
    try:
        assert set(changes(cluster.play("ssh_trust")).values()) == {0}
        cluster.hosts[1].ssh("sudo rm /etc/ssh/ssh_known_hosts")
        done = cluster.play("ssh_trust", check=False)
        assert f"authority of cluster {CLUSTER}: " in done.stdout, "a host that lacks a file needs AWS, which does not exist here"
    finally:
        cluster.write(2)
    assert changes(cluster.play("ssh_trust")) == {cluster.name(1): 0, cluster.name(2): 1}


def test_check_mode_predicts_and_changes_nothing(cluster: Project) -> None:
    host = cluster.hosts[0]
    host.ssh("sudo rm /etc/ssh/ssh_known_hosts /opt/deeplearning/workers /etc/ssh/deeplearning/user_ed25519-cert.pub")
    done = cluster.play(*ROLES, arguments=("--check", "--diff"))
    assert changes(done) == {cluster.name(1): 2, cluster.name(2): 0}, done.stdout
    assert "+@cert-authority deeplearning-*" in done.stdout
    assert "+deeplearning-worker2" in done.stdout
    assert "+signed by the certificate authority" in done.stdout
    assert host.ssh("test -e /opt/deeplearning/workers || test -e /etc/ssh/deeplearning/user_ed25519-cert.pub", check=False).returncode != 0
    assert changes(cluster.play(*ROLES)) == {cluster.name(1): 2, cluster.name(2): 0}


def test_no_private_key_leaves_its_place(cluster: Project) -> None:
    first, second = (host.ssh("cat /etc/ssh/deeplearning/user_ed25519.pub").stdout for host in cluster.hosts[:2])
    assert first != second
    secret = shlex.quote(cluster.private_key.splitlines()[3])
    # grep reads the text from a file, because sudo logs its arguments.
    search = f"printf %s {secret} >/dev/shm/needle; sudo grep -rlF -f /dev/shm/needle /etc /home /root /tmp /var /run; rm /dev/shm/needle"
    for host in cluster.hosts[:2]:
        assert host.ssh(search, check=False).stdout == ""


@pytest.mark.parametrize("options", ['-o "StrictHostKeyChecking no"', "-o StrictHostKeyChecking=yes", ""])
def test_shell_lines_of_the_contract(cluster: Project, options: str) -> None:
    loop = (
        f'while read -u 10 host; do ssh {options} $host "hostname; cat \\$DEEPLEARNING_WORKERS_PATH" ; done 10<$DEEPLEARNING_WORKERS_PATH'
    )
    lines = cluster.hosts[0].ssh(f"bash -lc {shlex.quote(loop)}").stdout.splitlines()
    names = ["deeplearning-worker1", "deeplearning-worker2"]
    assert lines == [cluster.name(1), *names, cluster.name(2), *names]


def test_commands_without_a_login_shell_have_the_variables_and_copies_work(cluster: Project) -> None:
    """Programs such as sftp fail if a shell prints anything when it starts, so PAM sets the variables instead of a shell."""
    variables = "env | grep -E '^(DEEPLEARNING_WORKERS_(COUNT|PATH)|EFS_MOUNT)=' | sort"
    expected = ["DEEPLEARNING_WORKERS_COUNT=2", "DEEPLEARNING_WORKERS_PATH=/opt/deeplearning/workers", "EFS_MOUNT=/efs"]
    master = cluster.hosts[0]
    assert master.ssh(variables).stdout.split() == expected
    assert master.ssh(f"ssh deeplearning-worker2 {shlex.quote(variables)}").stdout.split() == expected
    master.ssh(
        "date >~/copied && printf 'put copied by-sftp' | sftp -qb - deeplearning-worker2 && rsync ~/copied deeplearning-worker2:by-rsync"
    )
    assert cluster.hosts[1].ssh("cat by-sftp by-rsync | sort -u | wc -l").stdout.strip() == "1"


def test_the_health_check_of_the_former_stack_reaches_every_host_and_the_storage(cluster: Project) -> None:
    remote = '"hostname && touch $EFS_MOUNT/health-$i"'
    check = f"for i in $(seq 1 $DEEPLEARNING_WORKERS_COUNT); do ssh -oStrictHostKeyChecking=no deeplearning-worker$i {remote}; done"
    assert cluster.hosts[0].ssh(f"bash -lc {shlex.quote(check)}").stdout.split() == [cluster.name(1), cluster.name(2)]
    assert cluster.hosts[1].ssh("ls /efs | grep health").stdout.split() == ["health-1", "health-2"]


def test_gpu_list_and_exports(cluster: Project) -> None:
    script = program(*driver(smi(2)))
    host = cluster.hosts[0]
    host.ssh(f"printf %s {shlex.quote(script)} | sudo tee /usr/bin/nvidia-smi >/dev/null; sudo chmod 755 /usr/bin/nvidia-smi")
    cluster.play("worker_metadata")
    assert host.ssh("bash -lc 'seq -s , 0 1 $(($DEEPLEARNING_WORKER_GPU_COUNT - 1))'").stdout.strip() == "0,1"
    exports = host.ssh("bash -lc 'echo $DEEPLEARNING_WORKERS_COUNT $DEEPLEARNING_WORKERS_PATH $EFS_MOUNT'").stdout.split()
    assert exports == ["2", "/opt/deeplearning/workers", "/efs"]
    assert host.ssh("stat -c %U /opt/deeplearning/workers /efs").stdout.split() == ["ubuntu", "ubuntu"]
    document = metadata.parse_metadata(host.ssh("cat /opt/deeplearning/metadata.json").stdout)
    workers = [{"number": number, "address": host.private_ip} for number, host in enumerate(cluster.hosts[:2], 1)]
    assert (document["gpu_count"], document["generation"]) == (2, metadata.generation(CLUSTER, workers))


def test_addresses_and_master_are_trusted_too(cluster: Project) -> None:
    master = cluster.hosts[0]
    for name in ("deeplearning-master", cluster.hosts[1].private_ip):
        master.ssh(f"ssh -o BatchMode=yes -o StrictHostKeyChecking=yes {name} true")


def test_certificate_lets_only_the_login_user_in(cluster: Project) -> None:
    refused = cluster.hosts[0].ssh("ssh -o BatchMode=yes root@deeplearning-worker2 true", check=False)
    assert refused.returncode == 255
    assert "Permission denied" in refused.stderr


def test_new_node_changes_no_trust_on_old_ones(cluster: Project) -> None:
    cluster.write(3)
    trust = cluster.play("ssh_trust")
    assert changes(trust)[cluster.name(2)] == 0
    assert changes(trust)[cluster.name(3)] == 1
    cluster.play("worker_metadata")
    cluster.hosts[0].ssh("ssh -o BatchMode=yes deeplearning-worker3 true")
    cluster.hosts[2].ssh("ssh -o BatchMode=yes deeplearning-worker2 true")


def test_ssh_configuration_of_the_controller(cluster: Project) -> None:
    cluster.write(2)
    cluster.play("ssh_trust")
    for number in (1, 2):
        argv = ["ssh", "-F", str(cluster.directory / "config"), "-o", "BatchMode=yes", cluster.name(number), "hostname"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
        assert done.stdout.strip() == cluster.name(number), done.stderr


def test_lost_controller_files_come_back(cluster: Project) -> None:
    (cluster.directory / "known_hosts").unlink()
    assert changes(cluster.play("ssh_trust"))[cluster.name(2)] == 0
    assert set(changes(cluster.play("ssh_trust")).values()) == {0}


def test_stolen_address_is_refused(cluster: Project) -> None:
    """The host keys of the machine at the address of worker 2 differ from those in the console output."""
    host = cluster.hosts[1]
    ours = "/etc/ssh/deeplearning /etc/ssh/sshd_config.d/40-deeplearning.conf"
    impostor = f"sudo cp -a /etc/ssh /etc/ssh.saved; sudo rm -rf /etc/ssh/ssh_host_* {ours}; sudo ssh-keygen -qA"
    host.ssh(f"{impostor}; sudo systemctl restart ssh")
    try:
        done = cluster.play(
            "ssh_trust", arguments=("--limit", cluster.name(2), "-e", "ansible_ssh_args=-C"), check=False
        )  # do not reuse an open connection
        assert done.returncode != 0
        assert "UNREACHABLE" in done.stdout
        assert "Host key verification failed" in done.stdout or "IDENTIFICATION HAS CHANGED" in done.stdout
        among = cluster.hosts[0].ssh("ssh -o BatchMode=yes deeplearning-worker2 true", check=False)
        assert among.returncode == 255
        assert "verification failed" in among.stderr
    finally:
        host.ssh("sudo rm -rf /etc/ssh && sudo mv /etc/ssh.saved /etc/ssh && sudo systemctl restart ssh")


def test_broken_sshd_configuration_keeps_the_old_file(cluster: Project) -> None:
    host = cluster.hosts[1]
    drop_in = "/etc/ssh/sshd_config.d/40-deeplearning.conf"
    host.ssh(f"echo '# old' | sudo tee {drop_in}; echo NoSuchKeyword yes | sudo tee /etc/ssh/sshd_config.d/99-broken.conf")
    done = cluster.play("ssh_trust", check=False)
    assert "sshd rejected its new configuration, so the old one was restored" in done.stdout
    assert host.ssh(f"cat {drop_in}").stdout == "# old\n"
    host.ssh("sudo rm /etc/ssh/sshd_config.d/99-broken.conf")
    assert changes(cluster.play("ssh_trust"))[cluster.name(2)] == 1


@pytest.mark.exhaustive
def test_a_client_that_installing_does_not_bring_is_asked_for_once(cluster: Project) -> None:
    """The package is installed but its mount helper is missing, so the test downloads nothing."""
    host = cluster.hosts[0]
    host.ssh("sudo umount /efs && cd /usr/local/sbin && sudo mkdir away && sudo mv mount.nfs4 mount.efs away")
    try:
        done = cluster.play("shared_storage", check=False)
        assert done.stdout.count("TASK [deeplearning.cluster.shared_storage : Install the client]") == 1
        assert "this host has no NFS client. Install the package nfs-common" in done.stdout
        assert changes(done)[cluster.name(2)] == 0
    finally:
        host.ssh("cd /usr/local/sbin && sudo mv away/* . && sudo rmdir away")
    assert changes(cluster.play("shared_storage")) == {cluster.name(1): 1, cluster.name(2): 0}


@pytest.mark.exhaustive
def test_the_distributions_own_updates_may_hold_the_lock_for_a_while(cluster: Project) -> None:
    """On Ubuntu images of AWS, unattended upgrades run for minutes after the boot. By default, Ansible waits 60 s."""
    host, only_first = cluster.hosts[0], ("--limit", cluster.name(1))
    purge(cluster, (1,), ["nfs-common"])
    host.ssh("sudo umount /efs && cd /usr/local/sbin && sudo mkdir away && sudo mv mount.nfs4 mount.efs away")
    # The package contains the kernel's helper, which hosts of the local cloud cannot use
    restore = "mv /usr/local/sbin/away/* /usr/local/sbin && rmdir /usr/local/sbin/away"
    lock = (
        "import fcntl, os, sys; file = open('/var/lib/dpkg/lock-frontend', 'w'); fcntl.lockf(file, fcntl.LOCK_EX); os.system(sys.argv[1])"
    )
    host.ssh(shlex.join(["sudo", "systemd-run", "--unit=updates", "python3", "-c", lock, f"sleep 150; {restore}"]))
    assert changes(cluster.play("shared_storage", arguments=only_first))[cluster.name(1)] > 0
    assert host.ssh("mountpoint -q /efs && dpkg-query --show --showformat='${db:Status-Status}' nfs-common").stdout == "installed"


def test_certificates_that_would_always_be_renewed_are_refused(cluster: Project) -> None:
    done = cluster.play("ssh_trust", arguments=("-e", '{"ssh_trust_validity_days": 5}'), check=False)
    assert "validity_days: must be greater than renew_days" in done.stdout


def test_tls_and_lustre(cluster: Project) -> None:
    host, only_first = cluster.hosts[0], ("--limit", cluster.name(1))
    cluster.runtime.export(LUSTRE, [f"{LUSTRE_SERVER}@tcp:abcdefgh"])
    other = {
        "deeplearning_encrypt_in_transit": True,
        "deeplearning_mount_point": "/tls",
        "deeplearning_lustre_source": f"{LUSTRE_SERVER}@tcp:/abcdefgh",
    }
    cluster.write(1, **other)
    host.ssh("sudo mv /usr/local/sbin/mount.lustre /usr/local/sbin/away")
    done = cluster.play("shared_storage", arguments=only_first, check=False)
    host.ssh("sudo mv /usr/local/sbin/away /usr/local/sbin/mount.lustre")
    assert "this host has no Lustre client. Install the client for its kernel" in done.stdout
    assert "after 180 s" not in done.stdout, "without a client, the role does not try to mount"
    assert host.ssh("stat -c %U /tls").stdout.strip() == "ubuntu", "storage that has a client is mounted nevertheless"

    assert changes(cluster.play("shared_storage", arguments=only_first)) == {cluster.name(1): 1}
    assert changes(cluster.play("shared_storage", arguments=only_first)) == {cluster.name(1): 0}
    host.ssh("touch /tls/shared /fsx/fast && test -e /efs/shared")
    fstab = host.ssh("cat /etc/fstab").stdout.splitlines()
    assert [line.split()[1:3] for line in fstab if line.startswith("fs-")][1:] == [["/tls", "efs"], ["/fsx", "lustre"]]

    cluster.write(1, **other, shared_storage_state="absent")
    cluster.play("shared_storage", arguments=only_first)
    assert host.ssh("mountpoint -q /tls || mountpoint -q /fsx || grep -E ' /(tls|fsx) ' /etc/fstab", check=False).returncode != 0
    cluster.write(2)


@pytest.mark.exhaustive
def test_metadata_goes_away(cluster: Project) -> None:
    cluster.write(2, worker_metadata_state="absent", shared_storage_state="absent")
    cluster.play("shared_storage", "worker_metadata")
    gone = "/opt/deeplearning /etc/profile.d/deeplearning.sh /etc/cloud/cloud.cfg.d/zz-deeplearning-hosts.cfg"
    for host in cluster.hosts[:2]:
        assert host.ssh(f"ls -d {gone}", check=False).stdout == ""
        assert "deeplearning" not in host.ssh("cat /etc/hosts /etc/environment").stdout
        assert host.ssh("grep /efs /etc/fstab || mountpoint -q /efs", check=False).returncode != 0
    assert set(changes(cluster.play("shared_storage", "worker_metadata")).values()) == {0}
