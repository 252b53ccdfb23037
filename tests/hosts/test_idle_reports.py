"""Hosts report on their consoles whether anything runs on them, or tell EMR. Real processes run on real hosts."""

from __future__ import annotations

import os
import shlex
import time

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.idle.function import REPORT, without_kernel
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.idle_reports.report import EMR_BUSY
from gpu_tools import driver, process, program, smi
from local_cloud.testing import wait_until

from .cluster import job_cluster

# The test hosts look more often than once a minute.
INTERVAL = 1
FASTER = "/etc/systemd/system/deeplearning_idle.timer.d"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can see the files of containers")
# Computes for 8 % of the time, like a process that waits for a GPU without spinning. Two looks at a busy machine can be a second apart and
# must not miss it, so it computes often.
QUIET = (
    "python3 -c 'import time\nwhile True:\n end = time.process_time() + 0.008\n while time.process_time() < end: pass\n time.sleep(0.092)'"
)
LOOP = QUIET.replace("0.008", "0.05")
# The parent of a child after vfork(2) waits without interruption, like a process whose storage does not respond.
WAITING = "python3 -c 'import ctypes, time; ctypes.CDLL(None).vfork(); time.sleep(3600)'"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("idle"), [], count=1) as result:
        assert install(result)
        look_more_often(*result.hosts)
        assert becomes_idle(result, result.hosts[0])  # afterwards each look that finds a use reports it
        yield result


def look_more_often(*hosts):
    for host in hosts:
        host.ssh(
            f"sudo mkdir -p {FASTER} && printf '[Timer]\\nOnUnitInactiveSec=\\nOnActiveSec=1\\nOnUnitInactiveSec={INTERVAL}\\n' "
            f"| sudo tee {FASTER}/test.conf && sudo systemctl daemon-reload && sudo systemctl restart deeplearning_idle.timer"
        )


