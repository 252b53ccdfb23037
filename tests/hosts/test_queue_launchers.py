"""Each launcher in Slurm and in SGE, on three hosts: the processes of a training job compute a sum."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.registry import LAUNCHERS

from .launchers.ranks import CONSIDERATE
from .queues import QueueHosts, queue_hosts
from .sge import Sge
from .slurm import Slurm

pytestmark = pytest.mark.frameworks


class Example(NamedTuple):
    """A script whose process with rank n contributes n + 1 to `total`, and the environment that contains its framework.

    `variables` are further variables of the role training_job without their prefix.
    """

    environment: str
    script: str
    variables: dict[str, Any] = {}


COMMAND = """
import os
import time
folder = os.path.join(os.environ["DEEPLEARNING_JOB_DIRECTORY"], "code")
path = os.path.join(folder, "rank" + os.environ["DEEPLEARNING_RANK"])
with open(path + ".new", "w") as file:
    file.write(str(int(os.environ["DEEPLEARNING_RANK"]) + 1))
os.rename(path + ".new", path)
paths = [os.path.join(folder, f"rank{rank}") for rank in range(int(os.environ["DEEPLEARNING_WORLD_SIZE"]))]
while not all(map(os.path.exists, paths)):
    time.sleep(0.2)
total = sum(int(open(path).read()) for path in paths)
"""
TORCH = """
import os
import torch
import torch.distributed as dist
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["RANK"])
size = int(os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", rank=rank, world_size=size)
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
dist.destroy_process_group()
"""
DEEPSPEED = """
import deepspeed
import torch
deepspeed.init_distributed()
total = torch.tensor([torch.distributed.get_rank() + 1.0])
deepspeed.comm.all_reduce(total)
torch.distributed.destroy_process_group()
"""
HOROVOD = """
import horovod.torch as hvd
import torch
hvd.init()
total = hvd.allreduce(torch.tensor(hvd.rank() + 1.0), op=hvd.Sum, name="rank")
"""
JAX = """
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
jax.distributed.initialize()
mesh = Mesh(np.array(jax.devices()), ("data",))
ranks = jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("data")), np.array([jax.process_index() + 1.0]))
total = jax.jit(jax.numpy.sum, out_shardings=NamedSharding(mesh, PartitionSpec()))(ranks)
"""
MXNET = """
import mxnet as mx
store = mx.kvstore.create("dist_sync")
total = mx.nd.zeros(1)
store.init("sum", total)
store.push("sum", mx.nd.array([store.rank + 1]))
store.pull("sum", total)
total = total.asscalar()
mx.nd.waitall()
"""
TENSORFLOW = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = strategy.cluster_resolver.task_id
reduced = tf.function(lambda: tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.constant(rank + 1.0)))
total = strategy.run(reduced)
"""
EXAMPLES = {
    "command": Example("pytorch", COMMAND, {"command": ["python3", "sum.py"], "script": ""}),
    "deepspeed": Example("deepspeed", DEEPSPEED, {"environment": {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}, "gpus": [0]}),
    "horovod": Example("horovod", HOROVOD, {"environment": CONSIDERATE}),
    "jax": Example("jax", JAX),
    "mpi": Example("pytorch", TORCH, {"environment": CONSIDERATE}),
    "mxnet": Example("mxnet", MXNET),
    "tensorflow": Example("tensorflow", TENSORFLOW),
    "torchrun": Example("pytorch", TORCH),
}
SHOW = "\nimport socket\nprint(f'the sum is {float(total):.0f} on {socket.gethostname()}', flush=True)\n"


@pytest.fixture(scope="module", params=[Slurm, Sge], ids=lambda kind: kind.role)
def queue(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueHosts]:
    environments = sorted({example.environment for example in EXAMPLES.values()})
    with queue_hosts(request.param, tmp_path_factory.mktemp(request.param.role), environments) as queue:
        yield queue


@pytest.fixture(autouse=True)
def restored(queue: QueueHosts) -> None:
    queue.restore()


@pytest.mark.parametrize("launcher", sorted(LAUNCHERS))
def test_a_launcher_starts_its_processes_in_the_queue(queue: QueueHosts, launcher: str) -> None:
    example = EXAMPLES[launcher]
    source, name = queue.folder / launcher, f"sum-{launcher}"
    source.mkdir()
    (source / "sum.py").write_text(example.script + SHOW)
    variables = {"launcher": launcher, "source": str(source), "command": [], "script": "sum.py", "processes_per_host": 1}
    queue.train(name, "", **{**variables, "python": f"/opt/{example.environment}/bin/python", **example.variables})
    queue.wait_for_end(name)
    logs = queue.master.ssh(f"cat /efs/jobs/{name}/logs/*.log").stdout
    assert queue.status(name).startswith(f"{name} succeeded after "), logs
    assert sorted(re.findall(r"the sum is 6 on ([\w-]+)", logs)) == queue.names, logs
    assert queue.left(name) == []
