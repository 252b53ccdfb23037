"""Tests that find the complete checkpoints in a directory, and that set a checkpoint aside."""

from __future__ import annotations

import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import checkpoint_files


def test_only_a_complete_checkpoint_counts(tmp_path):
    assert not checkpoint_files.has_complete(str(tmp_path / "missing"))
    for name in (".hidden", "epoch-1.tmp"):
        (tmp_path / name).touch()
    assert not checkpoint_files.has_complete(str(tmp_path))
    (tmp_path / "epoch-1").touch()
    assert checkpoint_files.has_complete(str(tmp_path))


def test_a_directory_with_too_many_entries_is_not_read_to_its_end(tmp_path, monkeypatch):
    (tmp_path / "epoch-1").touch()
    monkeypatch.setattr(checkpoint_files, "ENTRIES", 0)
    assert not checkpoint_files.has_complete(str(tmp_path))


def test_checkpoints_are_complete_files_and_directories(tmp_path):
    for name in (".hidden", "2.tmp", "1", "2", "3"):
        (tmp_path / name).mkdir()
        if name != "3":  # a script was killed after it had created the directory
            (tmp_path / name / "weights").touch()
    os.utime(tmp_path / "1", (5, 5))
    assert names(tmp_path) == ["2", "1"]
    newest = checkpoint_files.complete(str(tmp_path))[0]
    set_newest_aside(tmp_path)
    assert names(tmp_path) == ["1"]
    assert checkpoint_files.complete(str(tmp_path / "missing")) == []
    checkpoint_files.set_aside(str(tmp_path), {"name": "1", "changed": newest.changed})
    assert (tmp_path / "1").exists(), "a newer checkpoint of the same name is left alone"


@pytest.mark.parametrize("is_directory", [True, False])
def test_what_was_set_aside_before_is_kept(tmp_path, is_directory):
    """A different job may use the same directory, and a checkpoint may have the name and time of an earlier one."""
    for _time in range(3):
        if is_directory:
            (tmp_path / "7").mkdir()
        else:
            (tmp_path / "7").write_text(str(_time))
        os.utime(tmp_path / "7", (5, 5))
        checkpoint_files.set_aside(str(tmp_path), {"name": "7", "changed": 5.0})
    assert sorted(os.listdir(tmp_path)) == [".suspect-5-7", ".suspect-5-7.2", ".suspect-5-7.3"]
    if not is_directory:
        assert [(tmp_path / name).read_text() for name in sorted(os.listdir(tmp_path))] == ["0", "1", "2"]


@pytest.mark.parametrize("is_directory", [True, False])
def test_a_checkpoint_that_another_host_has_set_aside_leaves_no_empty_file(tmp_path, monkeypatch, is_directory):
    def rename(source, _target):
        raise FileNotFoundError(source)

    (tmp_path / "7").mkdir() if is_directory else (tmp_path / "7").touch()
    os.utime(tmp_path / "7", (5, 5))
    monkeypatch.setattr(checkpoint_files.os, "rename", rename)
    checkpoint_files.set_aside(str(tmp_path), {"name": "7", "changed": 5.0})
    assert os.listdir(tmp_path) == ["7"]


def names(place):
    return [each.name for each in checkpoint_files.complete(str(place))]


def set_newest_aside(place, hosts=2):
    """Set the newest checkpoint aside, in the same way as each host of a job, and return its name."""
    newest = checkpoint_files.complete(str(place))[0]
    for _host in range(hosts):
        checkpoint_files.set_aside(str(place), {"name": newest.name, "changed": newest.changed})
    return newest.name


def write(place, *paths, changed=None, text="weights"):
    for path in paths:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
        if changed is not None:
            os.utime(place / path, (changed, changed))


def hidden(place):
    return sorted(path.name for path in place.iterdir() if path.name.startswith("."))


@pytest.fixture
def tensorflow(tmp_path):
    for step in (0, 10, 20):
        parts = ("data-00000-of-00002", "data-00001-of-00002", "index", "meta")
        write(tmp_path, *(f"model.ckpt-{step}.{part}" for part in parts), changed=100 - step)
    paths = "".join(f'all_model_checkpoint_paths: "{tmp_path}/model.ckpt-{step}"\n' for step in (0, 10, 20))
    write(tmp_path, "checkpoint", text=f'model_checkpoint_path: "{tmp_path}/model.ckpt-20"\n{paths}')
    write(tmp_path, "graph.pbtxt", "events.out.tfevents.1.host", "model.ckpt-30.index", "eval/events.out.tfevents.2.host")
    return tmp_path


