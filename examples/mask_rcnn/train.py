"""Trains a small Mask R-CNN with Horovod to detect and segment objects in images, in one process or on many hosts in parallel.

Every process trains on its own share of the images. Horovod averages the gradients of each step, so all processes have the same model. The
images are those of COCO 2017 if it is staged (see coco.py). Otherwise, images of shapes are created once, on the storage that all hosts
share. Run the script with `python train.py` or
`mpirun -np 2 python train.py`, or on a cluster with `-e @examples/definitions/mask_rcnn.yml`.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import socket
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import coco
import horovod.torch as hvd
import torch
from checkpoints import Checkpoints
from data import CLASSES, SIZE, default_directory, load, prepare
from model import MaskRCNN
from schedule import learning_rate
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset
from torch.utils.tensorboard import SummaryWriter

HELD_OUT = 32  # held-out images of shapes, which are not used for training
HELD_OUT_COCO = 500  # held-out COCO images


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data",
        type=Path,
        help=f"directory of COCO 2017 or of images of shapes (default: datasets/coco-2017 on shared storage, or {default_directory()})",
    )
    parser.add_argument("--images", type=int, help="number of images to train on (default: all of COCO, or 256 images of shapes)")
    parser.add_argument("--epochs", type=int, default=8, help="number of passes through the images (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=4, help="images per process and step (default: %(default)s)")
    parser.add_argument(
        "--learning-rate", type=float, default=0.001, help="for one process; multiplied by the number of processes (default: %(default)s)"
    )
    parser.add_argument(
        "--warm-up-epochs",
        type=float,
        default=2,
        help="number of epochs in which the learning rate increases to its value for all processes (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same images and initial model (default: %(default)s)")
    parser.add_argument("--restart", action="store_true", help="ignore the newest checkpoint and start from the beginning")
    return parser.parse_args()


def join_processes() -> torch.device:
    """Initialize Horovod and return the device to train on. Afterwards, hvd.rank() and hvd.size() work."""
    hvd.init()
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", hvd.local_rank())
    torch.cuda.set_device(device)
    return device


class CocoImages(Dataset):
    """The COCO images, with masks and labels, as tensors. Each image is read when it is needed."""

    def __init__(self, records: list[coco.Record]) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.from_numpy(array) for array in coco.load(self.records[index]))


class Images(NamedTuple):
    """The images to train on, the held-out images, the number of classes, and the number of pixels in each direction."""

    train: Dataset
    held_out: Dataset
    classes: int
    size: int


def prepare_data(arguments: argparse.Namespace) -> Images:
    """Return the images. The first process finds, reads or creates the images while the other processes wait."""
    places = [arguments.data] if arguments.data else coco.default_places()
    staged = hvd.broadcast_object(coco.find(places) if hvd.rank() == 0 else None, root_rank=0, name="staged")
    if hvd.rank() == 0:
        reason = f"because COCO is not in {' or '.join(map(str, places))}"
        print(f"images: COCO from {staged}" if staged else f"images: shapes, {reason}", flush=True)
    return read_coco(staged, arguments.images) if staged else create_shapes(arguments)


def read_coco(directory: Path, count: int | None) -> Images:
    """Return the COCO images. Only the first process reads the annotations, which take several GB of memory."""
    read = None
    if hvd.rank() == 0:
        records, classes = coco.read(directory, "train2017", count)
        read = records, coco.read(directory, "val2017", HELD_OUT_COCO)[0], len(classes)
    records, held_out, classes = hvd.broadcast_object(read, root_rank=0, name="annotations")
    return Images(CocoImages(records), CocoImages(held_out), classes, coco.SIZE)


def create_shapes(arguments: argparse.Namespace) -> Images:
    """Return images of shapes. Only the first process creates the images."""
    directory = arguments.data or default_directory()
    sets = [(directory, arguments.images or 256, arguments.seed), (directory, HELD_OUT, arguments.seed + 1)]
    if hvd.rank() == 0:
        for each in sets:
            prepare(*each)
    hvd.barrier()
    return Images(load(*sets[0]), load(*sets[1]), len(CLASSES), SIZE)


def found_share(model: MaskRCNN, data: Dataset, device: torch.device) -> float:
    """Return the share of objects with a detection of the same class and a mask IoU of at least 0.5."""
    share = Subset(data, range(hvd.rank(), len(data), hvd.size()))
    model.eval()
    found = torch.zeros(2)
    for batch in DataLoader(share, 32):
        images, masks, labels = (tensor.to(device) for tensor in batch)
        for index, detections in enumerate(model.detect(images)):
            for mask, label in zip(masks[index], labels[index], strict=True):
                if label:
                    others = detections.masks[detections.labels == label]
                    overlap = (others & mask).sum((1, 2)) / (others | mask).sum((1, 2)).clamp(min=1)
                    found += torch.tensor([float((overlap >= 0.5).any()), 1.0])
    model.train()
    found = hvd.allreduce(found, op=hvd.Sum, name="found")
    return (found[0] / found[1]).item()


def restore(newest: Path | None, model: MaskRCNN, optimizer: torch.optim.Optimizer, device: torch.device) -> int:
    """Load a checkpoint and return its epoch, or return 0 if there is no checkpoint."""
    if newest is None:
        return 0
    state = torch.load(newest, map_location=device, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"continues after epoch {state['epoch']}, from {newest}", flush=True)
    return state["epoch"]


class Report:
    """The output of training: progress lines for the cluster and curves for TensorBoard. Only rank 0 writes."""

    def __init__(self, directory: Path) -> None:
        self.progress = Path(os.environ.get("DEEPLEARNING_PROGRESS", directory / "progress.jsonl"))
        self.writer = SummaryWriter(os.environ.get("DEEPLEARNING_TENSORBOARD_DIRECTORY", str(directory / "tensorboard")))

    def write(self, step: int, steps: int, values: dict[str, float], more: dict[str, float | list[float]]) -> None:
        """Append a line to the progress file, and add the `values` to the curves for TensorBoard."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
        with self.progress.open("a") as file:
            file.write(json.dumps({"time": time.time(), "step": step, "steps": steps, **values, **more}) + "\n")


