"""Jobs on real hosts are restarted after a host is lost. Each test removes a host, so each test has its own hosts."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause, explain
from local_cloud.testing import wait_until

from .cluster import FILE_SYSTEM, job_cluster
from .spot import SpotHosts

pytestmark = pytest.mark.exhaustive

# Each attempt continues from the newest checkpoint. The first attempt waits, so that a host can be lost.
SCRIPT = """
    import os, pathlib, time
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank, folder = dist.get_rank(), pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
    first = max((int(path.stem) for path in folder.glob("*.pt")), default=0) + 1
    dist.barrier()
    print(f"rank {rank} of {dist.get_world_size()} begins with epoch {first}", flush=True)
    for epoch in range(first, 10_000 if os.environ["DEEPLEARNING_ATTEMPT"] == "1" else first + 3):
        total = torch.ones(1)
        dist.all_reduce(total)
        if rank == 0:
            torch.save(total, folder / f"{epoch}.tmp")
            (folder / f"{epoch}.tmp").rename(folder / f"{epoch}.pt")
        dist.barrier()
        time.sleep(0.2)
    dist.destroy_process_group()
"""

# Rank 1 suspends itself in the first attempt. The script registers faulthandler, as docs/recovery.md describes.
HANGS = """
    import faulthandler, json, os, signal, time
    import torch, torch.distributed as dist
    faulthandler.register(signal.SIGUSR1)
    dist.init_process_group("gloo")
    for step in range(40):
        if step == 30 and dist.get_rank() == 1 and os.environ["DEEPLEARNING_ATTEMPT"] == "1":
            os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(torch.ones(1))
        if dist.get_rank() == 0:
            with open(os.environ["DEEPLEARNING_PROGRESS"], "a") as file:
                file.write(json.dumps({"step": step + 1, "steps": 40}) + "\\n")
        time.sleep(0.2)
    dist.destroy_process_group()
"""


@pytest.fixture
def cluster(tmp_path):
    with job_cluster(tmp_path, ["pytorch"]) as result:
        yield result


@pytest.mark.parametrize("lost", [0, 2], ids=["the first host", "the last host"])
def test_a_job_goes_on_without_a_host_and_without_the_controller(cluster, lost):
    cluster.start("smaller", SCRIPT, restarts=3, min_hosts=2, heartbeat_timeout=15)
    left = cluster.hosts[1]
    wait_until(lambda: "3.pt" in left.ssh("ls /efs/jobs/smaller/checkpoints", check=False).stdout)
    cluster.runtime.remove(cluster.hosts[lost].name)

    def log(name):
        return left.ssh(f"cat /efs/jobs/smaller/{name}", check=False).stdout

    wait_until(lambda: '"succeeded"' in log("status/attempt2/over"))
    hosts = [worker["name"] for number, worker in enumerate(cluster.workers) if number != lost]
    for rank, host in enumerate(hosts):
        assert f"rank {rank} of 2 begins with epoch " in log(f"logs/attempt2/rank{rank}.log")
        assert "begins with epoch 1\n" not in log(f"logs/attempt2/rank{rank}.log")
        assert f'"host": "{host}"' in log(f"status/attempt2/rank{rank}.json")
    decision = json.loads(log("status/next"))
    assert (decision["rule"], decision["missing"]) == ("fewer_hosts", [cluster.workers[lost]["name"]])
    cluster.hosts.pop(lost)
    wait_until(lambda: cluster.processes("/efs/jobs/smaller/code") == [])


def test_a_rank_that_hangs_is_named_and_the_job_finishes(cluster):
    done = cluster.train("hangs", HANGS, restarts=3, hang_steps=3, hang_minimum=0)
    assert done.returncode == 0, done.stdout + done.stderr
    job = cluster.info("hangs")
    assert (job["state"], job["attempt"]) == ("succeeded", 2), job["attempts"]
    cause = attempt_cause(job["attempts"][0])
    assert cause.startswith(f"rank 1 on {cluster.workers[1]['name']} made no progress for ")
    assert "it is suspended; all other ranks are at hangs.py, line " in cause
    assert f"attempt 1 failed: {cause}" in done.stdout
    for rank in range(3):
        assert "thread " in cluster.read(f"/efs/jobs/hangs/logs/stacks/rank{rank}.txt")
    assert "all_reduce" in cluster.read("/efs/jobs/hangs/logs/stacks/rank0.txt")
    assert cluster.processes("/efs/jobs/hangs/code") == []


def test_a_checkpoint_disk_that_torch_fills_is_named(cluster):
    """The message of torch.save() names neither the disk nor its lack of space."""
    for host in cluster.hosts:
        host.ssh("sudo mkdir /nvme && sudo mount -t tmpfs -o size=150k,mode=1777 tmpfs /nvme")
    script = """
        import os, pathlib, torch
        folder = pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
        saved = sorted(folder.glob("*.pt"))
        begin = torch.load(saved[-1])["epoch"] if saved else 0
        for epoch in range(begin + 1, 100 if os.environ["RANK"] == "0" else 0):
            torch.save({"epoch": epoch, "weights": torch.zeros(2000)}, folder / f"ep{epoch:04}.pt")
    """
    done = cluster.train("full", script, restarts=3, environment={"DEEPLEARNING_CHECKPOINT_DIRECTORY": "/nvme"})
    assert done.returncode != 0
    job = cluster.info("full")
    assert (job["state"], job["attempt"]) == ("failed", 2), job["attempts"]
    assert "RuntimeError at full.py, line 7" in attempt_cause(job["attempts"][0])
    assert all("while /nvme was full (0 bytes of 152 KiB free)" in attempt_cause(attempt) for attempt in job["attempts"])
    assert f"Free space in /nvme on {cluster.workers[0]['name']}." in done.stdout
    assert cluster.hosts[0].ssh("ls -A /nvme | grep suspect", check=False).stdout == ""


def test_py_spy_shows_where_ranks_without_a_handler_are(cluster):
    """The supervisors run py-spy as the job's user, in the sandbox. py-spy also shows the line of the suspended rank."""
    cluster.hosts[0].ssh("mkdir /efs/tools")
    shutil.copy(Path(sys.executable).with_name("py-spy"), cluster.folder / "file-systems" / FILE_SYSTEM / "tools")
    for host in cluster.hosts:
        host.ssh("sudo install /efs/tools/py-spy /usr/local/bin/")
    script = HANGS.replace("    faulthandler.register(signal.SIGUSR1)\n", "")
    done = cluster.train("spied", script, restarts=3, hang_steps=3, hang_minimum=0)
    assert done.returncode == 0, done.stdout + done.stderr
    cause = attempt_cause(cluster.info("spied")["attempts"][0])
    assert cause.startswith(f"rank 1 on {cluster.workers[1]['name']} made no progress for ")
    assert "it is suspended; all other ranks are at spied.py, line " in cause
    for rank, function in ((0, "all_reduce"), (1, "<module>"), (2, "all_reduce")):
        stack = cluster.read(f"/efs/jobs/spied/logs/stacks/rank{rank}.txt")
        assert re.search(r'Thread \d+ \(\w+\): "MainThread"', stack), stack
        assert re.search(rf" {function} \(/.*:\d+\)$", stack, re.MULTILINE), stack