def test_a_tensorflow_checkpoint_is_set_aside_with_all_of_its_files(tensorflow):
    assert names(tensorflow) == ["model.ckpt-20", "model.ckpt-10", "model.ckpt-0"]
    assert set_newest_aside(tensorflow) == "model.ckpt-20"
    assert names(tensorflow) == ["model.ckpt-10", "model.ckpt-0"]
    assert hidden(tensorflow) == [
        f".suspect-80-model.ckpt-20.{part}" for part in ("data-00000-of-00002", "data-00001-of-00002", "index", "meta")
    ]
    assert (tensorflow / "checkpoint").read_text() == (
        'model_checkpoint_path: "model.ckpt-10"\nall_model_checkpoint_paths: "model.ckpt-0"\nall_model_checkpoint_paths: "model.ckpt-10"\n'
    )
    assert (tensorflow / "graph.pbtxt").exists()


def test_a_host_finishes_what_another_host_has_begun_to_set_aside(tensorflow, monkeypatch):
    newest = checkpoint_files.complete(str(tensorflow))[0]
    checkpoint = {"name": newest.name, "changed": newest.changed}
    rename, moved = os.rename, []

    def die(source, target):
        if moved:
            raise InterruptedError
        moved.append(source)
        rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_files.os, "rename", die)
        with pytest.raises(InterruptedError):
            checkpoint_files.set_aside(str(tensorflow), checkpoint)
    assert 'model_checkpoint_path: "model.ckpt-10"' in (tensorflow / "checkpoint").read_text()
    checkpoint_files.set_aside(str(tensorflow), checkpoint)
    assert len(hidden(tensorflow)) == 4
    assert not list(tensorflow.glob("model.ckpt-20*"))


def test_a_tensorflow_checkpoint_that_was_written_again_is_not_set_aside(tensorflow):
    newest = checkpoint_files.complete(str(tensorflow))[0]
    write(tensorflow, "model.ckpt-20.index", changed=500)
    checkpoint_files.set_aside(str(tensorflow), {"name": newest.name, "changed": newest.changed})
    assert (hidden(tensorflow), names(tensorflow)[0]) == ([], "model.ckpt-20")


def save_with_megatron_bridge(place, iteration):
    folder = place / f"iter_{iteration:07}"
    folder.mkdir()
    (folder / "__0_0.distcp").write_text("weights")
    (folder / ".metadata").write_text("index")
    for path in (folder / "train_state.pt", place / "latest_train_state.pt"):
        path.write_text(f"iteration {iteration}")


@pytest.mark.parametrize("has_number", [True, False])
def test_megatron_bridge_uses_the_iteration_before_the_one_that_was_set_aside(tmp_path, has_number):
    """Megatron Bridge reads the iteration from a copy of a file of the newest checkpoint. Older versions write no other file."""
    for iteration in (100, 200):
        save_with_megatron_bridge(tmp_path, iteration)
    if has_number:
        (tmp_path / "latest_checkpointed_iteration.txt").write_text("200")
    for left in ("iteration 100", None):
        set_newest_aside(tmp_path)
        state = tmp_path / "latest_train_state.pt"
        assert (state.read_text() if state.exists() else None) == left
    assert checkpoint_files.complete(str(tmp_path)) == []


def test_megatron_bridge_keeps_the_iteration_before_one_that_it_has_not_completed(tmp_path):
    save_with_megatron_bridge(tmp_path, 100)
    (tmp_path / "iter_0000200").mkdir()
    (tmp_path / "iter_0000200/__0_0.distcp").write_text("weights")
    (damaged,) = checkpoint_files.damaged(str(tmp_path))
    checkpoint_files.set_aside(str(tmp_path), {"name": damaged.name, "changed": damaged.changed})
    assert (tmp_path / "latest_train_state.pt").read_text() == "iteration 100"


def save_with_deepspeed(place, step):
    write(place, f"global_step{step}/mp_rank_00_model_states.pt")
    write(place, "latest", text=f"global_step{step}")


