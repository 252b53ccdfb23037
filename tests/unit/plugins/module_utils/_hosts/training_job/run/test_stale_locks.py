"""Tests of lock files in caches: those of processes that have ended are found and deleted, all others stay."""

from __future__ import annotations

import os
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import stale_locks

LATER = time.time() + 3600


@pytest.fixture
def caches(tmp_path):
    """A home directory with caches. Return the environment, and a function that creates files and returns their paths."""

    def create(path, content=""):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
        return str(tmp_path / path)

    return {"HOME": str(tmp_path)}, create


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (".cache/torch_extensions/py310_cu121/fused_adam/lock", ""),
        (".cache/huggingface/hub/.locks/models--gpt2/abc.lock", ""),
        (".cache/huggingface/datasets/x.lock", "4711\nnode2\n"),
        (".cache/matplotlib/fontlist-v390.json.matplotlib-lock", ""),
        (".triton/cache/0f3c/kernel.lock", ""),
    ],
)
def test_locks_of_processes_that_have_ended_are_deleted(caches, path, content):
    environment, create = caches
    lock = create(path, content)
    assert stale_locks.find(environment, LATER) == [lock]
    with open(lock, encoding="utf-8"):
        assert stale_locks.find(environment, LATER) == [], "a process has it open"
    assert stale_locks.find(environment, os.stat(lock).st_ctime) == [], "of the next attempt"
    stale_locks.delete(environment, LATER)
    assert not os.path.exists(lock)


def test_other_files_stay(caches, tmp_path):
    environment, create = caches
    kept = [create(".cache/project/poetry.lock", "[[package]]"), create(".cache/block", ""), create(".cache/x.locks", ""), create("lock")]
    (tmp_path / ".cache/y.lock").symlink_to(kept[0])
    (tmp_path / ".cache/z.lock").mkdir()
    stale_locks.delete(environment, LATER)
    assert all(os.path.exists(path) for path in (*kept, tmp_path / ".cache/y.lock", tmp_path / ".cache/z.lock"))


def test_the_first_lock_with_a_short_path_is_named(caches, tmp_path):
    environment, create = caches
    create(f".cache/a/{'x' * 120}/lock")
    assert stale_locks.first(environment, LATER) == ""
    assert stale_locks.first({}, LATER) == ""
    short = os.path.join(tmp_path, ".cache/b/lock")
    assert len(short) <= stale_locks.PATH_LIMIT
    create(".cache/b/lock")
    assert stale_locks.first(environment, LATER) == short


def test_caches_in_other_places(caches, tmp_path):
    _environment, create = caches
    lock = create("extensions/x/lock")
    assert stale_locks.find({"TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions"), "HF_HOME": "relative"}, LATER) == [lock]


def test_locks_on_shared_storage_are_found_but_not_deleted(caches, monkeypatch):
    environment, create = caches
    lock = create(".cache/x/lock")
    monkeypatch.setattr(stale_locks, "file_system", lambda _path: "nfs4")
    stale_locks.delete(environment, LATER)
    assert stale_locks.find(environment, LATER) == [lock]


def test_a_large_cache_does_not_delay_an_attempt(caches, monkeypatch):
    environment, create = caches
    create(".cache/x/lock")
    monkeypatch.setattr(stale_locks, "PATIENCE", -1.0)
    assert stale_locks.find(environment, LATER) == []
