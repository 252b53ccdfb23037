"""Tests of the layouts of checkpoint directories."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import checkpoint_layouts as layouts
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.checkpoint_layouts import CheckpointEntry, CheckpointStep, Saved

TENSORFLOW, MEGATRON, DEEPSPEED, *NAMES, PLAIN = layouts.LAYOUTS
PARTS = ("index", "meta", "data-00000-of-00001")


def find(*names, pointers=None, directories=(), changed=None):
    """Return the checkpoints in a directory. By default, the entries were written in the order of their names in the arguments."""
    times = changed or {}
    entries = [
        CheckpointEntry(name, times.get(name, float(number)), name in directories) for number, name in enumerate([*names, *directories])
    ]
    return layouts.find_checkpoints(entries, pointers or {})


def complete(*names, **options):
    return [each.name for each in find(*names, **options) if each.is_complete]


def group(name, parts=PARTS):
    return [f"{name}.{part}" for part in parts]


@pytest.mark.parametrize(
    "name",
    [
        ".hidden",
        "epoch-1.tmp",
        "20.orbax-checkpoint-tmp-1",
        "20.orbax-checkpoint-tmp",
        "model.ckpt-0_temp",
        "model.ckpt-0_temp_0123456789abcdef0123456789abcdef",
        "model.ckpt-0.index.tempstate12345",
        "checkpoint.tmp0123456789abcdef0123456789abcdef",
        "events.out.tfevents.1700000000.host",
        "graph.pbtxt",
        "graph.pbtxt.tmp0123456789abcdef0123456789abcdef",
        "zero_to_fp32.py",
        "zero_to_torch.py",
        "latest_train_state.pt",
    ],
)
def test_incomplete_checkpoints_and_other_files_of_frameworks_do_not_count(name):
    assert find(name) == []


@pytest.mark.parametrize("name", ["epoch-1.pt", "20", "checkpoint", "latest", "template", "my_temp_model", "a\nb", "events.out", "tmp"])
def test_each_other_entry_is_a_checkpoint(name):
    assert complete(name) == [name]
    assert complete(directories=[name]) == [name]


def test_the_digest_of_a_checkpoint_belongs_to_it():
    assert find("a.pt.sha256", "a.pt", "b.pt.sha256") == [
        Saved("b.pt", ["b.pt.sha256"], 2.0, is_complete=False),
        Saved("a.pt", ["a.pt", "a.pt.sha256"], 1.0),
    ]


def test_a_link_is_no_checkpoint():
    assert [each.name for each in layouts.find_checkpoints([CheckpointEntry("a", 1.0), CheckpointEntry("last", 2.0, target="a")], {})] == [
        "a"
    ]


def test_orbax_has_a_folder_per_step():
    assert complete(directories=["20", "9", "30.orbax-checkpoint-tmp-4"]) == ["20", "9"]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (group("model.ckpt-1"), True),
        (["model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001"], True),
        (group("model.ckpt-1", ("index", "data-00000-of-00002", "data-00001-of-00002")), True),
        (group("model.ckpt-1", ("index", "data-00001-of-00002")), False),
        (group("model.ckpt-1", ("meta", "data-00000-of-00001")), False),
    ],
)
def test_a_tensorflow_checkpoint_has_an_index_and_all_parts_of_its_data(entries, expected):
    (found,) = find(*entries, "graph.pbtxt", "checkpoint", "events.out.tfevents.1.host", "eval")
    assert (found.name, found.is_complete, sorted(found.entries)) == ("model.ckpt-1", expected, sorted(entries))


def test_in_tensorflow_the_state_file_names_the_newest_checkpoint():
    entries = [*group("model.ckpt-7"), *group("model.ckpt-8")]
    assert complete(*entries) == ["model.ckpt-8", "model.ckpt-7"]
    state = 'model_checkpoint_path: "/efs/x/model.ckpt-7"\nall_model_checkpoint_paths: "/efs/x/model.ckpt-7"\n'
    assert complete(*entries, "checkpoint", pointers={"checkpoint": state}) == ["model.ckpt-7", "model.ckpt-8"]
    assert TENSORFLOW.read('all_model_checkpoint_paths: "a"\n') == []
    assert complete("checkpoint", pointers={"checkpoint": "weights of another framework"}) == ["checkpoint"]
    assert complete("checkpoint", "other", pointers={"checkpoint": state}) == [], "the checkpoint that the file names does not exist"


@pytest.mark.parametrize(
    ("layout", "name", "names"),
    [
        (TENSORFLOW, "checkpoint", ["model.ckpt-20", "model.ckpt-10", "a \"b\" \\ 'c'"]),
        (DEEPSPEED, "latest", ["global_step20", "global_step10"]),
        (MEGATRON, "latest_checkpointed_iteration.txt", ["iter_0000020", "iter_0000010"]),
    ],
)
def test_a_pointer_is_changed_to_the_newest_checkpoint_that_is_left(layout, name, names):
    saved = [Saved("incomplete", [], 9.0, is_complete=False), *(Saved(each, [], 1.0) for each in names)]
    text = layout.write(names, "")
    assert layout.pointer == name
    assert layout.read(text)[0] == names[0]
    changed = layouts.without(text, layout, names[0], saved)
    assert layout.read(changed)[0] == names[1]
    assert names[0] not in changed
    assert layouts.without(text, layout, "another", saved) == text
    assert layouts.without(text, layout, names[0], saved[:2]) == text, "no other checkpoint is complete"


def test_the_state_file_of_tensorflow_names_the_oldest_checkpoint_first():
    assert (
        TENSORFLOW.write(["b", "a"], "") == 'model_checkpoint_path: "b"\nall_model_checkpoint_paths: "a"\nall_model_checkpoint_paths: "b"\n'
    )
    assert TENSORFLOW.read(TENSORFLOW.write(["b", "a"], "")) == ["b", "b", "a"]
    assert TENSORFLOW.write(['1 "b" \\'], "").startswith('model_checkpoint_path: "1 \\"b\\" \\\\"\n')
    assert set(TENSORFLOW.read(TENSORFLOW.write(['1 "b" \\'], ""))) == {'1 "b" \\'}


@pytest.mark.parametrize("text", ["", "\n", "../other", "a/b", ".hidden", "x" * 256, "a\x01b", "two\nlines"])
def test_a_file_named_latest_without_a_name_is_a_checkpoint(text):
    assert complete("latest", pointers={"latest": text}) == ["latest"]


def test_a_tag_is_complete_when_latest_names_it():
    tags = ["global_step100", "global_step300", "global_step200"]
    assert complete("latest", directories=tags, pointers={"latest": "global_step200\n"}) == ["global_step200", "global_step100"]
    assert complete("best.pt", "latest", directories=["best"], pointers={"latest": "best"}) == ["best"], "best.pt is a file"


def test_tags_without_a_step_are_complete_if_they_are_not_newer_than_latest():
    found = complete("a", "b", "latest", "c", pointers={"latest": "a"})
    assert found == ["a", "b"]
    assert complete("latest", "a", pointers={"latest": "a"}) == ["a"]
    assert complete("a", "latest", "b", pointers={"latest": "gone"}) == ["a"]
    assert complete("step-1", "latest", "epoch-0", pointers={"latest": "step-1"}) == ["step-1"], "steps and epochs cannot be compared"


def test_megatron_numbers_its_folders():
    folders = ["iter_0000100", "iter_0000200", "other"]
    pointers = {"latest_checkpointed_iteration.txt": "100\n"}
    assert complete("latest_checkpointed_iteration.txt", directories=folders, pointers=pointers) == ["iter_0000100"]
    for text in ("released", "", "1" * 19, "²"):
        assert MEGATRON.read(text) == []
    assert MEGATRON.read("1" * 18) == ["iter_" + "1" * 18]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("epoch-0007.pt", CheckpointStep("epoch", 7)),
        ("Epoch_7", CheckpointStep("epoch", 7)),
        ("epoch=1-step=100.ckpt", CheckpointStep("step", 100)),
        ("epochs=1.iteration.20", CheckpointStep("iter", 20)),
        ("model.step500", CheckpointStep("step", 500)),
        ("global_step100", CheckpointStep("step", 100)),
        ("iter_0000100", CheckpointStep("iter", 100)),
        ("model.ckpt-100", CheckpointStep("", 100)),
        ("checkpoint-500", CheckpointStep("", 500)),
        ("20", CheckpointStep("", 20)),
        ("weights.7.h5", CheckpointStep("", 7)),
        ("weights.7.tar.gz", CheckpointStep("", 7)),
        ("1" * 18, CheckpointStep("", int("1" * 18))),
        ("1" * 19, None),
        ("²", None),
        ("٣", None),
        ("last.pt", None),
        ("model.h5", None),
        ("epoch-none.pt", None),
        ("model-v2-100.pt", None),
        ("loss=0.25.ckpt", None),
    ],
)
def test_the_step_is_in_the_name(name, expected):
    assert layouts.parse_step(name) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["9.pt", "10.pt", "2.pt"], ["10.pt", "9.pt", "2.pt"]),
        (["9.pt", "last.pt", "2.pt"], ["last.pt", "9.pt", "2.pt"]),
        (["1.pt", "last.pt", "2.pt"], ["2.pt", "last.pt", "1.pt"]),
        (["epoch-2", "step-900", "epoch-1"], ["epoch-1", "step-900", "epoch-2"]),
        (["b", "a"], ["a", "b"]),
    ],
)
def test_the_newest_has_the_highest_step_or_if_steps_are_unknown_was_written_last(written, expected):
    assert complete(*written) == expected


def test_checkpoints_of_the_same_time_are_ordered_by_name():
    assert complete("a", "c", "b", changed=dict.fromkeys("abc", 1.0)) == ["c", "b", "a"]


def saved(name, changed=1.0):
    return Saved(name, [name], changed)


@pytest.mark.parametrize(
    ("before", "after", "has_new_steps", "expected"),
    [
        ([], [], True, False),
        ([], [saved("step-1")], False, True),
        ([saved("step-1")], [saved("step-2"), saved("step-1")], False, True),
        ([saved("step-1")], [saved("step-1", 2.0)], True, False),
        ([saved("step-2"), saved("step-1")], [saved("step-2")], True, False),
        ([saved("last.pt")], [saved("last.pt", 2.0)], True, True),
        ([saved("last.pt")], [saved("last.pt", 2.0)], False, False),
        ([saved("last.pt")], [saved("last.pt")], True, False),
        ([saved("checkpoints/step-1")], [saved("checkpoints/step-2"), saved("checkpoints/step-1")], False, True),
        ([saved("checkpoints/step-1")], [saved("checkpoints/step-1", 2.0)], True, False),
        ([saved("v0/step-1")], [saved("v1/step-1", 2.0), saved("v0/step-1")], True, False),
        ([saved("v0/step-1")], [saved("v1/step-2"), saved("v0/step-1")], False, True),
        ([saved("v0/last.pt")], [saved("v1/last.pt", 2.0), saved("v0/last.pt")], False, False),
        ([saved("v0/last.pt")], [saved("v1/last.pt", 2.0), saved("v0/last.pt")], True, True),
        ([saved("v0/last.pt"), saved("v1/last.pt", 2.0)], [saved("v1/last.pt", 2.0), saved("v0/last.pt")], True, False),
    ],
)
def test_progress_is_a_name_that_did_not_exist_or_a_replaced_checkpoint_with_new_steps(before, after, has_new_steps, expected):
    assert layouts.has_new(before, after, has_new_steps) is expected


def test_pointers_are_the_files_that_name_checkpoints():
    expected = ("checkpoint", "latest_checkpointed_iteration.txt", "latest", *layouts.NAME_FILES)
    assert expected == layouts.POINTERS


@pytest.mark.parametrize(
    ("written", "newest"),
    [
        # Hugging Face Trainer
        (["checkpoint-10/", "checkpoint-20/", "config.json", "model.safetensors", "runs/"], ["checkpoint-20", "checkpoint-10"]),
        (["checkpoint-10/", "tmp-checkpoint-20/", "tokenizer.json", "completions/"], ["checkpoint-10"]),
        # Lightning
        (["epoch=0-step=100.ckpt", "epoch=1-step=200.ckpt", "last.ckpt"], ["last.ckpt", "epoch=1-step=200.ckpt", "epoch=0-step=100.ckpt"]),
        (["epoch=0-step=100.ckpt", "last.ckpt", "epoch=1-step=200.ckpt"], ["epoch=1-step=200.ckpt", "last.ckpt", "epoch=0-step=100.ckpt"]),
        (["epoch=1-step=200.ckpt", "hparams.yaml", "lightning_logs/", "last-v1.ckpt"], ["last-v1.ckpt", "epoch=1-step=200.ckpt"]),
        # NeMo: the marker says that the checkpoint beside it is unfinished
        (["m--step=50/", "m--step=100-last/", "m--step=100-last-unfinished"], ["m--step=50"]),
        (["m--step=50.ckpt", "m--step=100.ckpt", "m--step=100-unfinished"], ["m--step=50.ckpt"]),
        # NeMo saves a checkpoint twice at the end, and deletes the first one later
        (["m--step=50/", "m--step=100/", "m--step=100-unfinished", "m--step=100-last/"], ["m--step=100-last", "m--step=50"]),
        (
            ["m--step=50.ckpt", "m--step=100.ckpt", "m--step=100-last.ckpt", "m--step=100-last-unfinished"],
            ["m--step=100.ckpt", "m--step=50.ckpt"],
        ),
        (["m--step=100/", "m--step=100-unfinished", "m--step=100-last/", "m--step=100-last-unfinished"], []),
        # fairseq
        (
            ["checkpoint1.pt", "checkpoint2.pt", "checkpoint_best.pt", "checkpoint_last.pt"],
            ["checkpoint_last.pt", "checkpoint2.pt", "checkpoint1.pt"],
        ),
        # timm, detectron2, torchtune, YOLO
        (
            ["checkpoint-1.pth.tar", "checkpoint-2.pth.tar", "last.pth.tar", "model_best.pth.tar", "summary.csv"],
            ["last.pth.tar", "checkpoint-2.pth.tar", "checkpoint-1.pth.tar"],
        ),
        (["model_0000999.pth", "model_0001999.pth", "metrics.json"], ["model_0001999.pth", "model_0000999.pth"]),
        (["epoch_0/", "epoch_1/", "recipe_state/"], ["epoch_1", "epoch_0"]),
        (["best.pt", "last.pt", "results.csv"], ["last.pt", "best.pt"]),
        (["resnet50_best.pth", "resnet50_last.pth"], ["resnet50_last.pth", "resnet50_best.pth"]),
        # Keras BackupAndRestore
        (["latest.weights.h5", "training_metadata.json"], ["latest.weights.h5"]),
        # MXNet, and scripts that write several files for a step
        (["net-symbol.json", "net-0001.params", "net-0002.params"], ["net-0002.params", "net-0001.params"]),
        (["model_1.pt", "optimizer_1.pt", "model_2.pt", "optimizer_2.pt"], ["model_2.pt", "model_1.pt"]),
        (["step10_rank0.pt", "step10_rank1.pt", "step20_rank0.pt", "step20_rank1.pt"], ["step20_rank0.pt", "step10_rank0.pt"]),
        # Other entries with numbers
        (["checkpoint-400/", "checkpoint-500.partial/", "checkpoint-500.lock", "checkpoint_tmp"], ["checkpoint-400"]),
        (["step-100-low_temp/", "lost+found/"], ["step-100-low_temp"]),
        (["state.json"], ["state.json"]),
        (["model.pt", "log.txt"], ["model.pt"]),
    ],
)
def test_what_frameworks_write_beside_checkpoints_does_not_count(written, newest):
    directories = [name.rstrip("/") for name in written if name.endswith("/")]
    entries = [CheckpointEntry(name.rstrip("/"), float(number), name.rstrip("/") in directories) for number, name in enumerate(written)]
    assert [each.name for each in layouts.find_checkpoints(entries, {}) if each.is_complete] == newest


@pytest.mark.parametrize(
    ("written", "entries"),
    [
        (["model_1.pt", "optimizer_1.pt"], ["model_1.pt", "optimizer_1.pt"]),
        (["rng_state_0.pth", "rng_state_1.pth"], ["rng_state_0.pth", "rng_state_1.pth"]),
        (
            ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"],
            ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"],
        ),
    ],
)
def test_several_files_are_one_checkpoint(written, entries):
    (found,) = find(*written)
    assert found.entries == entries


def test_the_tracker_file_of_megatron_may_name_other_folders():
    tracker = "latest_checkpointed_iteration.txt"
    folders = ["global_step_20", "global_step_40", "global_step_60"]
    assert complete(tracker, directories=folders, pointers={tracker: "40"}) == ["global_step_40", "global_step_20"]
    assert complete(tracker, directories=["release", "iter_0000100"], pointers={tracker: "release"}, changed={tracker: 0.5}) == ["release"]
    assert layouts.without("40", MEGATRON, "global_step_40", find(tracker, directories=folders, pointers={tracker: "40"})) == "20"


def test_a_pointer_that_names_something_incomplete_or_missing_is_damage():
    parts = (*group("m-200"), "m-300.index", "m-300.data-00000-of-00002", "checkpoint")
    found = find(*parts, pointers={"checkpoint": 'model_checkpoint_path: "m-300"\n'})
    assert [(each.name, each.is_complete, each.damage) for each in found] == [
        ("m-300", False, "parts are missing"),
        ("m-200", True, ""),
    ]
    found = find("latest", directories=["step1"], pointers={"latest": "step2"})
    assert [(each.name, each.is_complete, each.damage) for each in found] == [("step2", False, "is missing"), ("step1", True, "")]
    assert layouts.without("step2", DEEPSPEED, "step2", found) == "step1"


def test_the_number_in_the_name_of_a_model_is_no_step():
    assert [layouts.parse_step(name) for name in ("resnet50_last.pth", "last-v1.ckpt", "v2_latest.pt")] == [None] * 3
    assert layouts.parse_step("last-epoch=3.ckpt") == CheckpointStep("epoch", 3)


@pytest.mark.parametrize(
    ("name", "inner", "at_top", "elsewhere"),
    [
        ("checkpoints", ["checkpoint_8", "checkpoint_9"], 3, 3),
        ("ckpts", ["1", "2"], 3, 3),
        ("model_checkpoints", ["last.ckpt", "best.ckpt"], 3, 3),
        ("checkpoints", ["model.pt", "optimizer.pt"], 0, 0),
        ("my_run", ["checkpoint-100", "runs"], 2, 2),
        ("version_0", ["epoch=0-step=100.ckpt", "hparams.yaml"], 2, 2),
        ("version_0", ["checkpoints", "hparams.yaml"], 0, 0),
        ("last", ["global_step100", "latest"], 0, 0),
        ("last", ["checkpoint-100", "checkpoint-200"], 2, 2),
        ("models", ["model_1.pt", "model_2.pt", "last.pt", "config.json"], 1, 0),
        ("model", ["layer_01.pt", "model.pt"], 0, 0),
        ("1800", ["1", "2"], 0, 0),
        ("my_run", ["events.out.tfevents.1.host", "step_100.png", ".suspect-1-step-1", "step-9.tmp"], 0, 0),
    ],
)
def test_a_folder_is_a_collection_if_its_name_or_those_of_its_entries_say_so(name, inner, at_top, elsewhere):
    assert [layouts.rank_collection(name, inner, is_at_top) for is_at_top in (True, False)] == [at_top, elsewhere]


def test_the_collection_that_was_changed_last_has_the_newest_checkpoints():
    collections = {"v0": [saved("step-9", 3.0), saved("step-8", 1.0)], "v1": [saved("step-2", 4.0)]}
    found = layouts.with_collections([saved("model", 9.0), saved("last.pt", 2.0)], collections)
    assert [each.name for each in found] == ["v1/step-2", "v0/step-9", "v0/step-8", "last.pt"]
    assert found[0] == Saved("v1/step-2", ["v1/step-2"], 4.0)
    assert found[0].step == CheckpointStep("step", 2)
    own = [saved("step-1"), saved("last.pt")]
    assert layouts.with_collections(own, collections) == own
