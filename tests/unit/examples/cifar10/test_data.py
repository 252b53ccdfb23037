from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def data(example):
    return example("data")


@pytest.fixture
def staged(tmp_path, monkeypatch):
    """Return the folder in which CIFAR-10 is staged by default. The folder contains three training images and two held-out images."""
    monkeypatch.setenv("EFS_MOUNT", str(tmp_path))
    folder = tmp_path / "datasets/cifar10/cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name, labels in (("data_batch_1", [5, 3, 1]), ("test_batch", [2, 0])):
        (folder / f"{name}.bin").write_bytes(b"".join(bytes([label]) * 3073 for label in labels))
    return folder


def test_staged_images_are_used_and_named(data, staged, capsys):
    assert data.choose_directory(None) == staged
    assert capsys.readouterr().out == f"images: CIFAR-10 from {staged}\n"
    images, labels = data.load("train", None, directory=staged)
    assert labels.tolist() == images[:, 3, 4, 1].tolist() == [5, 3, 1]
    images, labels = data.load("test", 1, directory=staged, generated=7)
    assert labels.tolist() == images[:, 0, 0, 0].tolist() == [2]


def test_without_a_data_set_images_are_generated_and_the_output_says_so(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EFS_MOUNT", str(tmp_path))
    assert data.choose_directory(None) is None
    message = f"images: generated, because CIFAR-10 is not in /fsx/datasets/cifar10 or {tmp_path}/datasets/cifar10\n"
    assert capsys.readouterr().out == message
    images, labels = data.load("train", None, generated=20)
    assert (images.shape, images.dtype) == ((20, 32, 32, 3), "uint8")
    assert np.bincount(labels).tolist() == [2] * 10
    assert (images == data.load("train", 20)[0]).all()
    assert len(data.load("test", 30, generated=20)[0]) == 30


def test_a_named_directory_must_contain_the_data_set(data, staged, tmp_path):
    assert data.choose_directory(staged.parent) == staged
    with pytest.raises(SystemExit, match=rf"--data: {tmp_path} does not contain CIFAR-10. Expected data_batch"):
        data.choose_directory(tmp_path)


def test_images_are_shifted_and_mirrored_and_nothing_else(data):
    places = np.indices((32, 32)).transpose(1, 2, 0) + 1  # row and column of each pixel, starting at 1
    image = np.concatenate([places, np.full((32, 32, 1), 200)], axis=2).astype(np.uint8)
    seen = set()
    for result in data.augment(np.stack([image] * 500), np.random.default_rng(0)):
        inside = result[result[..., 2] == 200].reshape(-1, 3)
        rows, columns = np.unique(inside[:, 0]), np.unique(inside[:, 1])
        assert len(inside) == len(rows) * len(columns)
        assert not result[result[..., 2] == 0].any()
        row = result[16, 16]
        mirrored = result[16, 15, 1] > row[1]
        shift = int(row[0]) - 17, (16 - int(row[1]) if mirrored else int(row[1]) - 17)
        assert len(rows) == 32 - abs(shift[0])
        assert len(columns) == 32 - abs(shift[1])
        seen.add((mirrored, *shift))
    assert {each[0] for each in seen} == {False, True}
    assert {each[1] for each in seen} == {each[2] for each in seen} == set(range(-4, 5))


def test_the_same_random_numbers_give_the_same_images(data):
    images = data.generate("train", 8)[0]
    first, second = (data.augment(images, np.random.default_rng(3)) for _time in range(2))
    assert (first == second).all()


def test_the_network_sees_small_numbers_around_zero(data):
    result = data.network_input(np.array([0, 127, 128, 255], dtype=np.uint8))
    assert result.dtype == np.float32
    assert result.tolist() == [-1.9921875, -0.0078125, 0.0078125, 1.9921875]
