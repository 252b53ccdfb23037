"""Trains a residual network on CIFAR-10 or on similar images (see data.py) with MXNet, in one process or on many hosts in parallel.

On a cluster, every worker trains on its own share of the images. Parameter servers add up the workers' gradients and update the parameters.
Servers and the scheduler also run this script: these processes do their work during `import mxnet`, and exit before it returns.
Run the script with `python mxnet_train.py`, or on a cluster with examples/definitions/cifar10_mxnet.yml.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import data
import mxnet as mx
import numpy as np
from checkpoints import Checkpoints
from mxnet import autograd, gluon
from mxnet.gluon.model_zoo.vision import BasicBlockV2, ResNetV2
from tensorboardX import SummaryWriter


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, default=8, help="number of layers, 6n+2; 50 layers need a GPU (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=5, help="number of passes through the images (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="default: %(default)s")
    parser.add_argument("--data", type=Path, help="directory with CIFAR-10 (default: datasets/cifar10 on shared storage, if it exists)")
    parser.add_argument(
        "--train-images", type=int, help="total number of training images (default: all of CIFAR-10, or 1500 generated images)"
    )
    parser.add_argument("--test-images", type=int, help="number of held-out images (default: all of CIFAR-10, or 500 generated images)")
    parser.add_argument(
        "--kvstore",
        choices=["dist_sync", "dist_device_sync", "dist_async"],
        default="dist_sync",
        help="dist_sync: servers wait for all workers in each step; dist_device_sync: also sums gradients on a GPU (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--restart", action="store_true", help="ignore the newest checkpoint and start from the beginning")
    arguments = parser.parse_args()
    if arguments.depth < 8 or arguments.depth % 6 != 2:
        parser.error(f"--depth {arguments.depth} is not of the form 6n+2. Use 8, 14, 20, 32, 50, 110, ...")
    return arguments


def build_model(depth: int) -> gluon.HybridBlock:
    """Return the residual network for CIFAR-10: three stages, at 32, 16 and 8 pixels, of blocks with two layers each."""
    model = ResNetV2(BasicBlockV2, [(depth - 2) // 6] * 3, [16, 16, 32, 64], classes=data.CLASSES, thumbnail=True)
    model.hybridize(static_alloc=True)
    return model


def network_input(images: np.ndarray) -> np.ndarray:
    """Return images [n, 32, 32, 3] in the network's input format, float32 [n, 3, 32, 32]."""
    return data.network_input(images).transpose(0, 3, 1, 2)


