"""Healthy hosts have no findings, and the checks find each fault on the host that has it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause
from gpu_tools import NO_DRIVER, PERSISTENCE, dcgm_4, driver, kernel_log, nvlink, process, program, smi
from local_cloud.testing import wait_until

from .cluster import CLUSTER, job_cluster

ONE, TWO = f"{CLUSTER}-worker1", f"{CLUSTER}-worker2"
LOST = "NVRM: Xid (PCI:0000:64:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
NEW = "NVRM: Xid (PCI:0000:75:00): 4711, pid=1, name=systemd, something that no table knows"
P5 = {"deeplearning_instance_type": "p5.48xlarge"}
# A directory that precedes /usr/bin in root's PATH and is writable only by root.
# Without this file, a host is like a new one.
EXCLUSIONS = "/var/lib/deeplearning-node-health/exclusions.json"
PROGRAMS = "/usr/local/sbin"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("health"), [], count=2, with_fuse=True) as result:
        result.trust()
        for host in result.hosts:
            # The health check finds the shared storage in fstab.
            host.ssh("echo 'fs-0123456789abcdef0:/ /efs nfs4 nfsvers=4.1,nosuid,nodev,_netdev,nofail 0 0' | sudo tee -a /etc/fstab")
        yield result


def install(host, name, text):
    host.ssh(f"printf %s {shlex.quote(text)} | sudo tee {PROGRAMS}/{name} >/dev/null && sudo chmod 755 {PROGRAMS}/{name}")


def gpus(host, count, configured=8, **options):
    """Give a host a fake driver for `count` GPUs, and metadata with the GPU count `configured`."""
    install(host, "nvidia-smi", program(*driver(smi(count, **options), 0, nvlink(*[18] * count))))
    host.ssh(f'sudo sed -i \'s/"gpu_count": [0-9]*/"gpu_count": {configured}/\' /opt/deeplearning/metadata.json')


@pytest.fixture
def repaired(cluster):
    """Undo the changes that a test made to the hosts."""
    yield
    for host in cluster.hosts:
        host.ssh(
            f"sudo rm -f {PROGRAMS}/nvidia-smi {PROGRAMS}/journalctl {PROGRAMS}/dcgmi {EXCLUSIONS}; "
            'sudo sed -i \'s/"gpu_count": [0-9]*/"gpu_count": 0/\' /opt/deeplearning/metadata.json'
        )


def health(cluster, **variables):
    """Run the playbook. Return the completed process, and the findings as `{check: (severity, hosts, message)}`."""
    done = cluster.play("deeplearning.cluster.health", "-e", json.dumps(variables))
    text = done.stdout.replace('"msg": "', "\n").replace("\\n", "\n")
    lines = re.findall(r"^(monitor|restart|reboot|replace) +([^:\n]+): ([\w.-]+): (.*)$", text, re.MULTILINE)
    return done, {check: (severity, hosts, message) for severity, hosts, check, message in lines}


def test_healthy_hosts_have_no_findings(cluster):
    done, found = health(cluster)
    assert done.returncode == 0, done.stdout + done.stderr
    assert found == {}
    assert "All 2 nodes are healthy." in done.stdout
    assert set(re.findall(r"changed=(\d+)", done.stdout)) == {"0"}
    assert cluster.hosts[0].ssh("ls -A /efs").stdout == "", "the files in the storage have been removed"


def test_healthy_gpus_have_no_findings(cluster, repaired):
    for host in cluster.hosts:
        gpus(host, 8)
        install(host, "journalctl", program(("'--dmesg --boot'*", kernel_log(), 0)))
    install(cluster.hosts[0], "dcgmi", program(("'diag --run 3 --json'", dcgm_4(), 0)).replace("sleep 0", "touch /run/dcgmi"))
    done, found = health(cluster, **P5, node_health_deep=True, node_health_dcgm_level=3)
    assert (done.returncode, found) == (0, {}), done.stdout + done.stderr
    assert cluster.hosts[0].ssh("sudo rm /run/dcgmi").returncode == 0, "the tests of DCGM have run"


def test_each_fault_is_found_on_the_host_that_has_it(cluster, repaired):
    """The second host has faults in its shared storage, a disk, its name, certificate, GPUs and kernel log, all at the same time."""
    first, second = cluster.hosts
    gpus(first, 8)
    left = second.ssh("nohup sleep 3600 >/dev/null 2>&1 & echo $!").stdout.strip()
    gpus(second, 7, processes=process(int(left), "/usr/bin/sleep"))
    install(second, "journalctl", program(("'--dmesg --boot'*", kernel_log(LOST, NEW, NEW), 0)))
    second.ssh(
        "sudo mkdir -p /mnt/small && sudo mount -t tmpfs -o size=8m tmpfs /mnt/small && sudo fallocate -l 8M /mnt/small/full; "
        "sudo sed -i.bak '/deeplearning-worker1/s/^[0-9.]*/192.0.2.99/' /etc/hosts && sudo umount /efs"
    )
    expire(cluster, second)
    try:
        done, found = health(cluster, **P5, node_health_disks=["/mnt/small"])
    finally:
        second.ssh(f"kill {left}; sudo umount /mnt/small; sudo cp /etc/hosts.bak /etc/hosts; sudo mount /efs")
    assert done.returncode != 0
    assert {check: severity for check, (severity, _hosts, _message) in found.items()} == {
        "storage": "restart",
        "disks": "restart",
        "names": "restart",
        "certificates": "restart",
        "gpu_count": "replace",
        "gpu_processes": "monitor",
        "xid": "monitor",  # the second of two findings, because the most severe finding is first
    }, done.stdout + done.stderr
    assert {hosts for _severity, hosts, _message in found.values()} == {TWO}
    assert "replace  " + f"{TWO}: xid: GPU 0000:64:00: Xid 79" in done.stdout
    assert "Xid 4711, 2 times since boot" in found["xid"][2]
    assert found["storage"][2].startswith("/efs: nothing is mounted")
    assert found["gpu_count"][2].startswith("GPUs: nvidia-smi lists 7, but instance type p5.48xlarge has 8")
    assert f"process {left}: sleep of user ubuntu belongs to no job" in found["gpu_processes"][2]
    assert "1 of 2 nodes are healthy." in done.stdout
    assert f"Replace {TWO}, or run jobs without it" in done.stdout
    assert re.findall(r"^fatal: \[(.*?)\]", done.stdout, re.MULTILINE) == [TWO]
    assert cluster.hosts[0].ssh("ls -A /efs").stdout == "", "nothing is left"
    cluster.trust()  # renews the certificate


def expire(cluster, host):
    """Replace the host certificate with one that expired yesterday."""
    folder = cluster.folder / "expired"
    folder.mkdir(exist_ok=True)
    (folder / "key.pub").write_text(host.ssh("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "authority")], check=True)
    sign = ["ssh-keygen", "-q", "-s", str(folder / "authority"), "-I", "old", "-h", "-V", "-9d:-1d", str(folder / "key.pub")]
    subprocess.run(sign, check=True)
    text = (folder / "key-cert.pub").read_text().strip()
    host.ssh(f"echo {shlex.quote(text)} | sudo tee /etc/ssh/deeplearning/ssh_host_ed25519_key-cert.pub")


@pytest.mark.exhaustive
def test_a_driver_that_hangs_is_a_finding_and_the_others_are_checked(cluster, repaired):
    for host, pause in zip(cluster.hosts, (0, 3600), strict=True):
        host.ssh(f"sudo install -D /dev/null {PERSISTENCE}")
        install(host, "nvidia-smi", program(*driver(NO_DRIVER, 9), pause=pause))
    done, found = health(cluster)
    assert done.returncode != 0
    assert {check: (severity, hosts) for check, (severity, hosts, _message) in found.items()} == {
        "gpu_count": ("reboot", TWO),
        "gpu_links": ("monitor", TWO),
    } | ({"gpu_count": ("monitor", ONE)} if found["gpu_count"][1] == ONE else {})
    assert f"reboot   {TWO}: gpu_count: nvidia-smi: no answer within 30 s." in done.stdout
    assert f"monitor  {ONE}: gpu_count: nvidia-smi: NVIDIA-SMI has failed" in done.stdout
    assert f"ansible -i inventory.yml {TWO} --become -m ansible.builtin.reboot" in done.stdout
    assert cluster.hosts[1].ssh("pgrep -f nvidia-smi", check=False).stdout == "", "the hanging program has been killed"


@pytest.mark.exhaustive
def test_storage_that_hangs_is_named(cluster):
    """A stopped rclone process simulates storage that hangs."""
    host = cluster.hosts[1]
    if host.ssh("test -c /dev/fuse", check=False).returncode:
        pytest.skip("This machine lets no container use /dev/fuse.")
    host.ssh("mkdir -p /tmp/source && sudo mkdir -p /mnt/stalled && sudo chown ubuntu /mnt/stalled")
    host.ssh("rclone mount --daemon /tmp/source /mnt/stalled")
    try:
        done, found = health(cluster, node_health_mounts=["/mnt/stalled"])
        assert {check: hosts for check, (_severity, hosts, _message) in found.items()} == {"storage": ONE}, "it is not mounted there"
        host.ssh("pkill -STOP rclone")
        done, found = health(cluster, node_health_mounts=["/mnt/stalled"])
    finally:
        host.ssh("pkill -CONT rclone; fusermount3 -u /mnt/stalled")
    assert f"restart  {TWO}: storage: /mnt/stalled: no answer within 5 s." in done.stdout, done.stdout + done.stderr


def test_storage_that_differs_between_nodes_is_found(cluster):
    """Each node can write, but the nodes do not see each other's files."""
    host = cluster.hosts[1]
    host.ssh("sudo mount -t tmpfs tmpfs /efs && sudo chown ubuntu /efs")
    try:
        done, found = health(cluster)
    finally:
        host.ssh("sudo umount /efs")
        cluster.hosts[0].ssh("rm -f /efs/.deeplearning-health-*")
    assert done.returncode != 0
    assert set(found) == {"storage_of_peer"}, done.stdout + done.stderr
    for worker in (1, 2):
        assert f"/efs: cannot read the file that worker {worker} has written: No such file" in done.stdout


