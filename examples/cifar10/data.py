"""Loads the images to train on: CIFAR-10 if it is staged (see files.py), otherwise generated images, so that the examples need no download.

Generated images are like those of CIFAR-10: ten classes, 32 x 32 pixels, three colors. Each class is a different colored pattern. An image
shows the pattern of its class with a random shift, contrast, brightness, mirroring and noise. A convolutional network can therefore learn
the classes, and recognize them in new images.
"""

from __future__ import annotations

from pathlib import Path

import files
import numpy as np

CLASSES = 10
SIZE = 32
# With noise 0, an image contains only the pattern. With noise above 3, a small network does not recognize the pattern.
NOISE = 1.5
LARGEST_SHIFT = 6
SPLITS = ("train", "test")
PADDING = 4  # maximum number of pixels by which `augment` shifts an image


def choose_directory(named: Path | None) -> Path | None:
    """Return the directory with CIFAR-10, and print which images are used. Exits if `named` is a directory without CIFAR-10.

    Return None, to generate images, if `named` is None and CIFAR-10 is not staged.
    """
    if named is not None:
        found = files.find([named])
        if found is None:
            raise SystemExit(f"--data: {named} does not contain CIFAR-10. Expected {files.EXPECTED}.")
    else:
        found = files.find(files.default_places())
    places = " or ".join(map(str, files.default_places()))
    print(f"images: CIFAR-10 from {found}" if found else f"images: generated, because CIFAR-10 is not in {places}", flush=True)
    return found


def load(
    split: str, count: int | None, seed: int = 0, directory: Path | None = None, generated: int = 1000
) -> tuple[np.ndarray, np.ndarray]:
    """Return images (uint8, [n, 32, 32, 3]) and their labels (int64, [n]) of the split `train` or `test`.

    With a directory, return the first `count` images of CIFAR-10 from the directory, by default all images. Without a directory, return
    `count` generated images, by default `generated` images.
    """
    if directory is None:
        return generate(split, count or generated, seed)
    images, labels = files.read(directory, split)
    return images[:count], labels[:count]


def network_input(images: np.ndarray) -> np.ndarray:
    """Return images (uint8) as float32 numbers from -2 to 2."""
    return (images.astype(np.float32) - 127.5) / 64


def augment(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the images with the usual augmentation for CIFAR-10: random shifts by up to four pixels, and random mirroring."""
    count = len(images)
    padded = np.pad(images, ((0, 0), (PADDING, PADDING), (PADDING, PADDING), (0, 0)))
    shifts = random.integers(0, 2 * PADDING + 1, size=(count, 2))
    rows, columns = shifts[:, :1] + np.arange(SIZE), shifts[:, 1:] + np.arange(SIZE)
    mirrored = random.random(count) < 0.5
    columns[mirrored] = columns[mirrored, ::-1]
    return padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def generate(split: str, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` images (uint8, [count, 32, 32, 3]) and their labels (int64, [count]) of the split `train` or `test`.

    The same arguments return the same images on every host. With the same seed, both splits have the same classes, but different images.
    """
    patterns = _patterns(np.random.default_rng(seed))
    random = np.random.default_rng([seed, SPLITS.index(split)])
    labels = random.permutation(np.arange(count) % CLASSES)  # the same number of images for each class
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
