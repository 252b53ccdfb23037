"""Finds COCO 2017 on the shared storage, and reads its images, scaled to squares, with a mask for each object.

https://cocodataset.org/#format-data describes the files: annotations/instances_train2017.json, train2017/, and the same for val2017.
Annotations of crowds are left out, as is usual for training.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

SIZE = 256  # pixels, in both directions
MOST = 20  # maximum number of objects in one image. Only the largest objects are used
SMALLEST = 4  # minimum size of a scaled object in pixels, in each direction. Smaller objects are left out
SPLITS = ("train2017", "val2017")


class Record(NamedTuple):
    """An image with its objects, largest first: labels, and for each object a list of polygons x1, y1, x2, y2, ... in pixels."""

    path: str
    labels: list[int]
    polygons: list[list[np.ndarray]]


def default_places() -> list[Path]:
    """Return the directories in which examples/definitions/coco_dataset.yml stages COCO: on Lustre and on EFS."""
    return [Path(mount) / "datasets/coco-2017" for mount in ("/fsx", os.environ.get("EFS_MOUNT", "/efs"))]


def find(places: Iterable[Path]) -> Path | None:
    """Return the first directory that contains the annotations and the images of both splits."""
    return next((each for each in places if all(_annotations(each, split).is_file() and (each / split).is_dir() for split in SPLITS)), None)


def read(directory: Path, split: str, count: int | None) -> tuple[list[Record], list[str]]:
    """Return the first `count` images with objects, by default all, and the names of the classes. Label 1 is the first class."""
    content = json.loads(_annotations(directory, split).read_bytes())
    classes = sorted(content["categories"], key=lambda each: each["id"])
    labels = {each["id"]: label for label, each in enumerate(classes, 1)}
    objects: dict[int, list[dict]] = {}
    for each in content["annotations"]:
        if not each["iscrowd"]:
            objects.setdefault(each["image_id"], []).append(each)
    records = []
    for image in sorted(content["images"], key=lambda each: each["id"]):
        scale = SIZE / max(image["width"], image["height"])
        found = [each for each in objects.get(image["id"], []) if min(each["bbox"][2:]) * scale >= SMALLEST]
        found = sorted(found, key=lambda each: -each["area"])[:MOST]
        if found and len(records) != count:
            polygons = [[np.array(points, dtype=np.float32) for points in each["segmentation"]] for each in found]
            path = str(directory / split / os.path.basename(image["file_name"]))
            records.append(Record(path, [labels[each["category_id"]] for each in found], polygons))
    return records, [each["name"] for each in classes]


def load(record: Record) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return an image [3, SIZE, SIZE], its masks [MOST, SIZE, SIZE] and labels [MOST]. Label 0 stands for no object.

    The image keeps its proportions. The rest of the square is black.
    """
    with Image.open(record.path) as file:
        scale = SIZE / max(file.size)
        width, height = (max(1, round(side * scale)) for side in file.size)
        picture = Image.new("RGB", (SIZE, SIZE))
        picture.paste(file.convert("RGB").resize((width, height)))
    masks = np.zeros((MOST, SIZE, SIZE), dtype=bool)
    labels = np.zeros(MOST, dtype=np.int64)
    for index, (label, polygons) in enumerate(zip(record.labels, record.polygons)):
        masks[index], labels[index] = _mask([points * scale for points in polygons]), label
    return np.asarray(picture).transpose(2, 0, 1).copy(), masks, labels


def _annotations(directory: Path, split: str) -> Path:
    return directory / f"annotations/instances_{split}.json"


def _mask(polygons: list[np.ndarray]) -> np.ndarray:
    mask = Image.new("1", (SIZE, SIZE))
    for points in polygons:
        ImageDraw.Draw(mask).polygon(np.clip(points, 0, SIZE - 1).tolist(), fill=1, outline=1)
    return np.asarray(mask)