@pytest.mark.parametrize("save", [save_with_megatron_bridge, save_with_deepspeed])
def test_no_unfinished_file_is_left_if_the_storage_is_full(tmp_path, monkeypatch, save):
    for step in (100, 200):
        save(tmp_path, step)
    newest, before = checkpoint_files.complete(str(tmp_path))[0], sorted(os.listdir(tmp_path))

    def full(*_arguments, **_options):
        raise OSError("No space left on device")

    monkeypatch.setattr(checkpoint_files.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        checkpoint_files.set_aside(str(tmp_path), {"name": newest.name, "changed": newest.changed})
    assert sorted(os.listdir(tmp_path)) == before


def test_deepspeed_uses_the_tag_before_the_one_that_was_set_aside(tmp_path):
    for step in (100, 200, 300):
        write(tmp_path, f"global_step{step}/mp_rank_00_model_states.pt")
    write(tmp_path, "zero_to_fp32.py")
    write(tmp_path, "latest", text="global_step200", changed=7)
    assert names(tmp_path) == ["global_step200", "global_step100"], "tag 300 is incomplete"
    assert set_newest_aside(tmp_path) == "global_step200"
    assert names(tmp_path) == ["global_step100"]
    assert (tmp_path / "latest").read_text() == "global_step100"
    assert (tmp_path / "latest").stat().st_mtime == 7
    assert (tmp_path / hidden(tmp_path)[0] / "mp_rank_00_model_states.pt").exists()


def test_a_link_to_the_newest_checkpoint_is_changed(tmp_path):
    write(tmp_path, "epoch-1.pt", "epoch-2.pt", "epoch-2.pt.sha256")
    (tmp_path / "last.pt").symlink_to("epoch-2.pt")
    (tmp_path / "latest").symlink_to("epoch-1.pt")
    (tmp_path / "dotted").symlink_to("./epoch-2.pt")
    (tmp_path / "absolute").symlink_to(tmp_path / "epoch-2.pt")
    (tmp_path / "roundabout").symlink_to(f"../{tmp_path.name}/epoch-2.pt")
    assert names(tmp_path) == ["epoch-2.pt", "epoch-1.pt"]
    set_newest_aside(tmp_path)
    assert {os.readlink(tmp_path / link) for link in ("last.pt", "latest", "dotted", "absolute", "roundabout")} == {"epoch-1.pt"}
    assert len(hidden(tmp_path)) == 2


@pytest.mark.parametrize("pointer", ["link", "file"])
def test_nothing_names_a_checkpoint_that_was_set_aside_if_it_was_the_only_one(tmp_path, pointer):
    write(tmp_path, "global_step100/model.pt")
    if pointer == "link":
        (tmp_path / "latest").symlink_to("global_step100")
    else:
        write(tmp_path, "latest", text="global_step100")
    set_newest_aside(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == []
    assert len(hidden(tmp_path)) == 2


@pytest.mark.parametrize("folder", ["", "run/checkpoints/"], ids=["directory", "collection"])
def test_the_name_that_a_script_opens_exists_again(tmp_path, folder):
    first, last = f"{folder}epoch=0-step=100.ckpt", f"{folder}last.ckpt"
    write(tmp_path, first, text="first", changed=1)
    write(tmp_path, last, text="second", changed=2)
    assert set_newest_aside(tmp_path) == last
    assert (tmp_path / last).read_text() == "first"
    (tmp_path / last).write_text("third")
    assert (tmp_path / first).read_text() == "first", "the script may write to this name"
    assert [(tmp_path / name).read_text() for name in hidden(tmp_path)] == ["second"]


def test_a_large_checkpoint_or_a_directory_is_linked(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_files, "COPY_LIMIT", 1)
    write(tmp_path, "step-1.pt", changed=1)
    write(tmp_path, "last.pt", changed=2)
    set_newest_aside(tmp_path)
    assert os.readlink(tmp_path / "last.pt") == "step-1.pt"
    write(tmp_path / "b", "step-1/x", "last/x", text="x")
    os.utime(tmp_path / "b/step-1", (1, 1))
    set_newest_aside(tmp_path / "b")
    assert os.readlink(tmp_path / "b/last") == "step-1"


@pytest.mark.parametrize(("text", "left"), [("model_0000002.pth", "model_0000001.pth"), ("/efs/out/epoch_2.pth", "/efs/out/epoch_1.pth")])
def test_a_file_that_names_the_last_checkpoint_keeps_its_form(tmp_path, text, left):
    """detectron2 writes a name, and MMEngine a path."""
    write(tmp_path, os.path.basename(left), os.path.basename(text), "metrics.json")
    write(tmp_path, "last_checkpoint", text="\ufeff" + text)
    assert names(tmp_path) == [os.path.basename(text), os.path.basename(left)]
    set_newest_aside(tmp_path)
    assert (tmp_path / "last_checkpoint").read_text() == left


def test_a_damaged_checkpoint_is_not_complete(tmp_path):
    write(tmp_path, *(f"step-{number}.pt" for number in range(4)))
    for number in (2, 3):
        (tmp_path / f"step-{number}.pt").write_bytes(b"PK\x03\x04 and no end")
    assert names(tmp_path) == ["step-1.pt", "step-0.pt"]
    assert [(each.name, each.damage) for each in checkpoint_files.damaged(str(tmp_path))] == [
        ("step-3.pt", "step-3.pt is cut off"),
        ("step-2.pt", "step-2.pt is cut off"),
    ]


@pytest.mark.parametrize("kind", ["directory", "binary", "fifo", "link"])
def test_an_entry_with_the_name_of_a_pointer_may_be_something_else(tmp_path, kind):
    write(tmp_path, "epoch-1.pt")
    if kind == "directory":
        write(tmp_path, "latest/model.pt")
    elif kind == "fifo":
        os.mkfifo(tmp_path / "latest")
    elif kind == "link":
        write(tmp_path.parent, "elsewhere.pt")
        (tmp_path / "latest").symlink_to(tmp_path.parent / "elsewhere.pt")
    else:
        (tmp_path / "latest").write_bytes(b"\xff\x00")
    assert sorted(names(tmp_path)) == ["epoch-1.pt", "latest"]


def test_a_file_deep_in_the_newest_directory_is_a_change(tmp_path):
    """Frameworks write large files into the directories of a checkpoint for minutes, which changes no directory."""
    shard = tmp_path / "iter_200" / "mp_rank_00" / "tensors" / "0.distcp"
    for number, file in enumerate((tmp_path / "iter_100" / "mp_rank_00" / "old.pt", shard)):
        file.parent.mkdir(parents=True)
        file.touch()
        for each in (file, *list(file.parents)[: len(file.relative_to(tmp_path).parts)]):
            os.utime(each, (number + 10, number + 10))
    assert checkpoint_files.newest_change(str(tmp_path)) == 11
    os.utime(shard, (500, 500))
    assert checkpoint_files.newest_change(str(tmp_path)) == 500


def test_a_copy_of_a_checkpoint_replaces_no_file_of_another_user(tmp_path, monkeypatch):
    """Several users may write to a directory of checkpoints, and can guess the name of the hidden file."""
    place = tmp_path / "checkpoints"
    write(place, "step-1.pt", text="first", changed=1)
    write(place, "last.pt", text="second", changed=2)
    write(tmp_path, "theirs", text="theirs")
    monkeypatch.setattr(checkpoint_files, "_temporary", lambda folder, name: os.path.join(folder, f".{name}.guessed"))
    (place / ".last.pt.guessed").symlink_to(tmp_path / "theirs")
    set_newest_aside(place)
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert (place / "last.pt").read_text() == "first"


def test_the_directory_of_checkpoints_may_be_a_link(tmp_path):
    write(tmp_path / "real", "step-1.pt", "step-2.pt")
    (tmp_path / "real/step-2.pt").write_bytes(b"PK\x03\x04 and no end")
    (tmp_path / "linked").symlink_to("real")
    assert names(tmp_path / "linked") == ["step-1.pt"]


EVENTS = "events.out.tfevents.1.host"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        # Accelerate 1.15 with automatic_checkpoint_naming, and a tracker
        (
            ["checkpoints/checkpoint_8/optimizer.bin", "checkpoints/checkpoint_9/optimizer.bin", f"my_run/{EVENTS}"],
            ["checkpoints/checkpoint_9", "checkpoints/checkpoint_8"],
        ),
        (["checkpoints/checkpoint_9/optimizer.bin", "final_model/model.bin", "tokenizer/a.model"], ["checkpoints/checkpoint_9"]),
        # Lightning 2.6
        (
            [
                "lightning_logs/version_0/hparams.yaml",
                f"lightning_logs/version_0/{EVENTS}",
                "lightning_logs/version_0/checkpoints/epoch=0-step=4.ckpt",
                "lightning_logs/version_1/checkpoints/epoch=1-step=8.ckpt",
                "lightning_logs/version_1/checkpoints/epoch=2-step=12.ckpt",
            ],
            [
                "lightning_logs/version_1/checkpoints/epoch=2-step=12.ckpt",
                "lightning_logs/version_1/checkpoints/epoch=1-step=8.ckpt",
                "lightning_logs/version_0/checkpoints/epoch=0-step=4.ckpt",
            ],
        ),
        # Lightning with the logger of W&B
        (["wandb/run-1/files/x", "project/abc123/checkpoints/last.ckpt"], ["project/abc123/checkpoints/last.ckpt"]),
        # ms-swift
        (
            ["v0-20250101-120000/checkpoint-100/x.bin", "v0-20250101-120000/args.json", "v1-20250102-120000/checkpoint-50/x.bin"],
            ["v1-20250102-120000/checkpoint-50", "v0-20250101-120000/checkpoint-100"],
        ),
        # Layouts with a pointer
        (["run1/latest_checkpointed_iteration.txt", "run1/iter_0000100/x", "run1/iter_0000200/x"], ["run1/iter_0000100"]),
        (["model/model.ckpt-1.index", "model/model.ckpt-1.data-00000-of-00001"], ["model/model.ckpt-1"]),
        # Orbax, whose folders contain numbered parts
        (["1/_METADATA", "1/default/manifest.ocdbt", "1/default/parts/process_0"], ["1"]),
        (["ckpt/1/_METADATA", "ckpt/1/default/parts/process_0", "ckpt/2/_METADATA"], ["ckpt/2", "ckpt/1"]),
        (["model/layer_01.pt", "model/model.pt"], ["model"]),
        # Other folders with steps in their names, or beside checkpoints
        (["checkpoint-100/x.bin", "samples/step_150.npy", f"run_200/{EVENTS}"], ["checkpoint-100"]),
        (["checkpoints/checkpoint_1/x.bin", "samples/step_150.npy"], ["checkpoints/checkpoint_1"]),
        ([f"my_run/{EVENTS}", "tokenizer/tokenizer.json", "lightning_logs/version_0/checkpoints/.hidden"], []),
    ],
)
def test_checkpoints_are_found_in_collections(tmp_path, written, expected):
    for number, path in enumerate(written):
        write(tmp_path, path, text="100")
        for each in list((tmp_path / path).parents)[: -len(tmp_path.parents) - 1]:
            os.utime(each, (number, number))
        os.utime(tmp_path / path, (number, number))
    assert names(tmp_path) == expected