def batches(count: int, size: int, order: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the indices of full batches in random order. Leftover images are omitted, so that all workers have the same number of steps."""
    indices = order.permutation(count)
    for start in range(0, count - size + 1, size):
        yield indices[start : start + size]


def accuracy(model: gluon.HybridBlock, images: np.ndarray, labels: np.ndarray, device: mx.Context) -> float:
    """Return the share of images that the model classifies correctly."""
    parts = range(0, len(images), 256)
    inputs = (mx.nd.array(network_input(images[start : start + 256]), ctx=device) for start in parts)
    found = [model(batch).argmax(axis=1).asnumpy() for batch in inputs]
    return float((np.concatenate(found) == labels).mean())


class Report:
    """The output of training: progress lines for the cluster and curves for TensorBoard. Only rank 0 writes."""

    def __init__(self, rank: int, directory: Path) -> None:
        self.progress = Path(os.environ.get("DEEPLEARNING_PROGRESS", directory / "progress.jsonl"))
        tensorboard = os.environ.get("DEEPLEARNING_TENSORBOARD_DIRECTORY", str(directory / "tensorboard"))
        self.writer = SummaryWriter(tensorboard) if rank == 0 else None

    def write(self, step: int, steps: int, **values: float) -> None:
        if self.writer is None:
            return
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
        with self.progress.open("a") as file:
            file.write(json.dumps({"step": step, "steps": steps, **values}) + "\n")

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def train(arguments: argparse.Namespace) -> None:
    """Train from the newest checkpoint, or from the beginning, until the last epoch."""
    store = mx.kvstore.create(arguments.kvstore if "DMLC_ROLE" in os.environ else "device")
    rank, workers = store.rank, store.num_workers
    devices = [mx.gpu(index) for index in range(mx.context.num_gpus())] or [mx.cpu()]

    directory = data.choose_directory(arguments.data)
    images, labels = data.load("train", arguments.train_images, arguments.seed, directory, 1500)
    count, share = len(images), len(images) // workers
    steps_per_epoch = share // arguments.batch_size
    if not steps_per_epoch:
        advice = "Increase --train-images, or reduce --batch-size."
        sys.exit(f"--train-images: {count} is less than one batch for each of {workers} workers. {advice}")
    images, labels = images[rank::workers][:share], labels[rank::workers][:share]
    test_images, test_labels = data.load("test", arguments.test_images, arguments.seed, directory, 500)
    print(f"rank {rank} of {workers} on {socket.gethostname()} ({devices}): {share} of {count} images", flush=True)

    output = Path(os.environ.get("DEEPLEARNING_JOB_DIRECTORY", "cifar10-output"))
    output.mkdir(parents=True, exist_ok=True)
    # A checkpoint contains only the parameters. The servers have the momentum, and cannot save it, so training continues without momentum.
    checkpoints = Checkpoints(Path(os.environ.get("DEEPLEARNING_CHECKPOINT_DIRECTORY", output / "checkpoints")), ".params")
    mx.random.seed(arguments.seed)
    model = build_model(arguments.depth)
    first_epoch = 0
    newest = None if arguments.restart else checkpoints.newest()
    if newest:
        model.load_parameters(str(newest), ctx=devices)
        first_epoch = int(newest.stem.split("-")[1])
        print(f"rank {rank}: continues after epoch {first_epoch}, from {newest}", flush=True)
    else:
        model.initialize(mx.init.MSRAPrelu(), ctx=devices)

    # When all workers are present, the servers start with the parameters of rank 0. By then, all workers have found the newest checkpoint.
    settings = {"learning_rate": arguments.learning_rate, "momentum": 0.9, "wd": 1e-4}
    trainer = gluon.Trainer(model.collect_params(), "sgd", settings, kvstore=store)
    measure = gluon.loss.SoftmaxCrossEntropyLoss()
    report = Report(rank, output)
    for epoch in range(first_epoch, arguments.epochs):
        total = 0.0
        random = np.random.default_rng([arguments.seed, epoch, rank])
        for chosen in batches(share, arguments.batch_size, random):
            batch = network_input(data.augment(images[chosen], random) if directory else images[chosen])
            parts = zip(gluon.utils.split_and_load(batch, devices), gluon.utils.split_and_load(labels[chosen], devices))
            with autograd.record():
                losses = [measure(model(part), answers) for part, answers in parts]
            autograd.backward(losses)
            # The number of images that all workers together use in one step. With dist_async, servers apply the gradients of each worker
            # separately.
            trainer.step(arguments.batch_size * workers)
            total += sum(float(loss.sum().asscalar()) for loss in losses) / arguments.batch_size
        if rank == 0:
            loss, found = total / steps_per_epoch, accuracy(model, test_images, test_labels, devices[0])
            print(f"epoch {epoch + 1}: loss {loss:.4f}, held-out accuracy {found:.4f}", flush=True)
            report.write((epoch + 1) * steps_per_epoch, arguments.epochs * steps_per_epoch, epoch=epoch + 1, loss=loss, accuracy=found)
            checkpoints.save(epoch + 1, lambda path: model.save_parameters(str(path)))
    report.close()
    mx.nd.waitall()  # at exit, MXNet drops unsent data, and the other workers would wait for it forever


if __name__ == "__main__":
    train(parse_arguments())
