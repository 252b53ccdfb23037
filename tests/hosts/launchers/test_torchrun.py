"""The torchrun launcher on three hosts: an elastic job that loses a host, worker restarts, ranks in log lines, and jobs with faults."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from local_cloud.testing import wait_until

from ..cluster import job_cluster
from .conftest import Endless

pytestmark = pytest.mark.frameworks

# Three hosts share the cores of one machine.
SINGLE = {"environment": {"OMP_NUM_THREADS": "1"}}
DIGITS = {"source": str(Path(__file__).parents[3] / "examples/digits"), **SINGLE}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("torchrun"), ["pytorch"]) as result:
        yield result


def epochs(cluster, name):
    progress = cluster.hosts[0].ssh(f"cat /efs/jobs/{name}/progress.jsonl", check=False).stdout
    return [json.loads(line)["epoch"] for line in progress.splitlines()]


def test_an_elastic_job_goes_on_without_a_host(cluster):
    # The batches are small, so that the job lasts long enough to lose a host.
    arguments = ["--epochs", "30", "--batch-size", "4", "--learning-rate", "0.01"]
    cluster.start("elastic", "train.py", arguments=arguments, launcher_options={"min_hosts": 2}, **DIGITS)
    wait_until(lambda: len(epochs(cluster, "elastic")) >= 2)
    cluster.hosts[2].ssh("sudo systemctl kill --signal=KILL deeplearning-elastic-agent2.service")
    wait_until(lambda: cluster.info("elastic")["state"] != "running")
    found = cluster.info("elastic")
    assert [process["state"] for process in found["processes"]] == ["succeeded", "succeeded", "failed"]
    assert found["state"] == "succeeded"
    assert epochs(cluster, "elastic")[-1] == 30
    # The remaining ranks continued from the last checkpoint.
    logs = [cluster.read(f"/efs/jobs/elastic/logs/agent{index}.log") for index in range(2)]
    for log in logs:
        assert re.search(r"^\[rank \d\] rank \d of 3 on ", log, re.MULTILINE)
        assert re.search(r"^\[rank \d\] rank \d of 2 on ", log, re.MULTILINE)
        assert re.search(r"^\[rank \d\] rank \d: continues after epoch [1-9]", log, re.MULTILINE)
    status = cluster.play("deeplearning.cluster.status", "-e", "training_job_name=elastic").stdout
    assert re.search(r"agent 2 +deeplearning-worker3 +failed", status)
    assert cluster.members("elastic") == []


def test_workers_are_restarted_together_and_arguments_arrive_as_given(cluster):
    script = """
        import os, pathlib, sys, time
        rank, directory = os.environ["RANK"], pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"])
        print("begins with", sys.argv[1:])
        if rank == "3":
            if not (directory / "failed").exists():
                (directory / "failed").touch()
                sys.exit("a passing fault")
            (directory / "go").touch()
        while not (directory / "go").exists():
            time.sleep(0.1)
        print("ends")
    """
    arguments = ["$$", "$local_rank", "${rank}", "$", "two words", "", "--epochs"]
    result = cluster.train("again", script, arguments=arguments, processes_per_host=2, launcher_options={"max_restarts": 1})
    assert result.returncode == 0, result.stdout + result.stderr
    logs = "".join(cluster.read(f"/efs/jobs/again/logs/agent{index}.log") for index in range(3)).splitlines()
    for rank in range(6):
        lines = [line for line in logs if line.startswith(f"[rank {rank}] ")]
        # A rank that had not yet begun when rank 3 failed began only once.
        assert set(lines[:-1]) <= {f"[rank {rank}] begins with {arguments}", "[rank 3] a passing fault"}
        assert lines[-1] == f"[rank {rank}] ends"
    assert logs.count("[rank 3] a passing fault") == 1


def test_of_several_ranks_under_one_agent_the_one_that_fails_is_named_and_each_has_its_lines(cluster):
    script = """
        import os, sys, time
        rank = os.environ["RANK"]
        print("begins", flush=True)
        if rank == "3":
            time.sleep(1)
            sys.exit("the disk is full")
        time.sleep(600)
    """
    result = cluster.train("fails", script, processes_per_host=2, stop_timeout=5, **SINGLE)
    assert result.returncode != 0
    assert "agent 1 on deeplearning-worker2 ended with exit status 1, because rank 3 ended with exit status 1. The end of" in result.stdout
    assert re.search(r"agent1.log:\s+\[rank 3\] begins\s+\[rank 3\] the disk is full", result.stdout), result.stdout
    shown = cluster.play("deeplearning.cluster.logs", "-e", "training_job_name=fails", "-e", "rank=3").stdout
    assert re.findall(r"^agent 1 \| (.*)$", shown, re.MULTILINE) == ["[rank 3] begins", "[rank 3] the disk is full"]
    assert cluster.members("fails") == []


def test_survives(cluster, survive):
    script = """
        import torch
        import torch.distributed as dist
        dist.init_process_group("gloo")
        step, number = 0, torch.ones(1)
        while True:
            dist.all_reduce(number)
            step += 1
            if step == 100:
                print("training", flush=True)
    """
    survive(
        cluster,
        Endless(
            script=script,
            variables={"launcher": "torchrun", "stop_timeout": 5, **SINGLE},
            launcher="torch.distributed.run .*/efs/jobs/kill-launcher-torchrun/code/",
            rank="python.* -u /efs/jobs/kill-rank-torchrun/code/",
            training=lambda cluster, name: (
                cluster.hosts[0].ssh(f"cat /efs/jobs/{name}/logs/*.log", check=False).stdout.count("training") == 3
            ),
        ),
    )
