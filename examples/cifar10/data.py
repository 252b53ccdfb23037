"""Generates images like those of CIFAR-10 (ten classes, 32 x 32 pixels, three colors), so that the examples need no download.

Each class is a different colored pattern. An image shows the pattern of its class with a random shift, contrast, brightness, mirroring and
noise. A convolutional network can therefore learn the classes, and recognize them in new images.
"""

from __future__ import annotations

import numpy as np

CLASSES = 10
SIZE = 32
# With 0, an image contains only the pattern. With more than 3, a small network does not recognize the pattern.
NOISE = 1.5
LARGEST_SHIFT = 6
SPLITS = ("train", "test")


def load(split: str, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` images (uint8, [count, 32, 32, 3]) and their labels (int64, [count]) of the split `train` or `test`.

    The same arguments return the same images on every host. Both splits of a seed have the same classes, but different images.
    """
    patterns = _patterns(np.random.default_rng(seed))
    random = np.random.default_rng([seed, SPLITS.index(split)])
    labels = random.permutation(np.arange(count) % CLASSES)  # equal numbers of each class
    shifts = random.integers(-LARGEST_SHIFT, LARGEST_SHIFT + 1, size=(count, 2))
    mirrored = random.random(count) < 0.5
    contrast = random.uniform(0.5, 1.5, size=(count, 1, 1, 1)).astype(np.float32)
    brightness = random.normal(0, 0.5, size=(count, 1, 1, 1)).astype(np.float32)

    places = np.arange(SIZE)
    rows = (places + shifts[:, :1]) % SIZE
    columns = (places + shifts[:, 1:]) % SIZE
    columns[mirrored] = columns[mirrored, ::-1]
    clean = patterns[labels[:, None, None], rows[:, :, None], columns[:, None, :]]
    images = clean * contrast + brightness + NOISE * random.standard_normal((count, SIZE, SIZE, 3), dtype=np.float32)
    return np.clip(127.5 + 50 * images, 0, 255).astype(np.uint8), labels.astype(np.int64)


def _patterns(random: np.random.Generator) -> np.ndarray:
    """Return the pattern of each class ([10, 32, 32, 3]): a few colored waves, normalized to mean 0 and standard deviation 1."""
    angles = 2 * np.pi * np.arange(SIZE) / SIZE
    patterns = np.zeros((CLASSES, SIZE, SIZE, 3), dtype=np.float32)
    for pattern in patterns:
        for _wave in range(4):
            vertical, horizontal = random.integers(-4, 5, size=2)
            phases = random.uniform(0, 2 * np.pi, size=3)
            wave = angles[:, None, None] * vertical + angles[None, :, None] * horizontal
            pattern += random.standard_normal(3) * np.cos(wave + phases)
    patterns -= patterns.mean(axis=(1, 2, 3), keepdims=True)
    return patterns / patterns.std(axis=(1, 2, 3), keepdims=True)
