"""Small data sets in the formats of CIFAR-10, staged where `deeplearning.cluster.dataset` stages the real data set."""

from __future__ import annotations

import contextlib
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/cifar10"
DIRECTORY = "/efs/datasets/cifar10"

# Writes images that the example generates. The argument is the data format.
WRITER = """
import pathlib
import struct
import sys
import zlib

import data
import numpy as np

folder = pathlib.Path("/efs/datasets/cifar10")


def binary():
    (folder / "cifar-10-batches-bin").mkdir()
    for name, split, count in (("data_batch_1", "train", 64), ("data_batch_2", "train", 32), ("test_batch", "test", 30)):
        images, labels = data.generate(split, count)
        records = np.concatenate([labels[:, None].astype("uint8"), images.transpose(0, 3, 1, 2).reshape(count, -1)], axis=1)
        records.tofile(folder / "cifar-10-batches-bin" / (name + ".bin"))


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(image):
    header = struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\\0" + row.tobytes() for row in image))
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def records():
    from mxnet import recordio
    for name, split, count in (("cifar10_train", "train", 96), ("cifar10_val", "test", 30)):
        file = recordio.MXRecordIO(str(folder / (name + ".rec")), "w")
        for index, (image, label) in enumerate(zip(*data.generate(split, count))):
            file.write(recordio.pack(recordio.IRHeader(0, float(label), index, 0), png(image)))
        file.close()


globals()[sys.argv[1]]()
"""


@contextlib.contextmanager
def staged(cluster, python, form):
    """Stage 96 training images and 30 held-out images with a framework's Python, and delete all of them at the end."""
    host = cluster.hosts[0]
    scripts = {"data": (EXAMPLE / "data.py").read_text(), "files": (EXAMPLE / "files.py").read_text(), "writer": WRITER}
    host.ssh(f"mkdir -p {DIRECTORY} /tmp/writer")
    for name, text in scripts.items():
        host.ssh(f"cat >/tmp/writer/{name}.py <<'END'\n{text}END\n")
    host.ssh(f"{python} /tmp/writer/writer.py {form}")
    try:
        yield
    finally:
        host.ssh(f"rm -r {DIRECTORY}")
