"""Faults that every launcher has to survive, injected into jobs on real hosts."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.state_names import FINAL
from local_cloud.testing import wait_until

from ..cluster import Cluster

HEARTBEAT_TIMEOUT = 15
BESIDE = "beside"


class Endless(NamedTuple):
    """A job that trains indefinitely, with continuous communication between the processes on all hosts.

    `variables` are the variables of the role training_job without their prefix. `launcher` and `rank` are patterns for `pkill -f` on
    the host with the index `victim`: for the process that starts or coordinates the other processes on that host, and for a process that
    trains. `training` is a function that returns whether all processes are training. `variant` is part of the job names if a file tests a
    launcher in several ways.
    """

    script: str
    variables: dict[str, Any]
    launcher: str
    rank: str
    training: Callable[[Cluster, str], bool]
    victim: int = 1
    variant: str = ""


def kill_controller(cluster: Cluster, name: str, job: Endless) -> None:
    """Kill ansible-playbook while the job trains, and check that the job continues."""
    playbook = cluster.playbook(name, job.script, heartbeat_timeout=HEARTBEAT_TIMEOUT, **job.variables)
    command = ["ansible-playbook", "-i", str(cluster.inventory), playbook]
    with subprocess.Popen(command, cwd=cluster.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as run:
        wait_until(lambda: job.training(cluster, name))
        os.killpg(run.pid, signal.SIGKILL)
    assert cluster.info(name)["state"] == "running"
    assert job.training(cluster, name)


def kill_launcher(cluster: Cluster, name: str, job: Endless) -> None:
    """Kill a launcher or, if it has no process of its own, a supervisor. The host of a killed supervisor records its end."""
    _begin(cluster, name, job)
    cluster.hosts[job.victim].ssh(f"sudo pkill -KILL -f '{_pattern(job.launcher)}'")
    wait_until(lambda: cluster.info(name)["state"] == "failed")


def kill_rank(cluster: Cluster, name: str, job: Endless) -> None:
    _begin(cluster, name, job)
    cluster.hosts[job.victim].ssh(f"sudo pkill -KILL -f '{_pattern(job.rank)}'")
    wait_until(lambda: cluster.info(name)["state"] == "failed")


def cut_network(cluster: Cluster, name: str, job: Endless) -> None:
    """Cut a host off from the other hosts and from the storage. The controller can still reach this host."""
    _begin(cluster, name, job)
    victim = cluster.hosts[job.victim]
    peers = ", ".join(host.private_ip for host in cluster.hosts if host is not victim)
    victim.ssh(
        "sudo nft add table ip cut && sudo nft 'add chain ip cut in { type filter hook input priority 0; }'"
        " && sudo nft 'add chain ip cut out { type filter hook output priority 0; }'"
        f" && sudo nft 'add rule ip cut in ip saddr {{ {peers} }} drop' && sudo nft 'add rule ip cut out ip daddr {{ {peers} }} drop'"
    )
    try:
        # Each unit has its own mount namespace, and an open file prevents remounting the storage read-only.
        pids = f"systemctl show --property=MainPID --value 'deeplearning-{name}-*.service'"
        read_only = "mount --bind /efs /efs && until mount -o remount,bind,ro /efs; do sleep 0.1; done"
        victim.ssh(f"for pid in $({pids}); do sudo nsenter -t $pid -m sh -c '{read_only}'; done")
        wait_until(lambda: cluster.info(name)["state"] != "running")
        found = cluster.info(name)
        # Some launchers start all processes from one host.
        is_recorded = any(process["host"] == cluster.workers[job.victim]["name"] for process in found["processes"])
        assert found["state"] == ("lost" if is_recorded else "failed"), found
    finally:
        victim.ssh("sudo nft delete table ip cut")


def kill_rank_and_resume(cluster: Cluster, name: str, script: str, rank: str, victim: int = 1, **variables: Any) -> str:
    """Kill a rank when the job has completed a checkpoint. Return the logs of the second attempt, in which the job must finish.

    `rank` is a pattern for `pkill -f` on the host with the index `victim`.
    """
    cluster.start(name, script, restarts=3, heartbeat_timeout=HEARTBEAT_TIMEOUT, **variables)

    progress = f"cat /efs/jobs/{name}/progress.jsonl"
    # The examples save a checkpoint after each entry.
    wait_until(lambda: len(cluster.hosts[0].ssh(progress, check=False).stdout.splitlines()) >= 3)
    cluster.hosts[victim].ssh(f"sudo pkill -KILL -f '{_pattern(rank)}'")
    wait_until(lambda: cluster.info(name)["state"] in FINAL)
    found = cluster.info(name)
    assert (found["state"], found["attempt"]) == ("succeeded", 2), found["attempts"]
    return str(cluster.hosts[0].ssh(f"cat /efs/jobs/{name}/logs/attempt2/*.log").stdout)


def _begin(cluster: Cluster, name: str, job: Endless) -> None:
    cluster.start(name, job.script, heartbeat_timeout=HEARTBEAT_TIMEOUT, **job.variables)
    wait_until(lambda: job.training(cluster, name))


def _pattern(text: str) -> str:
    """Return the pattern in a form that does not match the command line of the shell that contains it."""
    return f"[{text[0]}]{text[1:]}"


FAULTS = {function.__name__: function for function in (kill_controller, kill_launcher, kill_rank, cut_network)}


@pytest.fixture(params=sorted(FAULTS))
def survive(request: pytest.FixtureRequest) -> Callable[[Cluster, Endless], None]:
    """Cause a fault and stop the job.

    Verify that the job has ended, that none of its processes remains, and that a concurrent job still runs.
    """

    def check(cluster: Cluster, job: Endless) -> None:
        name = "-".join(filter(None, [request.param.replace("_", "-"), job.variables["launcher"], job.variant]))
        beside = f"{BESIDE}-{name}"
        cluster.start(beside, "", command=["sleep", "900"], launcher="command")
        FAULTS[request.param](cluster, name, job)
        running = cluster.info(name)["state"] == "running"
        stopped = cluster.play("deeplearning.cluster.stop", "-e", f"training_job_name={name}")
        assert stopped.returncode == 0 or (not running and "there is nothing to stop" in stopped.stdout), stopped.stdout + stopped.stderr
        assert cluster.members(name) == []
        assert cluster.info(name)["state"] != "running"
        assert len([line for line in cluster.members(beside) if "sleep 900" in line]) >= len(cluster.hosts)
        assert cluster.info(beside)["state"] == "running"
        cluster.stop(beside)

    return check
