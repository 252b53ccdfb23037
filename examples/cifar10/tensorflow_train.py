"""Trains a residual network on CIFAR-10 or on similar images (see data.py) with TensorFlow, in one process or on many hosts in parallel.

On a cluster, every worker trains on its own share of the images, and parameter servers hold the parameters. With --sync, the servers apply
the average of all workers' gradients in each step. Without --sync, the servers apply each worker's gradients as soon as these arrive.
As is usual in TensorFlow 1, servers and workers run the same script, and flags identify each process.
Run the script with `python tensorflow_train.py`, or on a cluster with cifar10_tensorflow_sync.yml or cifar10_tensorflow_async.yml in
examples/definitions.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import shutil
import signal
import socket
from pathlib import Path
from typing import NamedTuple

import data
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow_model import checkpoint_directory, loss_and_accuracy, output_directory, progress_file


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, default=8, help="number of layers, 6n+2; 50 layers need a GPU (default: %(default)s)")
    parser.add_argument(
        "--max-steps", type=int, default=200, help="number of parameter updates, including updates before a restart (default: %(default)s)"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="default: %(default)s")
    parser.add_argument("--data", type=Path, help="directory with CIFAR-10 (default: datasets/cifar10 on shared storage, if it exists)")
    parser.add_argument(
        "--train-images", type=int, help="total number of training images (default: all of CIFAR-10, or 3000 generated images)"
    )
    parser.add_argument("--sync", action="store_true", help="update the parameters only when all workers have computed their gradients")
    parser.add_argument("--report-steps", type=int, default=20, help="steps between two reports and checkpoints (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--restart", action="store_true", help="delete existing checkpoints and start from the beginning")
    cluster = parser.add_argument_group("arguments that the launcher adds with the strategy flags")
    cluster.add_argument("--ps_hosts", default="", help="host:port of each parameter server")
    cluster.add_argument("--worker_hosts", default="", help="host:port of each worker")
    cluster.add_argument("--job_name", choices=["ps", "worker"], default="worker")
    cluster.add_argument("--task_index", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.depth < 8 or arguments.depth % 6 != 2:
        parser.error(f"--depth {arguments.depth} is not of the form 6n+2. Use 8, 14, 20, 32, 50, 110, ...")
    return arguments


class LookForModel(tf.train.SessionCreator):
    """Creates a worker's session when the first worker has initialized the parameters. Checks every second whether they are ready."""

    def __init__(self, master: str, config: tf.ConfigProto) -> None:
        self.master, self.config = master, config

    def create_session(self) -> tf.Session:
        scaffold = tf.train.Scaffold().finalize()
        manager = tf.train.SessionManager(
            local_init_op=scaffold.local_init_op,
            ready_op=scaffold.ready_op,
            ready_for_local_init_op=scaffold.ready_for_local_init_op,
            graph=tf.get_default_graph(),
            recovery_wait_secs=1,
        )
        return manager.wait_for_session(self.master, config=self.config, max_wait_secs=7200)


class Report:
    """The output of training: progress lines for the cluster and curves for TensorBoard. Only the first worker writes."""

    def __init__(self, steps: int, interval: int) -> None:
        self.steps, self.interval, self.due = steps, interval, 0.0
        self.seen: dict[str, list[float]] = {}
        self.progress = progress_file()
        self.writer = tf.summary.FileWriter(os.environ.get("DEEPLEARNING_TENSORBOARD_DIRECTORY", str(output_directory() / "tensorboard")))

    def add(self, step: int, **values: float) -> None:
        """Add values, and write their averages when a report is due.

        Other workers also advance the step counter, so this worker does not see every step.
        """
        for name, value in values.items():
            self.seen.setdefault(name, []).append(value)
        if step < self.due:
            return
        step = min(step, self.steps)
        averages = {name: float(np.mean(numbers)) for name, numbers in self.seen.items()}
        print(f"step {step}: " + ", ".join(f"{name} {value:.4f}" for name, value in averages.items()), flush=True)
        with self.progress.open("a") as file:
            file.write(json.dumps({"step": step, "steps": self.steps, **averages}) + "\n")
        self.writer.add_summary(
            tf.Summary(value=[tf.Summary.Value(tag=name, simple_value=value) for name, value in averages.items()]), step
        )
        self.writer.flush()
        self.seen.clear()
        self.due = min(step + self.interval, self.steps) if step < self.steps else float("inf")


class Training(NamedTuple):
    """The tensors of one step, and the hooks that a session needs for them."""

    images: tf.Tensor
    labels: tf.Tensor
    step: tf.Tensor
    loss: tf.Tensor
    accuracy: tf.Tensor
    hooks: list[tf.train.SessionRunHook]


