"""Fits a line to points with distributed PyTorch. Replace the model and the data with your own.

`python train.py` runs the script on one machine. A job runs one process for each GPU of the cluster, or one for each host without GPUs.
"""

import argparse
import faulthandler
import json
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def report(**values: object) -> None:
    """Report values, so that they appear in the job's output, summary and report."""
    with open(os.environ.get("DEEPLEARNING_PROGRESS", os.devnull), "a") as progress:
        progress.write(json.dumps({"time": time.time(), **values}) + "\n")


def main() -> None:
    faulthandler.register(signal.SIGUSR1)  # if the job hangs, the hosts show where
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    epochs = parser.parse_args().epochs

    # The launcher sets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = dist.get_rank()

    # Each process has its own share of the data. DistributedDataParallel averages the gradients of all processes.
    torch.manual_seed(rank)
    x = torch.rand(256, 1, device=device)
    y = 3 * x + 1
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(1, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    # The suffix .tmp marks a checkpoint as incomplete. A job with training_job_resume finds the earlier job's checkpoints here.
    directory = Path(os.environ.get("DEEPLEARNING_CHECKPOINT_DIRECTORY", "checkpoints"))
    directory.mkdir(parents=True, exist_ok=True)
    newest = max(directory.glob("epoch-*.pt"), default=None)
    first = 0
    if newest:
        state = torch.load(newest, map_location=device, weights_only=True)
        model.module.load_state_dict(state["model"])
        first = state["epoch"]
    dist.barrier()
    if rank == 0 and first >= epochs:
        report(note=f"nothing to train, because the checkpoint has {first} epochs and --epochs is {epochs}")

    for epoch in range(first + 1, epochs + 1):
        for _step in range(10):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        if rank == 0:
            path = directory / f"epoch-{epoch:04d}.pt"
            torch.save({"epoch": epoch, "model": model.module.state_dict()}, path.with_suffix(".tmp"))
            path.with_suffix(".tmp").rename(path)
            report(step=epoch, steps=epochs, loss=loss.item())

    print(f"rank {rank} of {dist.get_world_size()}: y = {model.module.weight.item():.2f} x + {model.module.bias.item():.2f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
