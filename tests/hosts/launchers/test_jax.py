"""The jax launcher on two hosts with two processes each: a distributed computation, and jobs with faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..cluster import job_cluster
from .conftest import Endless, kill_rank_and_resume

pytestmark = pytest.mark.frameworks

EXAMPLE = str(Path(__file__).resolve().parents[3] / "examples/regression")
VARIABLES = {"launcher": "jax", "python": "/opt/jax/bin/python", "processes_per_host": 2}

# Linear regression. Each process generates its own rows, and each step sums over all processes.
REGRESSION = """
    import socket
    import sys

    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.distributed.initialize()
    rank, count = jax.process_index(), jax.process_count()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    total = jax.jit(jnp.sum, out_shardings=everywhere)(jax.make_array_from_process_local_data(rows, np.array([rank + 1.0])))
    print(f"rank {rank} of {count} on {socket.gethostname()}: the sum is {float(total)}", flush=True)

    random = np.random.default_rng(rank)
    inputs = random.normal(size=(64, 3)).astype("float32")
    outputs = inputs @ np.array([1.0, -2.0, 3.0], dtype="float32")
    inputs, outputs = (jax.make_array_from_process_local_data(rows, values) for values in (inputs, outputs))


    @jax.jit
    def step(weights, inputs, outputs):
        return weights - 0.1 * jax.grad(lambda weights: jnp.mean((inputs @ weights - outputs) ** 2))(weights)


    weights = jax.device_put(jnp.zeros(3), everywhere)
    for number in range(int(sys.argv[1])):
        weights = step(weights, inputs, outputs).block_until_ready()
        if number == 20:
            print("training", flush=True)
    print("weights", *(round(float(weight), 3) for weight in weights), flush=True)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("jax"), ["jax"], count=2) as result:
        yield result


def test_processes_find_each_other_without_arguments(cluster):
    result = cluster.train("regression", REGRESSION, arguments=["200"], **VARIABLES)
    assert result.returncode == 0, result.stdout + result.stderr
    for rank in range(4):
        log = cluster.read(f"/efs/jobs/regression/logs/rank{rank}.log")
        address = cluster.workers[rank // 2]["address"].replace(".", "-")
        assert f"rank {rank} of 4 on ip-{address}: the sum is 10.0" in log
        assert "weights 1.0 -2.0 3.0" in log


def test_a_script_that_fails_ends_the_job_at_once(cluster):
    script = REGRESSION.replace("random = ", "assert rank != 2, 'no more data'\n    random = ")
    result = cluster.train("fails", script, arguments=["1000000000"], **VARIABLES)
    assert "job fails failed: rank 2 on deeplearning-worker2 ended with exit status 1" in result.stdout
    assert "AssertionError: no more data" in result.stdout


def test_the_example_continues_from_its_checkpoint_when_a_rank_was_killed(cluster):
    rank = "/opt/jax/bin/python -c .*/efs/jobs/resumes/code/"
    log = kill_rank_and_resume(cluster, "resumes", "jax_train.py", rank, source=EXAMPLE, arguments=["--epochs", "100"], **VARIABLES)
    assert log.count(": continues after epoch ") == 4, log
    assert log.count("weights 1.0 -2.0 3.0\n") == 4
    kept = cluster.hosts[0].ssh("ls /efs/jobs/resumes/checkpoints").stdout.split()
    assert [name for name in kept if name.endswith(".npz")] == ["epoch-0098.npz", "epoch-0099.npz", "epoch-0100.npz"]


def is_training(cluster, name):
    logs = cluster.hosts[0].ssh(f"cat /efs/jobs/{name}/logs/*.log", check=False).stdout
    return logs.count("training\n") == 4


def test_survives(cluster, survive):
    # A rank has no separate launcher process, so the test kills its supervisor instead.
    survive(
        cluster,
        Endless(
            script=REGRESSION,
            variables={**VARIABLES, "arguments": ["1000000000"], "stop_timeout": 5},
            launcher="/jobs/kill-launcher-jax-rank.*/supervisor.zip run",
            rank="/opt/jax/bin/python -c .*/efs/jobs/kill-rank-jax/code/",
            training=is_training,
        ),
    )