def build_training(arguments: argparse.Namespace, workers: int) -> Training:
    """Return the graph of one worker. Evaluating `step` trains on a batch and returns the number of updates so far."""
    images, labels = tf.placeholder(tf.float32, [None, 32, 32, 3]), tf.placeholder(tf.int64, [None])
    loss, accuracy = loss_and_accuracy(images, labels, arguments.depth)

    updates = tf.train.get_or_create_global_step()
    optimizer = tf.train.MomentumOptimizer(arguments.learning_rate, momentum=0.9)
    hooks = [tf.train.StopAtStepHook(last_step=arguments.max_steps)]
    if arguments.sync:
        optimizer = tf.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=workers, total_num_replicas=workers)
        # With no tokens at the start, no worker runs ahead. Gradients of a worker that runs ahead would be outdated and discarded.
        hooks.append(optimizer.make_session_run_hook(arguments.task_index == 0, num_tokens=0))
    with tf.control_dependencies([optimizer.minimize(loss, global_step=updates)]):
        step = updates.read_value()
    return Training(images, labels, step, loss, accuracy, hooks)


def open_session(arguments: argparse.Namespace, hooks: list[tf.train.SessionRunHook], master: str) -> tf.train.MonitoredSession:
    """Return a session with the newest checkpoint or, if there is none, with a new model that the first worker creates."""
    # A worker connects only to servers, so it does not wait for other workers that start late or exit.
    filters = ["/job:ps", f"/job:worker/task:{arguments.task_index}"] if master else []
    config = tf.ConfigProto(allow_soft_placement=True, device_filters=filters)
    if arguments.task_index:
        return tf.train.MonitoredSession(LookForModel(master, config), hooks)
    directory = checkpoint_directory()
    if arguments.restart:
        shutil.rmtree(directory, ignore_errors=True)
    newest = tf.train.latest_checkpoint(directory)
    print(f"continues from {newest}" if newest else "starts from the beginning", flush=True)
    return tf.train.MonitoredTrainingSession(
        master,
        checkpoint_dir=directory,
        hooks=hooks,
        save_checkpoint_steps=arguments.report_steps,
        save_summaries_steps=None,
        save_summaries_secs=None,
        log_step_count_steps=None,
        # With --sync, a thread waits for gradients after the last step, by default for two minutes. Errors in this thread do not make the
        # job fail.
        stop_grace_period_secs=1,
        config=config,
    )


def train(arguments: argparse.Namespace, cluster: tf.train.ClusterSpec | None, master: str) -> None:
    """Train on this worker's share until all workers together have completed the last step."""
    index, workers = arguments.task_index, cluster.num_tasks("worker") if cluster else 1
    directory = data.choose_directory(arguments.data)
    images, labels = data.load("train", arguments.train_images, arguments.seed, directory, 3000)
    count = len(images)
    images, labels = images[index::workers], labels[index::workers]
    print(f"worker {index} of {workers} on {socket.gethostname()}: {len(images)} of {count} images", flush=True)

    tf.set_random_seed(arguments.seed)
    with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=cluster)):
        training = build_training(arguments, workers)
    output_directory().mkdir(parents=True, exist_ok=True)
    report = Report(arguments.max_steps, arguments.report_steps) if index == 0 else None
    random = np.random.default_rng([arguments.seed, index])
    with open_session(arguments, training.hooks, master) as session:
        while not session.should_stop():
            chosen = random.integers(len(images), size=arguments.batch_size)
            chosen_images = data.augment(images[chosen], random) if directory else images[chosen]
            batch = {training.images: data.network_input(chosen_images), training.labels: labels[chosen]}
            step, loss, accuracy = session.run([training.step, training.loss, training.accuracy], batch)
            if report:
                report.add(int(step), loss=loss, accuracy=accuracy)
    print(f"worker {index} has finished training", flush=True)


def main() -> None:
    faulthandler.register(signal.SIGUSR1)  # if the job hangs, the hosts show where
    arguments = parse_arguments()
    tf.disable_eager_execution()
    if not arguments.ps_hosts:  # not started by the launcher: this is the only process
        train(arguments, None, "")
        return
    cluster = tf.train.ClusterSpec({"ps": arguments.ps_hosts.split(","), "worker": arguments.worker_hosts.split(",")})
    server = tf.train.Server(cluster, arguments.job_name, arguments.task_index)
    if arguments.job_name == "ps":
        server.join()  # the launcher stops the server when the job ends
    train(arguments, cluster, server.target)


if __name__ == "__main__":
    main()
