from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

RECORD = 3073
DATASET = Path(__file__).resolve().parents[4] / "examples/definitions/cifar10_dataset.yml"


@pytest.fixture
def files(example):
    return example("files")


def record(label, red=1, green=2, blue=3):
    """Return an image whose first pixel differs from the others in each color channel."""
    return bytes([label]) + b"".join(bytes([value + 100]) + bytes([value]) * 1023 for value in (red, green, blue))


def write(folder, **contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / f"{name}.bin").write_bytes(content)
    return folder


def test_the_binary_version_is_read_in_the_order_of_its_files(files, tmp_path):
    second, first = record(9, 40, 50, 60), record(0) + record(7, 10, 20, 30)
    write(tmp_path, data_batch_2=second, data_batch_1=first, test_batch=record(4))
    images, labels = files.read(tmp_path, "train")
    assert (images.shape, images.dtype, labels.dtype) == ((3, 32, 32, 3), "uint8", "int64")
    assert labels.tolist() == [0, 7, 9]
    assert images[:, 0, 0].tolist() == [[101, 102, 103], [110, 120, 130], [140, 150, 160]]
    assert images[:, 0, 1].tolist() == images[:, 1, 0].tolist() == images[:, 31, 31].tolist() == [[1, 2, 3], [10, 20, 30], [40, 50, 60]]
    assert files.read(tmp_path, "test")[1].tolist() == [4]


def test_rows_come_before_columns(files, tmp_path):
    pixels = bytearray(3072)
    pixels[2 * 32 + 5] = 200  # row 2, column 5
    write(tmp_path, data_batch_1=bytes(RECORD), test_batch=b"\1" + bytes(pixels))
    images, _labels = files.read(tmp_path, "test")
    assert images[0, 2, 5].tolist() == [200, 0, 0]


@pytest.mark.parametrize("content", [b"", record(1)[:-1], record(1) + b"\0"])
def test_a_file_that_is_not_complete_is_refused(files, tmp_path, content):
    write(tmp_path, data_batch_1=content, test_batch=record(1))
    with pytest.raises(SystemExit, match=rf"data_batch_1.bin: the file size, {len(content)} bytes, is not a multiple of 3073. Stage"):
        files.read(tmp_path, "train")


def test_another_data_set_of_the_same_size_is_refused(files, tmp_path):
    write(tmp_path, data_batch_1=record(1) + record(10), test_batch=record(9))
    with pytest.raises(SystemExit, match=r"data_batch_1.bin: the label 10 is not from 0 to 9. Use CIFAR-10"):
        files.read(tmp_path, "train")
    assert files.read(tmp_path, "test")[1].tolist() == [9]


def test_the_archives_folder_and_recordio_files_are_found(files, tmp_path):
    archive, records, half = tmp_path / "archive", tmp_path / "records", tmp_path / "half"
    write(archive / "cifar-10-batches-bin", data_batch_1=b"", test_batch=b"")
    write(half, data_batch_1=b"")
    records.mkdir()
    for name in ("cifar10_train.rec", "cifar10_val.rec"):
        (records / name).touch()
    assert files.find([tmp_path / "none", half, archive]) == archive / "cifar-10-batches-bin"
    assert files.find([archive / "cifar-10-batches-bin"]) == archive / "cifar-10-batches-bin"
    assert files.find([records, archive]) == records
    assert files.find([half, tmp_path / "none"]) is None


def test_a_half_of_each_format_is_no_data_set(files, tmp_path):
    write(tmp_path, data_batch_1=b"")
    (tmp_path / "cifar10_val.rec").touch()
    assert files.find([tmp_path]) is None


def test_default_places_are_on_the_shared_storage(files, monkeypatch):
    monkeypatch.delenv("EFS_MOUNT", raising=False)
    assert files.default_places() == [Path("/fsx/datasets/cifar10"), Path("/efs/datasets/cifar10")]
    monkeypatch.setenv("EFS_MOUNT", "/shared")
    assert files.default_places() == [Path("/fsx/datasets/cifar10"), Path("/shared/datasets/cifar10")]


def test_the_definition_stages_the_archive_where_it_is_found(files, monkeypatch):
    monkeypatch.delenv("EFS_MOUNT", raising=False)
    definition = yaml.safe_load(DATASET.read_text())
    assert Path("/efs/datasets", definition["dataset_name"]) in files.default_places()
    assert definition["dataset_unpack"]


def test_recordio_files_without_mxnet_are_an_error_that_says_what_to_do(files, tmp_path, monkeypatch):
    for name in ("cifar10_train.rec", "cifar10_val.rec"):
        (tmp_path / name).touch()
    monkeypatch.setitem(sys.modules, "mxnet", None)
    with pytest.raises(SystemExit, match=r"cifar10_val.rec: only MXNet reads RecordIO files. Stage the binary version"):
        files.read(tmp_path, "test")