def test_checks_of_users_run_on_every_host(cluster):
    folder = cluster.folder / "checks"
    folder.mkdir(exist_ok=True)
    scripts = {
        "fine": "id -un | grep -qx ubuntu",
        "first": f"hostname -I | grep -q '^{cluster.hosts[1].private_ip} ' || {{ echo the first host; exit 1; }}",
        "slow": "sleep 3600",
        "rude": "printf '\\033[31mred\\007\\n'; exit 2",
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    (folder / "README").write_text("not a program\n")
    done, found = health(cluster, node_health_checks="checks", node_health_checks_timeout=2)
    assert done.returncode != 0
    assert found == {
        "first": ("restart", ONE, "the first host"),
        "slow": ("restart", "all 2 hosts", "no result within 2 s"),
        "rude": ("restart", "all 2 hosts", "red"),
    }, done.stdout + done.stderr
    assert "README is not executable, so it is not run" in " ".join(done.stderr.split())
    assert cluster.hosts[0].ssh("ls -A ~ | grep health", check=False).stdout == "", "the programs have been removed"
    refused = cluster.play("deeplearning.cluster.health", "-e", "node_health_checks=nowhere")
    assert "'nowhere' is not a directory on the controller" in " ".join(refused.stdout.split())


def test_a_job_does_not_start_on_an_unhealthy_host(cluster, repaired):
    script = """
        print("trained")
    """
    options = {"launcher": "command", "python": "/usr/bin/python3"}
    for host in cluster.hosts:
        gpus(host, 8)
    install(cluster.hosts[1], "journalctl", program(("'--dmesg --boot'*", kernel_log(LOST), 0)))
    refused = cluster.train("unhealthy", script, **options)
    assert refused.returncode != 0
    assert re.search(rf"\[{TWO}\]: FAILED!.*this node is unhealthy\. xid: GPU 0000:64:00: Xid 79", refused.stdout), refused.stdout
    assert cluster.processes("unhealthy") == []
    install(cluster.hosts[1], "journalctl", program(("'--dmesg --boot'*", kernel_log(), 0)))
    gpus(cluster.hosts[1], 7, configured=7)
    refused = cluster.play(cluster.playbook("unhealthy", script, **options), "-e", json.dumps(P5))
    assert "this node is unhealthy. gpu_count: GPUs: nvidia-smi lists 7, but instance type p5.48xlarge has 8." in refused.stdout
    done = cluster.train("unhealthy", script, health_check=False, gpus=[0], **options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert cluster.read("/efs/jobs/unhealthy/logs/rank0.log") == "trained\n"


def test_a_finding_while_a_job_runs_restarts_the_job_without_the_host(cluster, repaired):
    script = """
        import os, time
        print("runs", flush=True)
        time.sleep(600 if os.environ["DEEPLEARNING_ATTEMPT"] == "1" else 0)
    """
    options = {"launcher": "command", "launcher_options": {"hosts": "all"}, "python": "/usr/bin/python3"}
    cluster.start("watched", script, restarts=1, min_hosts=1, health_interval=2, **options)
    install(cluster.hosts[1], "journalctl", program(("'--dmesg --boot'*", kernel_log(LOST), 0)))
    wait_until(lambda: cluster.info("watched")["state"] != "running", 120)
    job = cluster.info("watched")
    assert (job["state"], job["attempt"], len(job["processes"])) == ("succeeded", 2, 1)
    assert attempt_cause(job["attempts"][0]).startswith(f"health finding on {cluster.workers[1]['name']}: GPU 0000:64:00: Xid 79 ")
    assert cluster.members("watched") == []

    boot = f"sudo systemctl restart deeplearning_health_boot; cat {EXCLUSIONS}"
    assert '"by": "xid"' in cluster.hosts[1].ssh(boot).stdout
    install(cluster.hosts[1], "journalctl", program(("'--dmesg --boot'*", kernel_log(), 0)))
    assert '"by": "xid"' in cluster.hosts[1].ssh(boot).stdout, "the kernel log can lose the error"
    done, _found = health(cluster, node_health_include=[TWO])
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"exclusions": []' in cluster.hosts[1].ssh(boot).stdout
