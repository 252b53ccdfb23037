"""Finds and reads CIFAR-10 in two published formats: the binary version and MXNet's RecordIO files.

Binary version: https://www.cs.toronto.edu/~kriz/cifar.html. An image consists of one byte for its label, followed by 3072 bytes: the
red, green and blue values of its 32 x 32 pixels.
RecordIO: https://mxnet.apache.org/versions/1.9.1/api/faq/recordio. A record contains a header with the label, and an encoded image.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

SHAPE = (3, 32, 32)
CLASSES = 10
RECORD = 1 + 3 * 32 * 32  # bytes
FOLDER = "cifar-10-batches-bin"  # the folder in the archive of the binary version
BINARY = {"train": "data_batch_*.bin", "test": "test_batch.bin"}
RECORDIO = {"train": "cifar10_train.rec", "test": "cifar10_val.rec"}
EXPECTED = " or ".join(f"{names['train']} and {names['test']}" for names in (BINARY, RECORDIO))


def default_places() -> list[Path]:
    """Return the directories in which `deeplearning.cluster.dataset` stages the data set `cifar10`: on Lustre and on EFS."""
    return [Path(mount) / "datasets/cifar10" for mount in ("/fsx", os.environ.get("EFS_MOUNT", "/efs"))]


def find(places: Iterable[Path]) -> Path | None:
    """Return the first directory that contains both splits in one format: one of `places`, or FOLDER in one of `places`."""
    directories = [directory for place in places for directory in (place, place / FOLDER)]
    return next((each for each in directories if _is_complete(each, BINARY) or _is_complete(each, RECORDIO)), None)


def read(directory: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all images (uint8, [n, 32, 32, 3]) and labels (int64, [n]) of the split `train` or `test`. Exits if a file is invalid."""
    if _is_complete(directory, BINARY):
        parts = [_read_binary(path) for path in sorted(directory.glob(BINARY[split]))]
    else:
        parts = [_read_records(directory / RECORDIO[split])]
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts))
    return images, labels


def _is_complete(directory: Path, names: dict[str, str]) -> bool:
    return all(any(directory.glob(name)) for name in names.values())


def _read_binary(path: Path) -> tuple[np.ndarray, np.ndarray]:
    content = np.fromfile(path, dtype=np.uint8)
    if not len(content) or len(content) % RECORD:
        raise SystemExit(f"{path}: the file size, {len(content)} bytes, is not a multiple of {RECORD}. Stage CIFAR-10 again.")
    records = content.reshape(-1, RECORD)
    labels = _checked(path, records[:, 0].astype(np.int64))
    return records[:, 1:].reshape(-1, *SHAPE).transpose(0, 2, 3, 1), labels


def _read_records(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        import mxnet as mx
    except ModuleNotFoundError:
        raise SystemExit(f"{path}: only MXNet reads RecordIO files. Stage the binary version of CIFAR-10.") from None
    images, labels = [], []
    records = mx.recordio.MXRecordIO(str(path), "r")
    while (record := records.read()) is not None:
        header, encoded = mx.recordio.unpack(record)
        images.append(mx.image.imdecode(encoded).asnumpy())
        labels.append(int(header.label))
    records.close()
    if not images or {image.shape for image in images} != {(32, 32, 3)}:
        raise SystemExit(f"{path}: the file does not contain images of 32 x 32 pixels. Stage CIFAR-10 again.")
    return np.stack(images), _checked(path, np.array(labels, dtype=np.int64))


def _checked(path: Path, labels: np.ndarray) -> np.ndarray:
    if labels.min() < 0 or labels.max() >= CLASSES:
        raise SystemExit(f"{path}: the label {labels.max()} is not from 0 to {CLASSES - 1}. Use CIFAR-10, not a different data set.")
    return labels
