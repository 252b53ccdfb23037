"""Tests that find damage in the files of checkpoints. The files have the real formats, and each is cut off at many places."""

from __future__ import annotations

import json
import os
import pickle
import struct
import zipfile
from unittest.mock import Mock

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files.checkpoint_damage import damage


def write_zip(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", b"x" * 300)


def write_safetensors(path):
    header = json.dumps({"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(32))


def write_hdf5(path, version):
    size, position = 400, {0: 40, 1: 44, 2: 28, 3: 28}[version]
    head = bytearray(b"\x89HDF\r\n\x1a\n" + bytes(60))
    head[8] = version
    head[13 if version < 2 else 9] = 8
    struct.pack_into("<Q", head, position, size)
    path.write_bytes(bytes(head).ljust(size, b"\0"))


WRITERS = {
    "model.pt": write_zip,
    "weights.npz": write_zip,
    "model.keras": write_zip,
    "model.safetensors": write_safetensors,
    **{f"v{version}.h5": lambda path, version=version: write_hdf5(path, version) for version in range(4)},
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_is_cut_off_anywhere_is_damaged(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path)
    assert damage(str(tmp_path), [name]) == ""
    size = path.stat().st_size
    for length in (*range(64, size, 7), size - 1):
        WRITERS[name](path)
        os.truncate(path, length)
        assert damage(str(tmp_path), [name]) == f"{name} is cut off", length
    os.truncate(path, 0)
    assert damage(str(tmp_path), [name]) == f"{name} is empty"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.pt", b"\x80\x02weights of an old format"),
        ("model.bin", b"anything"),
        ("notes", b""),
        ("model.safetensors", struct.pack("<Q", 1 << 60)),
        ("model.safetensors", struct.pack("<Q", 2) + b"[]"),
        ("model.safetensors", struct.pack("<Q", 4) + b"{{{{"),
        ("v9.h5", b"\x89HDF\r\n\x1a\n\x09" + bytes(80)),
        ("state.json", b'{"cut'),
    ],
)
def test_unknown_formats_are_never_damaged(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert damage(str(tmp_path), [name]) == ""


@pytest.mark.parametrize("kind", ["fifo", "link", "missing"])
def test_only_regular_files_are_read(tmp_path, kind):
    if kind == "fifo":
        os.mkfifo(tmp_path / "model.pt")
    elif kind == "link":
        write_zip(tmp_path / "real.pt")
        os.truncate(tmp_path / "real.pt", 100)
        (tmp_path / "model.pt").symlink_to("real.pt")
    assert damage(str(tmp_path), ["model.pt"]) == ""


@pytest.mark.parametrize("folder", ["step-1", "step-1/pytorch_model_fsdp_0"])
def test_shards_without_their_metadata_cannot_be_loaded(tmp_path, folder):
    """torch.distributed.checkpoint writes `.metadata` when all shards are complete."""
    (tmp_path / folder).mkdir(parents=True)
    write_zip(tmp_path / folder / "__0_0.distcp")
    assert damage(str(tmp_path), ["step-1"]) == ".metadata is missing"
    (tmp_path / folder / ".metadata").write_bytes(b"index")
    assert damage(str(tmp_path), ["step-1"]) == ""
    (tmp_path / folder / "unfinished").touch()
    assert damage(str(tmp_path), ["step-1"]) == "unfinished says that it is incomplete"


@pytest.mark.parametrize(
    ("named", "sizes", "reason"),
    [
        # PyTorch 2.13 creates a file for each rank, also for a rank that has nothing to save.
        ((0, 1), (9, 9, 0), ""),
        ((0, 1, 2), (9, 9, 0), "__2_0.distcp is empty"),
        ((0, 1, 2), (9, 9), "__2_0.distcp is missing"),
        ((0, 1), (9, 9, 9), ""),
    ],
)
def test_the_metadata_name_the_shards_that_a_checkpoint_needs(tmp_path, named, sizes, reason):
    """The metadata are a pickled object that contains the names of files. To load it would run the code that it names."""
    folder = tmp_path / "step-500"
    folder.mkdir()
    for rank, size in enumerate(sizes):
        (folder / f"__{rank}_0.distcp").write_bytes(bytes(size))
    storage = {f"layer{rank}.weight": (f"__{rank}_0.distcp", 0, 9) for rank in named}
    (folder / ".metadata").write_bytes(pickle.dumps(storage, protocol=4))
    assert damage(str(tmp_path), ["step-500"]) == reason
    (folder / ".metadata").write_bytes(b"")
    assert damage(str(tmp_path), ["step-500"]) == ".metadata is empty"


def test_the_trainer_of_hugging_face_needs_its_state(tmp_path):
    folder = tmp_path / "checkpoint-10"
    folder.mkdir()
    (folder / "training_args.bin").write_bytes(b"arguments")
    assert damage(str(tmp_path), ["checkpoint-10"]) == "trainer_state.json is missing"
    (folder / "trainer_state.json").write_text('{"global_step": 1')
    assert damage(str(tmp_path), ["checkpoint-10"]) == "trainer_state.json is cut off"
    (folder / "trainer_state.json").write_text('{"global_step": 10}')
    assert damage(str(tmp_path), ["checkpoint-10"]) == ""
    (folder / "rng_state_1.pth").touch()
    assert damage(str(tmp_path), ["checkpoint-10"]) == "rng_state_1.pth is empty"


def test_an_index_names_all_shards(tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}))
    folder = tmp_path / "checkpoint-1"
    folder.mkdir()
    (tmp_path / "model.safetensors.index.json").rename(folder / "model.safetensors.index.json")
    write_safetensors(folder / "m-1.safetensors")
    assert damage(str(tmp_path), ["checkpoint-1"]) == "m-2.safetensors is missing"
    write_safetensors(folder / "m-2.safetensors")
    assert damage(str(tmp_path), ["checkpoint-1"]) == ""


def make(tmp_path, *paths):
    """Create files, and directories whose paths end in a slash."""
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).mkdir(parents=True, exist_ok=True) if path.endswith("/") else (tmp_path / path).write_bytes(b"x")


