"""Reports the share of held-out images that the newest checkpoint of tensorflow_train.py recognizes.

Run the script with `python tensorflow_evaluate.py`, or as a job on the first host, as
examples/definitions/cifar10_tensorflow_sync.yml describes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import data
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow_model import checkpoint_directory, network, output_directory, progress_file


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", default=checkpoint_directory(), help="directory with the checkpoints (default: %(default)s)")
    parser.add_argument("--depth", type=int, default=8, help="number of layers of the trained network (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="directory with CIFAR-10 (default: datasets/cifar10 on shared storage, if it exists)")
    parser.add_argument("--test-images", type=int, help="number of held-out images (default: all of CIFAR-10, or 1000 generated images)")
    parser.add_argument("--seed", type=int, default=0, help="random seed that was used for training (default: %(default)s)")
    return parser.parse_args()


def evaluate(arguments: argparse.Namespace, checkpoint: str) -> tuple[int, int, float]:
    """Return the step of a checkpoint, the number of held-out images, and the share of these images that the model recognizes."""
    directory = data.choose_directory(arguments.data)
    images, labels = data.load("test", arguments.test_images, arguments.seed, directory, 1000)
    placeholder = tf.placeholder(tf.float32, [None, 32, 32, 3])
    found = tf.argmax(network(placeholder, arguments.depth), axis=1)
    step = tf.train.get_or_create_global_step()
    with tf.Session() as session:
        tf.train.Saver().restore(session, checkpoint)
        batches = (data.network_input(images[start : start + 250]) for start in range(0, len(images), 250))
        answers = [session.run(found, {placeholder: batch}) for batch in batches]
        return int(session.run(step)), len(images), float(np.mean(np.concatenate(answers) == labels))


def main() -> None:
    arguments = parse_arguments()
    tf.disable_eager_execution()
    checkpoint = tf.train.latest_checkpoint(arguments.checkpoints)
    if not checkpoint:
        raise SystemExit(f"--checkpoints: {arguments.checkpoints} contains no checkpoint. Train first, or specify a different directory.")
    step, count, accuracy = evaluate(arguments, checkpoint)
    print(f"{checkpoint} (step {step}) recognizes {accuracy:.4f} of {count} held-out images")
    output_directory().mkdir(parents=True, exist_ok=True)
    with progress_file().open("a") as file:
        file.write(json.dumps({"step": step, "held_out_accuracy": accuracy}) + "\n")


if __name__ == "__main__":
    main()
