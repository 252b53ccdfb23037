"""Generates images of rectangles and ellipses with a mask for each shape, and chooses the directory for the images on a cluster."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import TensorDataset

SIZE = 64  # pixels, in both directions
MOST = 3  # maximum number of shapes in one image
CLASSES = ("rectangle", "ellipse")  # the labels of these shapes are 1 and 2; 0 stands for no shape


def default_directory() -> Path:
    """Return the fastest shared storage that this user can write to: Lustre, EFS, or the job's own directory."""
    places = [Path("/fsx"), Path(os.environ.get("EFS_MOUNT", "/efs")), Path(os.environ.get("DEEPLEARNING_JOB_DIRECTORY", Path.home()))]
    shapes = [place / "shapes" for place in places]
    return next((path for path in shapes if os.access(path if path.exists() else path.parent, os.W_OK)), shapes[-1])


def prepare(directory: Path, count: int, seed: int) -> None:
    """Write the images unless they exist. Only one process at a time may call this function."""
    path = _path(directory, count, seed)
    if path.exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        np.savez_compressed(file, **_draw(np.random.default_rng(seed), count))
    temporary.replace(path)


def load(directory: Path, count: int, seed: int) -> TensorDataset:
    """Return images [3, SIZE, SIZE], masks [MOST, SIZE, SIZE] and labels [MOST] of the images that prepare() wrote."""
    with np.load(_path(directory, count, seed)) as arrays:
        return TensorDataset(*(torch.from_numpy(arrays[name]) for name in ("images", "masks", "labels")))


def _path(directory: Path, count: int, seed: int) -> Path:
    return directory / f"shapes-{count}-{seed}.npz"


def _draw(random: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    rows, columns = np.mgrid[:SIZE, :SIZE] + 0.5
    images = random.integers(0, 64, (count, 3, SIZE, SIZE), dtype=np.uint8)
    masks = np.zeros((count, MOST, SIZE, SIZE), dtype=bool)
    labels = np.zeros((count, MOST), dtype=np.int64)
    for image, image_masks, image_labels in zip(images, masks, labels, strict=True):
        taken = np.zeros((SIZE, SIZE), dtype=bool)
        for index in range(random.integers(1, MOST + 1)):
            height, width = random.uniform(SIZE * 0.2, SIZE * 0.5, 2)
            y, x = random.uniform(height / 2, SIZE - height / 2), random.uniform(width / 2, SIZE - width / 2)
            across, down = abs(columns - x) / (width / 2), abs(rows - y) / (height / 2)
            label = random.integers(1, len(CLASSES) + 1)
            mask = np.maximum(across, down) <= 1 if label == 1 else across**2 + down**2 <= 1
            if (mask & taken).any():
                continue  # shapes must not overlap, so an image may contain fewer shapes
            taken |= mask
            image[:, mask] = random.integers(96, 256, (3, 1))
            image_masks[index], image_labels[index] = mask, label
    return {"images": images, "masks": masks, "labels": labels}