def test_a_spare_takes_the_place_of_a_lost_host(tmp_path):
    """Three hosts train, and the fourth host waits. When a host is lost, the world size stays the same. The controller is not involved."""
    with job_cluster(tmp_path, ["pytorch"], count=4) as cluster:
        cluster.start("spare", SCRIPT, restarts=3, spares=1, heartbeat_timeout=15)
        left = cluster.hosts[0]
        wait_until(lambda: "3.pt" in left.ssh("ls /efs/jobs/spare/checkpoints", check=False).stdout)
        names = [worker["name"] for worker in cluster.workers]
        assert [(each["host"], each["part"]) for each in cluster.info("spare")["processes"]][-1] == (names[3], "standby")
        lost_at = time.time()
        cluster.runtime.remove(cluster.hosts[1].name)
        wait_until(lambda: left.ssh("grep -s begins /efs/jobs/spare/logs/attempt2/rank0.log", check=False).stdout)
        seconds = float(left.ssh("stat -c %.Y /efs/jobs/spare/logs/attempt2/rank0.log").stdout) - lost_at
        started = float(json.loads(cluster.read("/efs/jobs/spare/status/attempt2/rank0.json"))["started"]) - lost_at
        print(f"after the loss, attempt 2 began after {started:.1f} s, and the script's first line came after {seconds:.1f} s")
        wait_until(lambda: '"succeeded"' in left.ssh("cat /efs/jobs/spare/status/attempt2/over", check=False).stdout)
        job = cluster.info("spare")
        assert (job["state"], job["attempt"], [one["hosts"] for one in job["attempts"]]) == ("succeeded", 2, [3, 3])
        assert [each["host"] for each in job["processes"]] == [names[0], names[2], names[3]]
        assert explain(job["attempts"][0]) == f"{names[1]} cannot be used, so the job continues with spare {names[3]}."
        for rank in range(3):
            assert f"rank {rank} of 3 begins with epoch " in cluster.read(f"/efs/jobs/spare/logs/attempt2/rank{rank}.log")
        assert started < 15 + 20, "the heartbeat timeout, and 20 s in addition"
        cluster.hosts.pop(1)
        wait_until(lambda: cluster.processes("/efs/jobs/spare/code") == [])