def install(cluster, *options, **arguments) -> bool:
    """Run the module, and return whether it has changed the host."""
    playbook = cluster.folder / "idle.yml"
    task = {"deeplearning.cluster.idle_reports": arguments, "become": True}
    playbook.write_text(yaml.safe_dump([{"hosts": "trainers", "gather_facts": False, "tasks": [task]}]))
    done = cluster.play(str(playbook), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return "changed=1" in done.stdout


def reports(cluster, host) -> list[tuple[str, str]]:
    """Return since when the host has been idle, or an empty string, and the time of the report, for each report."""
    return REPORT.findall(without_kernel(cluster.runtime.console_output(host.name)))


def becomes_idle(cluster, host) -> bool:
    """Return whether the host reports that it is idle. This process does not log in meanwhile, because that is a use of the host."""
    time.sleep(4 * INTERVAL)  # until what has just begun has been seen
    try:
        wait_until(lambda: [since for since, _time in reports(cluster, host)][-1:] not in ([], [""]), 40, INTERVAL / 2)
    except TimeoutError:
        return False
    return True


def stays_in_use(cluster, host) -> bool:
    """Return whether four looks in a row find that the host is in use. A busy machine may look later than intended."""
    before = len(reports(cluster, host))
    try:
        wait_until(lambda: [since for since, _time in reports(cluster, host)[before:]][-4:] == [""] * 4, 40, INTERVAL / 2)
    except TimeoutError:
        return False
    return True


def put(host, path, text, mode="644"):
    host.ssh(f"printf %s {shlex.quote(text)} | sudo tee {path} >/dev/null && sudo chmod {mode} {path}")


def background(command: str) -> str:
    return f"nohup {command} >/dev/null 2>&1 & echo $! >/tmp/started"


# A process has opened the GPU, which computes or does not
GPU_BUSY, GPU_OPEN = (
    smi(1, processes=process(1)).replace("<uuid>", f"<utilization><gpu_util>{use} %</gpu_util></utilization><uuid>") for use in (40, 0)
)
JOB = ("sudo mkdir -p /run/deeplearning/jobs/digits-0", "sudo rm -r /run/deeplearning/jobs/digits-0")
USES = {
    "a quiet process": (background(QUIET), "kill $(cat /tmp/started)"),
    "a process that waits for storage": (background(WAITING), "pkill -9 -f vfork"),
    "a transient unit": (f"sudo systemd-run --quiet --unit=study {QUIET}", "sudo systemctl stop study"),
    "a job": JOB,
    "a job of Slurm": ("cp /bin/sleep /tmp/slurmstepd; " + background("/tmp/slurmstepd 3600"), "kill $(cat /tmp/started)"),
}


@pytest.mark.parametrize("use", USES)
def test_a_host_in_use_does_not_report_that_it_is_idle(cluster, use):
    (host,) = cluster.hosts
    begin, end = USES[use]
    host.ssh(begin)
    try:
        assert stays_in_use(cluster, host), why(host)
    finally:
        host.ssh(end)
    assert becomes_idle(cluster, host), why(host)


def why(host) -> str:
    return host.ssh("cat /run/deeplearning-idle.json; journalctl --no-pager -n 30 -u deeplearning_idle", check=False).stdout


def test_a_service_of_a_person_is_a_use_and_a_daemon_of_the_system_is_none(cluster):
    (host,) = cluster.hosts
    for folder, is_use in (("/lib/systemd/system", False), ("/etc/systemd/system", True)):
        put(host, "/tmp/agent", f"#!/bin/sh\nexec {LOOP}\n", "755")
        put(host, f"{folder}/agent.service", "[Service]\nExecStart=/tmp/agent\n")
        host.ssh("sudo systemctl daemon-reload && sudo systemctl start agent")
        assert (stays_in_use if is_use else becomes_idle)(cluster, host), why(host)
        host.ssh(f"sudo systemctl stop agent; sudo rm {folder}/agent.service")
    assert becomes_idle(cluster, host), why(host)


def test_a_gpu_is_in_use_while_it_computes(cluster):
    (host,) = cluster.hosts
    for listing, is_use in ((GPU_BUSY, True), (GPU_OPEN, False)):
        put(host, "/usr/local/sbin/nvidia-smi", program(*driver(listing)), "755")
        assert (stays_in_use if is_use else becomes_idle)(cluster, host), why(host)
    host.ssh("sudo rm /usr/local/sbin/nvidia-smi")


def test_processes_that_sleep_or_only_show_what_others_do_are_no_use(cluster):
    (host,) = cluster.hosts
    put(host, "/tmp/htop", "#!/bin/sh\nwhile :; do :; done\n", "755")
    for command in ("sleep 3600", "/tmp/htop"):
        host.ssh(background(command))
        assert becomes_idle(cluster, host), why(host)
        host.ssh("kill $(cat /tmp/started)")


def test_an_idle_host_repeats_its_report_and_ends_it_at_once(cluster):
    (host,) = cluster.hosts
    assert becomes_idle(cluster, host), why(host)
    before = reports(cluster, host)
    host.ssh('sudo sed -i \'s/"reported": [0-9.]*/"reported": -1000/\' /run/deeplearning-idle.json')  # 10 minutes have passed
    wait_until(lambda: len(reports(cluster, host)) > len(before), 60, INTERVAL / 2)
    host.ssh(background(QUIET))
    wait_until(lambda: reports(cluster, host)[-1][0] == "", 60, INTERVAL / 2)
    host.ssh("kill $(cat /tmp/started)")


def test_only_root_can_write_reports(cluster):
    (host,) = cluster.hosts
    assert host.ssh("echo forged >/dev/console", check=False).returncode != 0
    assert host.ssh("echo {} >/run/deeplearning-idle.json", check=False).returncode != 0


def test_the_timer_is_installed_once_and_removed(cluster):
    (host,) = cluster.hosts
    assert not install(cluster)
    assert install(cluster, "--check", state="absent")
    assert host.ssh("systemctl is-active deeplearning_idle.timer").stdout.strip() == "active"
    assert install(cluster, state="absent")
    assert not install(cluster, state="absent")
    assert host.ssh("ls -d /etc/systemd/system/deeplearning_idle.* /var/lib/deeplearning-idle/*", check=False).stdout.split() == [FASTER]
    count = len(reports(cluster, host))
    time.sleep(3 * INTERVAL)
    assert len(reports(cluster, host)) == count


@pytest.fixture(scope="module")
def emr(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("emr"), [], count=2) as result:
        result.trust()
        result.hosts[0].ssh(f"sudo mkdir -p $(dirname {EMR_BUSY})")
        assert install(result, emr="{{ 'master' if deeplearning_number == 1 else 'worker' }}")
        look_more_often(*result.hosts)
        for host in result.hosts:
            assert becomes_idle(result, host), why(host)
        yield result


def is_touched(emr, patience: float = 60) -> bool:
    """Return whether a node touches the file. This process does not log in meanwhile, because that is a use of the host."""
    time.sleep(6 * INTERVAL)  # until what has just begun or ended has been seen
    before = emr.runtime.modified(emr.hosts[0].name, EMR_BUSY)
    try:
        return wait_until(lambda: emr.runtime.modified(emr.hosts[0].name, EMR_BUSY) != before, patience)
    except TimeoutError:
        return False


@AS_ROOT
@pytest.mark.parametrize("number", [0, 1], ids=["master", "worker"])
def test_a_node_in_use_touches_the_file_of_the_master(emr, number):
    host = emr.hosts[number]
    assert not is_touched(emr, 4 * INTERVAL), why(host)
    host.ssh(JOB[0])
    assert is_touched(emr), why(host)
    host.ssh(JOB[1])
    assert becomes_idle(emr, host), why(host)
    assert not is_touched(emr, 4 * INTERVAL), why(host)


@AS_ROOT
def test_daemons_of_hadoop_are_no_use(emr):
    host = emr.hosts[1]
    put(host, "/tmp/namenode", f"#!/bin/sh\nexec {LOOP}\n", "755")
    put(host, "/etc/systemd/system/hadoop-hdfs-namenode.service", "[Service]\nUser=ubuntu\nExecStart=/tmp/namenode\n")
    host.ssh("sudo systemctl daemon-reload && sudo systemctl start hadoop-hdfs-namenode")
    assert becomes_idle(emr, host), why(host)
    assert not is_touched(emr, 4 * INTERVAL), why(host)
    host.ssh("sudo systemctl stop hadoop-hdfs-namenode && sudo systemd-run --quiet --unit=study /tmp/namenode")
    assert is_touched(emr), why(host)
    host.ssh("sudo systemctl stop study")
