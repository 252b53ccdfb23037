"""Tests that check the contents of the files that describe the cluster, and that read these files."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.worker_metadata import metadata

WORKERS = [
    {"number": 1, "name": "demo-master", "address": "10.0.0.4"},
    {"number": 2, "name": "demo-worker2", "address": "10.0.1.30"},
    {"number": 5, "name": "demo-worker5", "address": "10.0.1.5"},
]
BLOCK = """\
# BEGIN deeplearning.cluster
10.0.0.4 demo-master deeplearning-worker1 deeplearning-master
10.0.1.30 demo-worker2 deeplearning-worker2
10.0.1.5 demo-worker5 deeplearning-worker5
# END deeplearning.cluster
"""


def test_ordered_by_number():
    assert metadata.ordered(reversed(WORKERS)) == WORKERS


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        ([], "number 1"),
        (WORKERS[1:], "number 1"),
        ([*WORKERS, {**WORKERS[1], "number": 7, "name": "x"}], "address 10.0.1.30 occurs twice"),
        ([*WORKERS, {"number": 2, "name": "x", "address": "10.0.0.9"}], "number 2 occurs twice"),
    ],
)
def test_ordered_refuses(workers, message):
    with pytest.raises(ValueError, match=message):
        metadata.ordered(workers)


def test_generation_is_of_name_numbers_and_addresses():
    generation = metadata.generation("demo", WORKERS)
    assert len(generation) == 12
    assert int(generation, 16) >= 0
    assert metadata.generation("demo", reversed(WORKERS)) == generation
    assert metadata.generation("demo", [{"number": w["number"], "address": w["address"]} for w in WORKERS]) == generation
    moved = [WORKERS[0], {**WORKERS[1], "address": "10.0.1.31"}, WORKERS[2]]
    others = {metadata.generation("other", WORKERS), metadata.generation("demo", WORKERS[:2]), metadata.generation("demo", moved)}
    assert len(others | {generation}) == 4


def test_files():
    assert metadata.workers_file(WORKERS) == "deeplearning-worker1\ndeeplearning-worker2\ndeeplearning-worker5\n"
    assert metadata.address_file(WORKERS) == "10.0.0.4\n10.0.1.5\n10.0.1.30\n"
    exports = metadata.variables(3, "/opt/deeplearning/workers", 8, "/my data")
    assert metadata.profile_file(exports) == (
        "export DEEPLEARNING_WORKERS_COUNT=3\n"
        "export DEEPLEARNING_WORKERS_PATH=/opt/deeplearning/workers\n"
        "export DEEPLEARNING_WORKER_GPU_COUNT=8\n"
        "export EFS_MOUNT='/my data'\n"
    )
    assert metadata.environment_block(exports) == (
        "# BEGIN deeplearning.cluster\n"
        "DEEPLEARNING_WORKERS_COUNT=3\n"
        "DEEPLEARNING_WORKERS_PATH=/opt/deeplearning/workers\n"
        "DEEPLEARNING_WORKER_GPU_COUNT=8\n"
        "EFS_MOUNT=/my data\n"
        "# END deeplearning.cluster\n"
    )
    assert "EFS_MOUNT" not in metadata.variables(3, "/w", 0, None)
    assert metadata.hosts_block(WORKERS) == BLOCK


def test_metadata_round_trip():
    document = metadata.parse_metadata(metadata.metadata_file("demo", 2, WORKERS, 8))
    assert document == {
        "cluster": "demo",
        "generation": metadata.generation("demo", WORKERS),
        "number": 2,
        "workers": WORKERS,
        "gpu_count": 8,
    }


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"cluster": "demo"})])
def test_parse_refuses(text):
    with pytest.raises(ValueError):  # noqa: PT011  JSON's own message or ours
        metadata.parse_metadata(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", BLOCK),
        ("127.0.0.1 localhost", "127.0.0.1 localhost\n" + BLOCK),
        ("a\n# BEGIN deeplearning.cluster\nold\n# END deeplearning.cluster\nb\n", "a\n" + BLOCK + "b\n"),
        ("a\n" + BLOCK + "b\n" + BLOCK + "c\n", "a\n" + BLOCK + "b\nc\n"),
        ("a\n" + BLOCK, "a\n" + BLOCK),
    ],
)
def test_replace_block(before, after):
    assert metadata.replace_block(before, BLOCK) == after
    assert metadata.replace_block(after, "") == after.replace(BLOCK, "")


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("127.0.1.1 demo-worker2.example.com demo-worker2", "127.0.1.1 demo-worker2.example.com\n"),
        ("127.0.1.1\tDemo-Worker2  # by the installer", ""),
        ("10.9.9.9 deeplearning-master old # former", "10.9.9.9 old # former\n"),
        ("10.9.9.9 deeplearning-worker17", ""),
    ],
)
def test_the_block_is_the_only_place_for_the_names_of_the_cluster(line, rest):
    others = "127.0.0.1 localhost # demo-worker2\n::1 ip6-localhost\n10.0.0.9 demo-worker29 files\n"
    text, replaced = metadata.without_names(f"{others}{line}\n{BLOCK}", WORKERS)
    assert text == f"{others}{rest}{BLOCK}"
    assert replaced == [line.strip()]
    assert metadata.without_names(text, WORKERS) == (text, [])


def test_the_block_is_the_only_place_for_the_variables_of_the_cluster():
    block = "# BEGIN deeplearning.cluster\nEFS_MOUNT=/efs\n# END deeplearning.cluster\n"
    others = "PATH=/usr/bin\nMY_EFS_MOUNT=/mine\n#EFS_MOUNT=/commented\n"
    older = ["EFS_MOUNT=/old", "export DEEPLEARNING_WORKERS_COUNT=9"]
    text = others + block + "".join(f"{line}\n" for line in older)
    names = ["EFS_MOUNT", "DEEPLEARNING_WORKERS_COUNT"]
    assert metadata.without_variables(text, names) == (others + block, older)
    assert metadata.without_variables(others + block, names) == (others + block, [])
