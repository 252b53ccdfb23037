"""Fits a line with JAX, in one process or on many hosts in parallel, and continues from its newest checkpoint.

Each process has its own share of the points. Each step computes the gradient over the points of all processes.
Run the script with `python jax_train.py`, or on a cluster with examples/definitions/regression_jax.yml.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from checkpoints import Checkpoints, StopSignal
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

WEIGHTS = np.array([1.0, -2.0, 3.0], dtype="float32")


@jax.jit
def step(weights: jax.Array, inputs: jax.Array, outputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the weights after a step, and the loss before it."""
    loss, gradient = jax.value_and_grad(lambda weights: jnp.mean((inputs @ weights - outputs) ** 2))(weights)
    return weights - 0.1 * gradient, loss


def save(weights: jax.Array, path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, weights=np.asarray(weights))


def report(**values: object) -> None:
    """Report values, so that they appear in the job's output, summary and report."""
    with open(os.environ.get("DEEPLEARNING_PROGRESS", os.devnull), "a") as progress:
        progress.write(json.dumps(values) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20, help="number of checkpoints (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=10, help="steps per epoch (default: %(default)s)")
    arguments = parser.parse_args()
    if "JAX_COORDINATOR_ADDRESS" in os.environ:
        jax.distributed.initialize()
    rank, count = jax.process_index(), jax.process_count()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    points = np.random.default_rng(rank).normal(size=(64, len(WEIGHTS))).astype("float32")
    inputs, outputs = (jax.make_array_from_process_local_data(rows, values) for values in (points, points @ WEIGHTS))

    # JAX itself reacts to SIGTERM once it is initialized, so the handler is set afterwards.
    stop = StopSignal()
    checkpoints = Checkpoints(Path(os.environ.get("DEEPLEARNING_CHECKPOINT_DIRECTORY", "checkpoints")), ".npz", keep=3)
    newest, first = checkpoints.newest(), 0
    weights = np.zeros_like(WEIGHTS)
    if newest:
        first, weights = int(newest.stem.split("-")[1]), np.load(newest)["weights"]
        print(f"rank {rank}: continues after epoch {first}, from {newest}", flush=True)
    else:
        print(f"rank {rank} of {count} on {socket.gethostname()}: starts from the beginning", flush=True)
    multihost_utils.sync_global_devices("all processes have found the newest checkpoint")
    current = jax.device_put(weights, everywhere)
    for epoch in range(first + 1, arguments.epochs + 1):
        for _step in range(arguments.steps):
            current, loss = step(current, inputs, outputs)
        if rank == 0:
            report(step=epoch, steps=arguments.epochs, loss=float(loss))
            checkpoints.save(epoch, partial(save, current))
        # The processes get the signal at different times, so they agree on the epoch after which all of them stop.
        if multihost_utils.process_allgather(np.array(stop.received)).any() and epoch < arguments.epochs:
            sys.exit(StopSignal.STATUS)
    print("weights", *(round(float(weight), 3) for weight in current), flush=True)


if __name__ == "__main__":
    main()
