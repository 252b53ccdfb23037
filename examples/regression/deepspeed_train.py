"""Fits a line with DeepSpeed and ZeRO, and continues from its newest checkpoint. The state of the optimizer is divided among the processes.

Each checkpoint is a folder to which all processes write. When the folder is complete, the file `latest` names it.
Run the script with `deepspeed deepspeed_train.py`, or on a cluster with examples/definitions/regression_deepspeed.yml.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import signal
import socket

import deepspeed
import torch
from torch import nn

WEIGHTS = torch.tensor([[1.0], [-2.0], [3.0]])
CONFIG = {
    "train_micro_batch_size_per_gpu": 16,
    "zero_optimization": {"stage": 1},
    "zero_allow_untested_optimizer": True,
}


def report(**values: object) -> None:
    """Report values, so that they appear in the job's output, summary and report."""
    with open(os.environ.get("DEEPLEARNING_PROGRESS", os.devnull), "a") as progress:
        progress.write(json.dumps(values) + "\n")


def name_newest(directory: str, tag: str) -> None:
    """Make the file `latest` name a checkpoint. The file is replaced atomically.

    DeepSpeed itself can write the file before all processes have saved their parts of the checkpoint.
    """
    temporary = os.path.join(directory, "latest.tmp")
    with open(temporary, "w") as file:
        file.write(tag)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, os.path.join(directory, "latest"))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--local_rank", type=int, default=0, help="the launcher adds this argument")
    parser.add_argument("--epochs", type=int, default=20, help="number of checkpoints (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=10, help="steps per epoch (default: %(default)s)")
    return parser.parse_args()


def train(arguments: argparse.Namespace) -> None:
    rank, count = torch.distributed.get_rank(), torch.distributed.get_world_size()
    torch.manual_seed(rank)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)[0]

    directory = os.environ.get("DEEPLEARNING_CHECKPOINT_DIRECTORY", "checkpoints")
    path, state = engine.load_checkpoint(directory) if os.path.exists(os.path.join(directory, "latest")) else (None, {})
    first = state.get("epoch", 0)
    place = f"rank {rank} of {count} on {socket.gethostname()}"
    print(f"{place}: continues after epoch {first}, from {path}" if path else f"{place}: starts from the beginning", flush=True)
    torch.distributed.barrier()  # no process writes a new checkpoint before all processes have found the newest checkpoint

    for epoch in range(first + 1, arguments.epochs + 1):
        for _step in range(arguments.steps):
            inputs = torch.randn(16, 3, device=engine.device)
            loss = nn.functional.mse_loss(engine(inputs), inputs @ WEIGHTS.to(engine.device))
            engine.backward(loss)
            engine.step()
        if rank == 0:
            report(step=epoch, steps=arguments.epochs, loss=loss.item())
        tag = f"epoch-{epoch:04d}"
        engine.save_checkpoint(directory, tag, client_state={"epoch": epoch}, save_latest=False)  # returns when all parts are saved
        if rank == 0:
            name_newest(directory, tag)
    print("weights", *(round(weight, 3) for weight in model.weight.flatten().tolist()), flush=True)
    engine.destroy()


def main() -> None:
    arguments = parse_arguments()
    faulthandler.register(signal.SIGUSR1)  # if the job hangs, the hosts show where
    deepspeed.init_distributed()
    train(arguments)
    gc.collect()  # the engine refers to the process groups; a group that still exists when Python exits may abort the process
    deepspeed.comm.destroy_process_group()  # torch.distributed does not know what DeepSpeed itself refers to


if __name__ == "__main__":
    main()