def train(arguments: argparse.Namespace, device: torch.device) -> None:
    """Train from the newest checkpoint, or from the beginning, until the last epoch."""
    torch.manual_seed(arguments.seed + hvd.rank())
    images = prepare_data(arguments)
    sampler: DistributedSampler = DistributedSampler(images.train, hvd.size(), hvd.rank(), seed=arguments.seed)
    loader = DataLoader(images.train, arguments.batch_size, sampler=sampler)
    print(
        f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()} ({device}): {len(sampler)} of {len(images.train)} images", flush=True
    )

    if hvd.rank() == 0:
        rates = f"{arguments.learning_rate:g} for each of {hvd.size()} ranks, {arguments.learning_rate * hvd.size():g}"
        print(f"learning rate: {rates} after {arguments.warm_up_epochs:g} epochs", flush=True)

    model = MaskRCNN(images.classes, images.size).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
    output = Path(os.environ.get("DEEPLEARNING_JOB_DIRECTORY", "mask-rcnn-output"))
    checkpoints = Checkpoints(Path(os.environ.get("DEEPLEARNING_CHECKPOINT_DIRECTORY", output / "checkpoints")))
    # Only the first process reads the checkpoint, and all processes start with its state.
    is_reader = hvd.rank() == 0 and not arguments.restart
    first_epoch = restore(checkpoints.newest(), model, optimizer, device) if is_reader else 0
    first_epoch = hvd.broadcast_object(first_epoch, root_rank=0, name="epoch")
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    # Broadcast the parameters last, because the call above takes an empty step if the optimizer has no state.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())

    if hvd.rank() == 0:
        output.mkdir(parents=True, exist_ok=True)
        report = Report(output)
    steps = arguments.epochs * len(loader)
    saving = 0.0  # the seconds that the last checkpoint took
    for epoch in range(first_epoch, arguments.epochs):
        sampler.set_epoch(epoch)  # a different order of the images in each epoch
        forward = 0.0  # seconds that this rank spent in forward passes, without waiting for other ranks
        for number, batch in enumerate(loader):
            rate = learning_rate(arguments.learning_rate, hvd.size(), epoch + number / len(loader), arguments.warm_up_epochs)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            started = time.monotonic()
            losses = model(*(tensor.to(device) for tensor in batch))
            loss = torch.stack(list(losses.values())).sum()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            forward += time.monotonic() - started
            loss.backward()
            optimizer.step()
        values = hvd.allreduce(torch.stack([loss, *losses.values()]).detach(), name="losses").tolist()
        found = found_share(model, images.held_out, device)
        times = hvd.allgather(torch.tensor([forward / len(loader)]), name="times").tolist()
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {values[0]:.4f}, {found:.0%} of the held-out objects found", flush=True)
            parts = {f"{name}_loss": value for name, value in zip(losses, values[1:], strict=True)}
            curves = {"epoch": epoch + 1, "loss": values[0], "found": found, "learning_rate": rate, **parts}
            report.write((epoch + 1) * len(loader), steps, curves, {"rank_seconds": times, "checkpoint_seconds": saving})
            started = time.monotonic()
            state = {"epoch": epoch + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            checkpoints.save(epoch + 1, partial(torch.save, state))
            saving = time.monotonic() - started
    if hvd.rank() == 0:
        report.writer.close()
    hvd.barrier()  # exit together, because the first process still has to save the model


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)  # if the job hangs, the hosts show where
    train(parse_arguments(), join_processes())