def test_a_checkpoint_in_a_collection_is_set_aside_alone(tmp_path):
    write(tmp_path, *(f"checkpoints/checkpoint_{number}/optimizer.bin" for number in (8, 9)), f"my_run/{EVENTS}")
    (tmp_path / "newest").symlink_to("checkpoints/checkpoint_9")
    assert set_newest_aside(tmp_path) == "checkpoints/checkpoint_9"
    assert os.listdir(tmp_path / "checkpoints") == ["checkpoint_8"], "Accelerate also reads the numbers of hidden folders"
    assert len(hidden(tmp_path)) == 1
    assert (tmp_path / hidden(tmp_path)[0] / "optimizer.bin").exists()
    assert os.readlink(tmp_path / "newest") == "checkpoints/checkpoint_8"
    assert set_newest_aside(tmp_path) == "checkpoints/checkpoint_8"
    assert names(tmp_path) == []
    assert (tmp_path / "my_run" / EVENTS).exists()


def test_a_damaged_checkpoint_in_a_collection_is_not_complete(tmp_path):
    write(tmp_path, "checkpoints/checkpoint_1/x.bin", "checkpoints/checkpoint_2/x.bin")
    (tmp_path / "checkpoints/checkpoint_2/x.bin").write_text("")
    assert names(tmp_path) == ["checkpoints/checkpoint_1"]
    assert [each.name for each in checkpoint_files.damaged(str(tmp_path))] == ["checkpoints/checkpoint_2"]


