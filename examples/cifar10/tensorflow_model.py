"""The residual network and the paths that tensorflow_train.py, horovod_train.py and tensorflow_evaluate.py use."""

from __future__ import annotations

import os
from pathlib import Path

import data
import tensorflow.compat.v1 as tf

# Number of channels that are normalized together.
GROUP = 8


def network(images: tf.Tensor, depth: int) -> tf.Tensor:
    """Return the class scores of images [n, 32, 32, 3] from a residual network for CIFAR-10. `depth` is 2 plus a multiple of 6."""
    layer = _convolution(images, 16, 1, "first")
    for stage, filters in enumerate((16, 32, 64)):
        for block in range((depth - 2) // 6):
            with tf.variable_scope(f"stage{stage}/block{block}"):
                layer = _residual(layer, filters, stride=2 if stage and not block else 1)
    features = tf.reduce_mean(tf.nn.relu(_normalised(layer, "last")), axis=[1, 2])
    weights = tf.get_variable("classes/weights", [features.shape[-1], data.CLASSES], initializer=tf.initializers.glorot_uniform())
    return features @ weights + tf.get_variable("classes/offsets", [data.CLASSES], initializer=tf.initializers.zeros())


def loss_and_accuracy(images: tf.Tensor, labels: tf.Tensor, depth: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the network's mean loss and the share of the images that it classifies correctly."""
    scores = network(images, depth)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores))
    return loss, tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, axis=1), labels), tf.float32))


def _residual(inputs: tf.Tensor, filters: int, stride: int) -> tf.Tensor:
    before = tf.nn.relu(_normalised(inputs, "before"))
    within = tf.nn.relu(_normalised(_convolution(before, filters, stride, "one"), "within"))
    shortcut = inputs if stride == 1 and inputs.shape[-1] == filters else _convolution(before, filters, stride, "shortcut", size=1)
    return shortcut + _convolution(within, filters, 1, "two")


def _convolution(inputs: tf.Tensor, filters: int, stride: int, name: str, size: int = 3) -> tf.Tensor:
    weights = tf.get_variable(f"{name}/weights", [size, size, inputs.shape[-1], filters], initializer=tf.initializers.he_normal())
    return tf.nn.conv2d(inputs, weights, strides=[1, stride, stride, 1], padding="SAME")


def _normalised(inputs: tf.Tensor, name: str) -> tf.Tensor:
    """Normalize groups of channels in each image. With batch normalization, workers at different steps would have to share averages."""
    height, width, channels = inputs.shape[1:]
    grouped = tf.reshape(inputs, [-1, height, width, channels // GROUP, GROUP])
    mean, variance = tf.nn.moments(grouped, [1, 2, 4], keepdims=True)
    normal = tf.reshape((grouped - mean) * tf.math.rsqrt(variance + 1e-5), [-1, height, width, channels])
    scale = tf.get_variable(f"{name}/scale", [channels], initializer=tf.initializers.ones())
    return normal * scale + tf.get_variable(f"{name}/offset", [channels], initializer=tf.initializers.zeros())


def output_directory() -> Path:
    """Return the directory for results: the job's directory on a cluster, otherwise a directory in the working directory."""
    return Path(os.environ.get("DEEPLEARNING_JOB_DIRECTORY", "cifar10-output"))


def checkpoint_directory() -> str:
    return os.environ.get("DEEPLEARNING_CHECKPOINT_DIRECTORY", str(output_directory() / "checkpoints"))


def progress_file() -> Path:
    return Path(os.environ.get("DEEPLEARNING_PROGRESS", output_directory() / "progress.jsonl"))
