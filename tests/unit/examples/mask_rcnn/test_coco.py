from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

DATASET = Path(__file__).resolve().parents[4] / "examples/definitions/coco_dataset.yml"
CLASSES = [{"id": 3, "name": "car"}, {"id": 1, "name": "person"}, {"id": 90, "name": "toothbrush"}]


@pytest.fixture
def coco(example):
    return example("coco")


def square(image, category, side, x=0, y=0, **more):
    corners = [x, y, x + side, y, x + side, y + side, x, y + side]
    box = {"bbox": [x, y, side, side], "area": side * side, "segmentation": [corners]}
    return {"image_id": image, "category_id": category, "iscrowd": 0, **box, **more}


def write(folder, annotations, sizes=((512, 256),)):
    """Write a data set of images with these widths and heights, numbered from 1. The training and validation splits are identical."""
    (folder / "annotations").mkdir(parents=True)
    images = [
        {"id": number, "file_name": f"{number:012}.jpg", "width": width, "height": height}
        for number, (width, height) in enumerate(sizes, 1)
    ]
    for split in ("train2017", "val2017"):
        (folder / split).mkdir()
        text = json.dumps({"images": images[::-1], "annotations": annotations, "categories": CLASSES})
        (folder / f"annotations/instances_{split}.json").write_text(text)
        for image in images:
            pixels = np.full((image["height"], image["width"], 3), (200, 100, 50), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / split / image["file_name"], quality=95)
    return folder


def test_images_keep_their_proportions_and_objects_have_masks(coco, tmp_path):
    (record,), classes = coco.read(write(tmp_path, [square(1, 90, 100, x=200, y=40), square(1, 1, 200, y=20)]), "train2017", None)
    assert classes == ["person", "car", "toothbrush"]
    image, masks, labels = coco.load(record)
    assert (image.shape, image.dtype) == ((3, 256, 256), "uint8")
    assert np.allclose(image[:, :128].reshape(3, -1).mean(1), [200, 100, 50], atol=3)
    assert not image[:, 128:].any()
    assert (masks.shape, masks.dtype, labels.dtype) == ((20, 256, 256), "bool", "int64")
    assert labels.tolist() == [1, 3, *[0] * 18], "the largest object comes first"
    for mask, (left, top, side) in zip(masks, [(0, 10, 100), (100, 20, 50)]):
        rows, columns = np.nonzero(mask)
        assert (columns.min(), columns.max(), rows.min(), rows.max()) == (left, left + side, top, top + side)
        assert mask.sum() == (side + 1) ** 2
    assert not masks[2:].any()


def test_an_object_of_several_polygons_has_one_mask(coco, tmp_path):
    parts = square(1, 1, 40)["segmentation"] + square(1, 1, 40, x=300)["segmentation"]
    (record,), _classes = coco.read(write(tmp_path, [square(1, 1, 40, segmentation=parts)]), "val2017", None)
    _image, masks, labels = coco.load(record)
    assert np.count_nonzero(labels) == 1
    assert masks[0, 10, 10]
    assert masks[0, 10, 160]
    assert not masks[0, 10, 100]


def test_crowds_and_tiny_objects_are_left_out_and_images_without_objects(coco, tmp_path):
    crowd = square(1, 1, 100, iscrowd=1, segmentation={"counts": [1, 2], "size": [256, 512]})
    folder = write(tmp_path, [crowd, square(2, 1, 7), square(3, 1, 8), square(3, 3, 9)], [(512, 256)] * 4)
    records, _classes = coco.read(folder, "train2017", None)
    assert [(Path(record.path).name, record.labels) for record in records] == [("000000000003.jpg", [2, 1])]
    assert Path(records[0].path).parent == folder / "train2017"


def test_each_object_that_is_read_has_a_mask(coco, tmp_path):
    """The model cannot train on an object without pixels, such as one at the edge of an image whose size is not a power of two."""
    (record,), _classes = coco.read(write(tmp_path, [square(1, 1, 10, x=629, y=469)], [(640, 480)]), "train2017", None)
    assert coco.load(record)[1][0].any()


def test_the_largest_objects_and_the_first_images_are_used(coco, tmp_path):
    many = [square(1, 1, 8 + number) for number in range(25)]
    folder = write(tmp_path, [*many, square(2, 3, 50), square(3, 3, 50)], [(300, 300)] * 3)
    records, _classes = coco.read(folder, "train2017", 2)
    assert [Path(record.path).name for record in records] == ["000000000001.jpg", "000000000002.jpg"]
    assert len(records[0].labels) == 20
    assert records[0].polygons[0][0].max() == 32
    assert np.count_nonzero(coco.load(records[0])[2]) == 20


def test_a_name_in_the_annotations_does_not_lead_out_of_the_folder(coco, tmp_path):
    folder = write(tmp_path, [square(1, 1, 100)])
    path = folder / "annotations/instances_train2017.json"
    path.write_text(path.read_text().replace("000000000001.jpg", "../../secret.jpg"))
    (record,), _classes = coco.read(folder, "train2017", None)
    assert Path(record.path) == folder / "train2017/secret.jpg"


def test_gray_images_have_three_colors(coco, tmp_path):
    folder = write(tmp_path, [square(1, 1, 100)])
    Image.new("L", (512, 256), 90).save(folder / "train2017/000000000001.jpg")
    (record,), _classes = coco.read(folder, "train2017", None)
    assert coco.load(record)[0][:, 0, 0].tolist() == [90, 90, 90]


def test_a_complete_data_set_is_found(coco, tmp_path):
    whole = write(tmp_path / "whole", [])
    half = write(tmp_path / "half", [])
    (half / "annotations/instances_val2017.json").unlink()
    assert coco.find([tmp_path / "none", half, whole]) == whole
    assert coco.find([half]) is None
    (whole / "train2017").rename(whole / "other")
    assert coco.find([whole]) is None


def test_the_definition_stages_the_data_set_where_it_is_found(coco, monkeypatch):
    monkeypatch.delenv("EFS_MOUNT", raising=False)
    definition = yaml.safe_load(DATASET.read_text())
    assert Path("/efs/datasets", definition["dataset_name"]) in coco.default_places()
    monkeypatch.setenv("EFS_MOUNT", "/shared")
    assert coco.default_places() == [Path("/fsx/datasets/coco-2017"), Path("/shared/datasets/coco-2017")]