def test_a_job_that_lacks_a_host_continues_under_its_own_name(cluster):
    """Without a spare, the job ends when a host is lost. After the host has been replaced, the same play continues the job."""
    options = {"restarts": 3, "heartbeat_timeout": 15, "report": False}
    cluster.start("again", SCRIPT, **options)
    left, lost, name = cluster.hosts[0], cluster.hosts[2], cluster.workers[2]["name"]
    wait_until(lambda: "3.pt" in left.ssh("ls /efs/jobs/again/checkpoints", check=False).stdout)
    cluster.runtime.remove(lost.name)
    wait_until(lambda: '"too_few_hosts"' in left.ssh("cat /efs/jobs/again/status/next", check=False).stdout)
    wait_until(lambda: not left.ssh("systemctl list-units --no-legend 'deeplearning-again-*.service'", check=False).stdout)
    ended = cluster.info("again")
    assert (ended["state"], ended["attempt"]) == ("lost", 1)
    assert explain(ended["attempts"][0]) == f"{name} cannot be used, and the job needs 3 hosts (training_job_min_hosts)."

    cluster.runtime.start(lost.spec())
    wait_until(lambda: cluster.runtime.is_booted(lost.name))
    cluster.configure_host(3)
    changed = cluster.train("again", SCRIPT, **options, arguments=["--epochs", "5"])
    assert changed.returncode != 0
    assert (
        "job again has already run, and cannot continue under its own name, because its arguments changed since its start" in changed.stdout
    )
    done = cluster.train("again", SCRIPT, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    job = cluster.info("again", goodput="always")
    assert (job["state"], job["attempt"], [one["hosts"] for one in job["attempts"]]) == ("succeeded", 2, [3, 3])
    assert explain(job["attempts"][0]) == "The job was started again with the same name."
    assert name in attempt_cause(job["attempts"][0])
    assert sum(job["goodput"]["buckets"].values()) == pytest.approx(job["goodput"]["seconds"] * job["goodput"]["nodes"], rel=0.01)
    for rank in range(3):
        log = cluster.read(f"/efs/jobs/again/logs/attempt2/rank{rank}.log")
        assert f"rank {rank} of 3 begins with epoch " in log
        assert "begins with epoch 1\n" not in log
    refused = cluster.train("again", SCRIPT, **options)
    assert refused.returncode != 0
    assert "job again has already run (succeeded)" in refused.stdout
    timer = left.ssh("journalctl --no-pager -u deeplearning_health_periodic.timer").stdout
    assert timer.count(": Started ") == 1, "only the first start installs the health service"


# All ranks work until they get SIGTERM. Then each rank saves a checkpoint.
SPOT = """
    import os, pathlib, signal, sys, time
    folder = pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
    found = sorted(folder.glob("*.pt"))
    print(f"begins with {len(found)} checkpoints", flush=True)

    def save(*_signal):
        print(f"SIGTERM at {time.time()}", flush=True)
        time.sleep(8)
        (folder / f"{os.environ['DEEPLEARNING_RANK']}.pt").touch()
        print("saved", flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    time.sleep(600 if os.environ["DEEPLEARNING_ATTEMPT"] == "1" else 1)
"""


def test_a_spot_interruption_is_announced_to_all_ranks(cluster):
    """The hosts read the notice from their metadata service. Each rank needs longer to save than a restart after a failure would allow."""
    with SpotHosts(cluster.runtime) as metadata:
        for host in cluster.hosts:
            metadata.open(host)
        cluster.start("spot", SPOT, launcher="command", python="/usr/bin/python3", restarts=3, min_hosts=2)

        def log(rank, attempt=""):
            return cluster.hosts[0].ssh(f"cat /efs/jobs/spot/logs/{attempt}rank{rank}.log", check=False).stdout

        wait_until(lambda: all("begins" in log(rank) for rank in range(3)))
        announced = time.time()
        metadata[cluster.hosts[2]].announce(120)
        wait_until(lambda: '"succeeded"' in cluster.hosts[0].ssh("cat /efs/jobs/spot/status/attempt2/over", check=False).stdout)
    for rank in range(3):
        signalled = float(log(rank).partition("SIGTERM at ")[2].split()[0])
        print(f"rank {rank} got SIGTERM {signalled - announced:.1f} s after the notice")
        assert signalled - announced < 7
        assert log(rank).endswith("saved\n")
    assert [log(rank, "attempt2/") for rank in range(2)] == ["begins with 3 checkpoints\n"] * 2
    job = cluster.info("spot")
    assert (job["state"], job["attempt"], [one["hosts"] for one in job["attempts"]]) == ("succeeded", 2, [3, 2])
    name = cluster.workers[2]["name"]
    assert attempt_cause(job["attempts"][0]).startswith(f"rank 2 on {name} was stopped because of the spot interruption of the host")
    assert explain(job["attempts"][0]) == f"The job continues without {name}."
    wait_until(lambda: cluster.processes("/efs/jobs/spot/code") == [])