def test_only_some_folders_are_searched_for_collections(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_files, "FOLDERS", 2)
    write(tmp_path, *(f"{name}/checkpoints/step-1.pt" for name in "abc"), f"z/{EVENTS}")
    for number, name in enumerate("cabz"):
        os.utime(tmp_path / name, (number, number))
    assert sorted(names(tmp_path)) == ["a", "b", "c"]


def test_a_folder_that_cannot_be_read_may_be_a_checkpoint(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    assert names(tmp_path) == []
    monkeypatch.setattr(checkpoint_files.os, "access", lambda _path, _mode: False)
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("target", ["checkpoints/epoch-1.pt", "/nowhere/epoch-1.pt", "last.pt", "../missing"])
def test_a_link_that_leads_nowhere_is_no_checkpoint(tmp_path, target):
    write(tmp_path, "epoch-1.pt")
    (tmp_path / "last.pt").symlink_to(target)
    assert names(tmp_path) == ["epoch-1.pt"]


def test_a_link_to_a_file_in_a_folder_that_is_no_collection_is_a_checkpoint(tmp_path):
    write(tmp_path, "epoch-1.pt", "elsewhere/model.pt")
    (tmp_path / "last.pt").symlink_to("elsewhere/model.pt")
    assert sorted(names(tmp_path)) == ["epoch-1.pt", "last.pt"]
