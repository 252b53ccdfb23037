"""What the chaos suite does not show about jobs that restart: PyTorch, and the play that continues a job under its own name."""

from __future__ import annotations

import re
import shutil
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause, explain
from chaos.spot import SpotHosts
from local_cloud.testing import wait_until

from .cluster import FILE_SYSTEM, job_cluster

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

# Rank 1 suspends itself in the first attempt.
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


def test_a_rank_that_hangs_is_named_and_the_job_finishes(cluster):
    """The script registers faulthandler, as docs/recovery.md describes. Otherwise, py-spy shows where the ranks are.

    The supervisors run py-spy as the job's user, in the sandbox. py-spy also shows the line of the suspended rank.
    """

    def stacks(name, script):
        done = cluster.train(name, script, restarts=3, hang_steps=3, hang_minimum=0)
        assert done.returncode == 0, done.stdout + done.stderr
        job = cluster.info(name)
        assert (job["state"], job["attempt"]) == ("succeeded", 2), job["attempts"]
        cause = attempt_cause(job["attempts"][0])
        assert cause.startswith(f"rank 1 on {cluster.workers[1]['name']} made no progress for ")
        assert f"it is suspended; all other ranks are at {name}.py, line " in cause
        assert f"attempt 1 failed: {cause}" in done.stdout
        assert cluster.processes(f"/efs/jobs/{name}/code") == []
        return [cluster.read(f"/efs/jobs/{name}/logs/stacks/rank{rank}.txt") for rank in range(3)]

    found = stacks("hangs", HANGS)
    assert all("thread " in stack for stack in found)
    assert "all_reduce" in found[0]

    cluster.hosts[0].ssh("mkdir /efs/tools")
    shutil.copy(Path(sys.executable).with_name("py-spy"), cluster.folder / "file-systems" / FILE_SYSTEM / "tools")
    for host in cluster.hosts:
        host.ssh("sudo install /efs/tools/py-spy /usr/local/bin/")
    found = stacks("spied", HANGS.replace("    faulthandler.register(signal.SIGUSR1)\n", ""))
    for stack, function in zip(found, ("all_reduce", "<module>", "all_reduce")):
        assert re.search(r'Thread \d+ \(\w+\): "MainThread"', stack), stack
        assert re.search(rf" {function} \(/.*:\d+\)$", stack, re.MULTILINE), stack


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
    found = sorted(folder.glob("*.ckpt"))
    print(f"begins with {len(found)} checkpoints", flush=True)

    def save(*_signal):
        print(f"SIGTERM at {time.time()}", flush=True)
        time.sleep(8)
        (folder / f"{os.environ['DEEPLEARNING_RANK']}.ckpt").write_text("saved")
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