@pytest.mark.parametrize(
    ("paths", "entries", "reason"),
    [
        (["checkpoint-300/"], ["checkpoint-300"], "checkpoint-300 is empty"),
        (["checkpoint-300/global_step300/"], ["checkpoint-300"], "checkpoint-300 is empty"),
        (["step-3/", "optimizer-3/"], ["step-3", "optimizer-3"], "step-3 is empty"),
        (["step-3/", "step-3.pt"], ["step-3", "step-3.pt"], ""),
        (["checkpoint-300/a/b/c/weights"], ["checkpoint-300"], ""),
        (["checkpoint-300/a/b/c/d/"], ["checkpoint-300"], ""),
        # A folder that may not be a checkpoint, and that the script may expect.
        (["model/"], ["model"], ""),
        ([], ["checkpoint-300"], ""),
        ([], [], ""),
    ],
)
def test_a_checkpoint_without_any_file_is_empty(tmp_path, paths, entries, reason):
    make(tmp_path, *paths)
    assert damage(str(tmp_path), entries) == reason


def test_a_directory_that_cannot_be_read_is_not_empty(tmp_path, monkeypatch):
    make(tmp_path, "checkpoint-300/")
    monkeypatch.setattr(os, "scandir", Mock(side_effect=PermissionError))
    assert damage(str(tmp_path), ["checkpoint-300"]) == ""


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["model-00001-of-00003.safetensors.x"], "2 of 3 parts are missing"),
        (["weights-00000-of-00002.x", "weights-00001-of-00002.x"], ""),
        (["weights-00001-of-00002.x", "weights-00002-of-00002.x", "weights-00001-of-00002.x.sha256"], ""),
        (["weights-00001-of-00002.x", "other.x"], "1 of 2 parts are missing"),
        # The parts of a writer that names them differently, and those of an earlier world size.
        (["encoder-00001-of-00002.x", "decoder-00002-of-00002.x"], ""),
        (["shard-00000-model-00001-of-00002.x", "shard-00001-model-00002-of-00002.x"], ""),
        (["weights-00001-of-00001.x", "weights-00001-of-00002.x"], ""),
        # Epoch 3 of 10.
        (["epoch-00003-of-00010.x", "step_00003-of-00010.x"], ""),
        (["weights-3-of-10.x"], ""),
    ],
)
def test_numbered_parts_are_complete_only_together(tmp_path, names, missing):
    make(tmp_path, *(f"checkpoint-300/{name}" for name in names))
    assert damage(str(tmp_path), ["checkpoint-300"]) == missing
    beside = [f"step200-{name}" for name in names]
    make(tmp_path, *beside)
    assert damage(str(tmp_path), beside) == missing


def test_parts_without_a_step_may_be_something_else(tmp_path):
    make(tmp_path, "fold-00001-of-00005.x")
    assert damage(str(tmp_path), ["fold-00001-of-00005.x"]) == ""


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (["model.x"], "trainer_state.json is missing"),
        (["model.x", "optimizer.x"], "trainer_state.json is missing"),
        (["model.x", "trainer_state.json"], ""),
        # The files of another program.
        (["model.x", "state.x"], ""),
        (["lora/model.x"], ""),
    ],
)
def test_the_trainers_state_is_missing_if_an_earlier_folder_with_the_same_files_has_it(tmp_path, files, reason):
    make(tmp_path, *(f"checkpoint-200/{name}" for name in ("model.x", "optimizer.x")))
    make(tmp_path, *(f"checkpoint-300/{name}" for name in files))
    for state in tmp_path.glob("*/trainer_state.json"):
        state.write_text("{}")
    assert damage(str(tmp_path), ["checkpoint-300"]) == ""
    (tmp_path / "checkpoint-200/trainer_state.json").write_text("{}")
    assert damage(str(tmp_path), ["checkpoint-300"]) == reason


@pytest.mark.parametrize(
    ("name", "is_damaged"),
    [
        ("checkpoint-is-incomplete.txt", True),  # the Trainer's, while it saves after SIGTERM
        (".incomplete", True),
        ("IN_PROGRESS", True),
        ("model.safetensors.incomplete", False),  # the rest of a download says nothing about the checkpoint
        ("complete.txt", False),
        ("incomplete_beta.safetensors.index", False),
        ("progress.json", False),
    ],
)
def test_a_file_in_a_checkpoint_can_say_that_it_is_not_complete(tmp_path, name, is_damaged):
    make(tmp_path, "checkpoint-120/model.x", f"checkpoint-120/{name}")
    assert damage(str(tmp_path), ["checkpoint-120"]) == (f"{name} says that it is incomplete" if is_damaged else "")


def test_orbax_marks_complete_checkpoints_where_it_cannot_rename_them(tmp_path):
    make(tmp_path, "1800/default/manifest.ocdbt", "1820/default/manifest.ocdbt", "1820/metrics/commit_success.txt", "best/default/x")
    assert damage(str(tmp_path), ["1820"]) == ""
    make(tmp_path, "1800/commit_success.txt")
    assert damage(str(tmp_path), ["1800"]) == ""
    assert damage(str(tmp_path), ["1820"]) == "commit_success.txt is missing"
    # Only folders of steps are alike.
    assert damage(str(tmp_path), ["best"]) == ""
