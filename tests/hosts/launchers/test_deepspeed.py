"""The deepspeed launcher on two hosts with two processes each: ZeRO without GPUs, and jobs with faults."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.state_names import FINAL
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause
from local_cloud.testing import wait_until

from ..cluster import job_cluster
from .conftest import Endless

pytestmark = pytest.mark.frameworks

VARIABLES = {"launcher": "deepspeed", "python": "/opt/deepspeed/bin/python"}
EXAMPLE = {
    **VARIABLES,
    "source": str(Path(__file__).resolve().parents[3] / "examples/regression"),
    "arguments": ["--epochs", "60"],
    "environment": {"OMP_NUM_THREADS": "1"},
}

# Linear regression; the optimizer's state is divided among the processes.
REGRESSION = """
    import argparse
    import gc
    import socket

    import deepspeed
    import torch
    from torch import nn

    def train(arguments):
        rank, count = torch.distributed.get_rank(), torch.distributed.get_world_size()
        torch.manual_seed(rank)
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        config = {
            "train_micro_batch_size_per_gpu": 16,
            "zero_optimization": {"stage": 1},
            "zero_allow_untested_optimizer": True,
        }
        engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
        place = f"rank {rank} of {count} on {socket.gethostname()} ({arguments.local_rank})"
        print(f"{place}: stage {engine.zero_optimization_stage()}", flush=True)
        for number in range(arguments.steps):
            inputs = torch.randn(16, 3)
            loss = nn.functional.mse_loss(engine(inputs), inputs @ torch.tensor([[1.0], [-2.0], [3.0]]))
            engine.backward(loss)
            engine.step()
            if number == 20:
                print("training", flush=True)
        print("weights", *(round(weight, 3) for weight in model.weight.flatten().tolist()), flush=True)
        engine.destroy()

    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    arguments = parser.parse_args()
    deepspeed.init_distributed()
    train(arguments)
    gc.collect()
    deepspeed.comm.destroy_process_group()
"""


# Runs the example. Rank 1 is killed while it saves its part of the third checkpoint, after rank 0 has saved its part.
KILLED_WHILE_SAVING = """
    import os
    import runpy
    import signal
    import time

    import torch

    write = torch.save

    def save(state, path, **options):
        if os.environ["RANK"] == "1" and os.environ["DEEPLEARNING_ATTEMPT"] == "1" and "epoch-0003" in str(path):
            time.sleep(3)
            os.kill(os.getpid(), signal.SIGKILL)
        write(state, path, **options)

    torch.save = save
    runpy.run_path(os.path.join(os.path.dirname(__file__), "deepspeed_train.py"), run_name="__main__")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("deepspeed"), ["deepspeed"], count=2) as result:
        yield result


def test_the_optimizer_is_divided_among_all_processes(cluster):
    result = cluster.train("regression", REGRESSION, arguments=["--steps", "100"], processes_per_host=2, **VARIABLES)
    assert result.returncode == 0, result.stdout + result.stderr
    for rank in range(4):
        index, local_rank = divmod(rank, 2)
        log = cluster.read(f"/efs/jobs/regression/logs/rank{rank}.log")
        assert f"rank {rank} of 4 on ip-{cluster.workers[index]['address'].replace('.', '-')} ({local_rank}): stage 1" in log
        assert log.count("weights 1.0 -2.0 3.0") == 1


def test_a_rank_is_killed_while_it_saves_its_part_of_a_checkpoint(cluster, tmp_path):
    """The other ranks have saved their parts. The next attempt continues from the previous checkpoint."""
    source = tmp_path / "source"
    shutil.copytree(EXAMPLE["source"], source)
    (source / "killed_while_saving.py").write_text(textwrap.dedent(KILLED_WHILE_SAVING))
    result = cluster.train("resumes", "killed_while_saving.py", restarts=3, **{**EXAMPLE, "source": str(source), "arguments": []})
    assert result.returncode == 0, result.stdout + result.stderr
    found = cluster.info("resumes")
    assert (found["state"], found["attempt"]) == ("succeeded", 2), found["attempts"]
    assert "was killed by signal SIGKILL" in attempt_cause(found["attempts"][0])
    for rank in range(2):
        log = cluster.read(f"/efs/jobs/resumes/logs/attempt2/rank{rank}.log")
        assert "continues after epoch 2, " in log
        assert "weights 1.0 -2.0 3.0\n" in log
    assert cluster.read("/efs/jobs/resumes/checkpoints/latest") == "epoch-0020"


def test_the_tag_of_a_damaged_checkpoint_is_set_aside(cluster):
    """The file `latest` then names the checkpoint before it."""
    cluster.start("damaged", "deepspeed_train.py", restarts=3, **EXAMPLE)
    master, folder = cluster.hosts[0], "/efs/jobs/damaged/checkpoints"
    wait_until(lambda: master.ssh(f"ls -d {folder}/epoch-0003", check=False).returncode == 0)
    rank = "[p]ython /efs/jobs/damaged/code/"
    master.ssh(f"sudo pkill -STOP -f '{rank}'")
    newest = cluster.read(f"{folder}/latest")
    master.ssh(f"sudo sh -c 'printf garbage >{folder}/{newest}/mp_rank_00_model_states.pt' && sudo pkill -KILL -f '{rank}'")
    wait_until(lambda: cluster.info("damaged")["state"] in FINAL)
    found = cluster.info("damaged")
    assert (found["state"], found["attempt"]) == ("succeeded", 3), found["attempts"]
    log = cluster.read("/efs/jobs/damaged/logs/attempt3/rank0.log")
    assert f"continues after epoch {int(newest.split('-')[1]) - 1}, " in log
    assert f"-{newest}\n" in master.ssh(f"ls -A {folder}").stdout.partition(".suspect-")[2]


def is_training(cluster, name):
    return cluster.hosts[0].ssh(f"cat /efs/jobs/{name}/logs/*.log", check=False).stdout.count("training\n") == 2


def test_survives(cluster, survive):
    survive(
        cluster,
        Endless(
            script=REGRESSION,
            variables={**VARIABLES, "arguments": ["--steps", "1000000000"], "environment": {"OMP_NUM_THREADS": "1"}, "stop_timeout": 5},
            launcher="/jobs/kill-launcher-deepspeed-rank.*/supervisor.zip run",
            rank="python /efs/jobs/kill-rank-deepspeed/code/",
            training=is_training,
        ),
    )
