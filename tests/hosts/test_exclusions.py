"""Jobs on real hosts continue without an unhealthy host, and do not use excluded hosts."""

from __future__ import annotations

import json
import shlex

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause, explain
from gpu_tools import kernel_log, program
from local_cloud.testing import wait_until

from .cluster import CLUSTER, job_cluster

pytestmark = pytest.mark.exhaustive

TWO, THREE = f"{CLUSTER}-worker2", f"{CLUSTER}-worker3"
LOST = "NVRM: Xid (PCI:0000:64:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LINK = "NVRM: Xid (PCI:0000:64:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6"
NEW = "NVRM: Xid (PCI:0000:64:00): 4711, pid='<unknown>', name=<unknown>, something that no table knows"
OPTIONS = {"launcher": "command", "launcher_options": {"hosts": "all"}, "python": "/usr/bin/python3"}

# In the first attempt, the script waits for a file and rank 0 is then killed.
SCRIPT = """
    import os, pathlib, signal, time
    folder = pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
    print("attempt", os.environ["DEEPLEARNING_ATTEMPT"], flush=True)
    if os.environ["DEEPLEARNING_ATTEMPT"] == "1":
        while not pathlib.Path("/efs/go").exists():
            time.sleep(0.2)
        if os.environ["DEEPLEARNING_RANK"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("exclusions"), [], count=3) as result:
        result.trust()
        yield result


def kernel(host, *lines):
    """Replay a kernel log with these lines."""
    text = program(("'--dmesg --boot'*", kernel_log(*lines), 0))
    host.ssh(f"printf %s {shlex.quote(text)} | sudo tee /usr/local/sbin/journalctl >/dev/null && sudo chmod 755 /usr/local/sbin/journalctl")


def health(cluster, **variables):
    done = cluster.play("deeplearning.cluster.health", "-e", json.dumps(variables))
    return done, done.stdout.replace('"msg": "', "\n").replace("\\n", "\n")


def fail(cluster, name, line, **variables):
    """Run a job that fails after a line in the kernel log of the second host. Return its status and the completed play."""
    for host in cluster.hosts:
        kernel(host)
    cluster.hosts[0].ssh("rm -f /efs/go")
    cluster.start(name, SCRIPT, restarts=3, **OPTIONS, **variables)
    kernel(cluster.hosts[1], line)
    cluster.hosts[0].ssh("touch /efs/go")
    done = cluster.train(name, SCRIPT, restarts=3, **OPTIONS, **variables)
    return cluster.info(name), done


def test_a_job_continues_on_a_spare_and_later_jobs_avoid_the_unhealthy_host(cluster):
    names = [worker["name"] for worker in cluster.workers]
    job, done = fail(cluster, "xid", LOST, spares=1)
    assert (job["state"], job["attempt"]) == ("succeeded", 2), done.stdout
    assert [each["host"] for each in job["processes"]] == [names[0], names[2]]
    assert attempt_cause(job["attempts"][0]).startswith(f"health finding on {names[1]}: GPU 0000:64:00: Xid 79 ")
    assert f"in place of {names[1]}. {names[1]} should be replaced." in explain(job["attempts"][0])
    assert cluster.processes("/efs/jobs/xid/code") == []
    socket = cluster.hosts[1].ssh("sudo systemctl show -p ActiveState deeplearning-health.socket deeplearning-health.service").stdout
    assert "ActiveState=failed" not in socket

    cluster.hosts[0].ssh("touch /efs/go")
    script = 'print("trained")\n'
    avoiding = cluster.train("avoids", script, spares=1, **OPTIONS)
    assert avoiding.returncode == 0, avoiding.stdout + avoiding.stderr
    assert f"{TWO} has been excluded from jobs since " in avoiding.stdout
    assert {each["host"] for each in cluster.info("avoids")["processes"]} == {names[0], names[2]}
    refused = cluster.train("refused", script, **OPTIONS)
    assert refused.returncode != 0
    assert f"Job refused was not started: {TWO} has been excluded from jobs since " in " ".join(refused.stdout.split())

    done, text = health(cluster)
    assert done.returncode != 0
    assert f"excluded {TWO}: since " in text
    assert f"Jobs use {TWO} again when the check that has excluded the node passes. After an Xid error, this requires a reboot." in text
    kernel(cluster.hosts[1])
    done, text = health(cluster)
    assert (done.returncode, f"excluded {TWO}: since " in text) == (0, True), done.stdout
    done, text = health(cluster, node_health_include=[TWO])
    assert (done.returncode, "excluded" in text) == (0, False), done.stdout


def test_a_job_waits_for_a_host_that_must_be_rebooted_if_it_needs_the_host(cluster):
    """A check reports the finding while the job runs. The host reboots when its supervisor has ended, and starts the supervisor again."""
    host, name = cluster.hosts[1], cluster.workers[1]["name"]
    for each in cluster.hosts:
        kernel(each)
        each.ssh("echo 'fs-0123456789abcdef0:/ /efs nfs4 nfsvers=4.1,nosuid,nodev,_netdev,nofail 0 0' | sudo tee -a /etc/fstab")
    text = program(("'--dmesg --boot'*", kernel_log(LINK), 0)).replace("#!/bin/sh\n", "#!/bin/sh\n[ -e /run/fault ] || exit 0\n", 1)
    host.ssh(f"printf %s {shlex.quote(text)} | sudo tee /usr/local/sbin/journalctl >/dev/null")
    script = """
        import os, time
        print("runs", flush=True)
        time.sleep(600 if os.environ["DEEPLEARNING_ATTEMPT"] == "1" else 0)
    """
    cluster.start("reboots", script, restarts=3, health_interval=5, reboot=True, **OPTIONS)
    host.ssh("sudo touch /run/fault")
    wait_until(lambda: not cluster.runtime.is_alive(host.name), 180)
    assert cluster.runtime.is_rebooting(host.name)
    job = cluster.info("reboots")
    assert (job["state"], job["attempt"]) == ("running", 1), "the job waits"
    cluster.runtime.start(host.spec())
    wait_until(lambda: cluster.runtime.is_booted(host.name))
    wait_until(lambda: cluster.info("reboots")["state"] != "running", 120)
    job = cluster.info("reboots")
    assert (job["state"], job["attempt"], len(job["processes"])) == ("succeeded", 2, 3)
    assert attempt_cause(job["attempts"][0]).startswith(f"health finding on {name}: GPU 0000:64:00: Xid 74 ")
    assert explain(job["attempts"][0]) == f"{name} has been rebooted, and the job continues on the same hosts."
    assert cluster.members("reboots") == []
    memory = "/var/lib/deeplearning-node-health"
    assert '"exclusions": []' in host.ssh(f"cat {memory}/exclusions.json").stdout
    assert '"findings": []' in host.ssh(f"cat {memory}/boot.json").stdout
    assert host.ssh(f"sudo ls {memory}/rejoin").stdout == "", "secrets do not stay on the disk"
    assert "61000" in host.ssh("sudo nft list set inet deeplearning job_users").stdout, "the job's user cannot use NFS directly"
    assert host.ssh("systemctl is-active deeplearning-health.socket deeplearning_health_periodic.timer").stdout.split() == ["active"] * 2

    # Together with the failure of another test, this failure would exclude the host.
    cluster.hosts[0].ssh("sudo rm -f /efs/jobs/.host-failures/*")
    later = cluster.train("later", "print()\n", **OPTIONS)
    assert later.returncode == 0, later.stdout + later.stderr
    assert len(cluster.info("later")["processes"]) == 3


def test_an_unknown_xid_has_no_effect(cluster):
    job, _done = fail(cluster, "unknown", NEW)
    assert (job["state"], job["attempt"], len(job["processes"])) == ("succeeded", 2, 3)
    assert attempt_cause(job["attempts"][0]).startswith(f"rank 0 on {cluster.workers[0]['name']} was killed by signal SIGKILL")


def test_only_a_person_ends_the_exclusion_of_a_person(cluster):
    for variables, message in (
        ({"node_health_exclude": THREE}, f"node_health_reason: missing. Say why jobs must not use {THREE}."),
        ({"node_health_exclude": "nowhere", "node_health_reason": "r"}, "not reachable or not in the inventory: nowhere."),
    ):
        done, text = health(cluster, **variables)
        assert done.returncode != 0
        assert message in " ".join(text.split()), done.stdout
    done, text = health(cluster, node_health_exclude=THREE, node_health_reason="bad cable")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by a person: bad cable." in text
    assert f"-e node_health_include={THREE}" in text
    done, text = health(cluster)
    assert "by a person: bad cable." in text
    refused = cluster.train("person", "print()\n", **OPTIONS)
    assert "by a person: bad cable." in " ".join(refused.stdout.split())
    smaller = cluster.train("smaller", "print()\n", min_hosts=2, **OPTIONS)
    assert smaller.returncode == 0, smaller.stdout + smaller.stderr
    assert len(cluster.info("smaller")["processes"]) == 2
    done, text = health(cluster, node_health_include=[THREE])
    assert "excluded" not in text, done.stdout
    assert cluster.train("all", "print()\n", **OPTIONS).returncode == 0
    assert len(cluster.info("all")["processes"]) == 3
