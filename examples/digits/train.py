"""Trains a small network on scikit-learn's handwritten digits, in one process or on many hosts in parallel.

On a cluster, every process trains on its own share of the data. After each step, DistributedDataParallel averages the gradients, so all
processes have the same model. Run the script with `python train.py`, or on a cluster as the README describes.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import signal
import socket
import sys
import time
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from checkpoints import Checkpoints, StopSignal
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from torch.utils.tensorboard import SummaryWriter


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20, help="number of passes through the data (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="images per process and step (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same model (default: %(default)s)")
    parser.add_argument("--keep", type=int, default=0, help="number of checkpoints to keep (default: all)")
    parser.add_argument("--restart", action="store_true", help="ignore the newest checkpoint and start from the beginning")
    return parser.parse_args()


def join_processes() -> tuple[int, int, torch.device]:
    """Return this process's rank, the number of processes, and the device to train on."""
    if "RANK" not in os.environ:  # not started by torchrun: this is the only process
        os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size(), device


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Return the images to train on and the held-out images. Every process splits the images in the same way."""
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16, labels, test_size=0.2, random_state=0, stratify=labels)
    train_images, test_images, train_labels, test_labels = split
    return (
        TensorDataset(torch.tensor(train_images, dtype=torch.float32), torch.tensor(train_labels)),
        TensorDataset(torch.tensor(test_images, dtype=torch.float32), torch.tensor(test_labels)),
    )


def build_model() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def accuracy(model: nn.Module, data: TensorDataset, device: torch.device) -> float:
    """Return the share of images that the model classifies correctly."""
    images, labels = (tensor.to(device) for tensor in data.tensors)
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()


def average(value: Tensor) -> float:
    """Return the average of a number over all processes."""
    total = value.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def of_all_ranks(value: float, device: torch.device) -> list[float]:
    """Return the values of all ranks, in rank order."""
    values = torch.zeros(dist.get_world_size(), device=device)
    values[dist.get_rank()] = value
    dist.all_reduce(values)
    return values.tolist()


class Report:
    """The output of training: progress lines for the cluster and curves for TensorBoard. Only rank 0 writes."""

    def __init__(self, rank: int, directory: Path) -> None:
        self.progress = Path(os.environ.get("DEEPLEARNING_PROGRESS", directory / "progress.jsonl"))
        tensorboard = os.environ.get("DEEPLEARNING_TENSORBOARD_DIRECTORY", str(directory / "tensorboard"))
        self.writer = SummaryWriter(tensorboard) if rank == 0 else None

    def write(self, step: int, steps: int, rank_seconds: list[float], **values: float) -> None:
        if self.writer is None:
            return
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
        self.append(step=step, steps=steps, rank_seconds=rank_seconds, **values)

    def append(self, **values: float | str | list[float]) -> None:
        """Append a line to the progress file."""
        if self.writer is not None:
            with self.progress.open("a") as file:
                file.write(json.dumps({"time": time.time(), **values}) + "\n")

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def train(arguments: argparse.Namespace, rank: int, processes: int, device: torch.device) -> bool:
    """Train from the newest checkpoint, or from the beginning, until the last epoch. Return False if the job was stopped before."""
    stop = StopSignal()
    torch.manual_seed(arguments.seed)

    train_data, test_data = load_data()
    sampler: DistributedSampler = DistributedSampler(train_data, processes, rank, seed=arguments.seed)
    loader = DataLoader(train_data, arguments.batch_size, sampler=sampler)
    print(f"rank {rank} of {processes} on {socket.gethostname()} ({device}): {len(sampler)} of {len(train_data)} images", flush=True)

    model = DistributedDataParallel(build_model().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.learning_rate, momentum=0.9)

    output = Path(os.environ.get("DEEPLEARNING_JOB_DIRECTORY", "digits-output"))
    output.mkdir(parents=True, exist_ok=True)
    directory = Path(os.environ.get("DEEPLEARNING_CHECKPOINT_DIRECTORY", output / "checkpoints"))
    checkpoints = Checkpoints(directory, keep=arguments.keep)
    first_epoch = 0
    newest = None if arguments.restart else checkpoints.newest()
    if newest:
        state = torch.load(newest, map_location=device, weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first_epoch = state["epoch"]
        print(f"rank {rank}: continues after epoch {first_epoch}, from {newest}", flush=True)
    dist.barrier()  # no process writes a new checkpoint before all processes have found the newest checkpoint

    report = Report(rank, output)
    if first_epoch >= arguments.epochs:
        report.append(note=f"nothing to train, because the checkpoint has {first_epoch} epochs and --epochs is {arguments.epochs}")
    steps = arguments.epochs * len(loader)
    is_complete = True
    saving = 0.0  # the seconds that the last checkpoint took
    for epoch in range(first_epoch, arguments.epochs):
        sampler.set_epoch(epoch)  # a different order of the images in each epoch
        seconds, began = 0.0, time.monotonic()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds += time.monotonic() - began  # without the backward pass, in which the processes wait for each other
            loss.backward()
            optimizer.step()
            began = time.monotonic()
        mean_loss, rank_seconds = average(loss), of_all_ranks(seconds / len(loader), device)
        if rank == 0:
            share = accuracy(model.module, test_data, device)
            print(f"epoch {epoch + 1}: loss {mean_loss:.4f}, held-out accuracy {share:.4f}", flush=True)
            values = {"epoch": epoch + 1, "loss": mean_loss, "accuracy": share, "checkpoint_seconds": saving}
            report.write((epoch + 1) * len(loader), steps, rank_seconds, **values)
            started = time.monotonic()
            state = {"epoch": epoch + 1, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            checkpoints.save(epoch + 1, partial(torch.save, state))
            saving = time.monotonic() - started
        # The processes get the signal at different times, so they agree on the epoch after which all of them stop.
        if average(torch.tensor(float(stop.received), device=device)) and epoch + 1 < arguments.epochs:
            is_complete = False
            break

    report.close()
    dist.barrier()  # exit together, because rank 0 still has to save the model
    return is_complete


def main() -> None:
    faulthandler.register(signal.SIGUSR1)  # if the job hangs, the hosts show where
    arguments = parse_arguments()
    is_complete = train(arguments, *join_processes())
    gc.collect()  # the model refers to the process group; a group that still exists when Python exits may abort the process
    dist.destroy_process_group()
    if not is_complete:
        sys.exit(StopSignal.STATUS)


if __name__ == "__main__":
    main()
