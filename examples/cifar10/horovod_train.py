"""Trains the residual network of tensorflow_train.py on CIFAR-10 or on similar images (see data.py) with TensorFlow and Horovod.

Every process trains on its own share of the images. In each step, all processes apply the average of their gradients. The first process
writes checkpoints, and continues from the newest checkpoint if there is one.
Run the script with `python horovod_train.py`, or on a cluster with examples/definitions/horovod_tensorflow.yml.
"""

from __future__ import annotations

import argparse
import faulthandler
import signal
import socket
from pathlib import Path

import data
import horovod.tensorflow as hvd
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow_model import checkpoint_directory, loss_and_accuracy, output_directory
from tensorflow_train import Report


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, default=8, help="number of layers, 6n+2; 50 layers need a GPU (default: %(default)s)")
    parser.add_argument(
        "--max-steps", type=int, default=200, help="number of steps, including steps before a restart (default: %(default)s)"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="images per process and step (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="default: %(default)s")
    parser.add_argument("--data", type=Path, help="directory with CIFAR-10 (default: datasets/cifar10 on shared storage, if it exists)")
    parser.add_argument(
        "--train-images", type=int, help="total number of training images (default: all of CIFAR-10, or 3000 generated images)"
    )
    parser.add_argument("--report-steps", type=int, default=20, help="steps between two reports and checkpoints (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    arguments = parser.parse_args()
    if arguments.depth < 8 or arguments.depth % 6 != 2:
        parser.error(f"--depth {arguments.depth} is not of the form 6n+2. Use 8, 14, 20, 32, 50, 110, ...")
    return arguments


def open_session(arguments: argparse.Namespace) -> tf.train.MonitoredSession:
    """Return a session in which all processes start with the parameters of the first process."""
    config = tf.ConfigProto()
    config.gpu_options.visible_device_list = str(hvd.local_rank())
    return tf.train.MonitoredTrainingSession(
        checkpoint_dir=checkpoint_directory() if hvd.rank() == 0 else None,
        hooks=[hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(last_step=arguments.max_steps)],
        save_checkpoint_steps=arguments.report_steps,
        save_summaries_steps=None,
        save_summaries_secs=None,
        log_step_count_steps=None,
        config=config,
    )


def main() -> None:
    faulthandler.register(signal.SIGUSR1)  # if the job hangs, the hosts show where
    arguments = parse_arguments()
    tf.disable_eager_execution()
    hvd.init()
    directory = data.choose_directory(arguments.data)
    images, labels = data.load("train", arguments.train_images, arguments.seed, directory, 3000)
    count = len(images)
    images, labels = images[hvd.rank() :: hvd.size()], labels[hvd.rank() :: hvd.size()]
    print(f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}: {len(images)} of {count} images", flush=True)

    tf.set_random_seed(arguments.seed)
    batch_images, batch_labels = tf.placeholder(tf.float32, [None, 32, 32, 3]), tf.placeholder(tf.int64, [None])
    loss, accuracy = loss_and_accuracy(batch_images, batch_labels, arguments.depth)
    optimizer = hvd.DistributedOptimizer(tf.train.MomentumOptimizer(arguments.learning_rate, momentum=0.9))
    updates = tf.train.get_or_create_global_step()
    with tf.control_dependencies([optimizer.minimize(loss, global_step=updates)]):
        step = updates.read_value()
    # The average over all processes, which all processes compute together.
    values = {"loss": hvd.allreduce(loss), "accuracy": hvd.allreduce(accuracy)}

    output_directory().mkdir(parents=True, exist_ok=True)
    report = Report(arguments.max_steps, arguments.report_steps) if hvd.rank() == 0 else None
    random = np.random.default_rng([arguments.seed, hvd.rank()])
    with open_session(arguments) as session:
        while not session.should_stop():
            chosen = random.integers(len(images), size=arguments.batch_size)
            chosen_images = data.augment(images[chosen], random) if directory else images[chosen]
            batch = {batch_images: data.network_input(chosen_images), batch_labels: labels[chosen]}
            number, averages = session.run([step, values], batch)
            if report:
                report.add(int(number), **{name: float(value) for name, value in averages.items()})
    print(f"rank {hvd.rank()} has finished training", flush=True)


if __name__ == "__main__":
    main()
