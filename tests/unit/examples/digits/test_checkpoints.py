"""Tests of the helper for checkpoints that scripts may copy."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import checkpoint_files

from ..conftest import EXAMPLES


@pytest.fixture
def helper(example):
    return example("checkpoints")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def save(checkpoints, epoch, text="parameters"):
    checkpoints.save(epoch, lambda path: path.write_text(f"{text} {epoch}"))


def test_the_newest_checkpoint_with_a_correct_digest_is_used(helper, tmp_path):
    checkpoints = helper.Checkpoints(tmp_path / "new")
    assert checkpoints.newest() is None
    for epoch in (1, 2, 9_999, 10_000):
        save(checkpoints, epoch)
    assert checkpoints.newest().name == "epoch-10000.pt"
    assert subprocess.run(["sha256sum", "--check", "epoch-10000.pt.sha256"], cwd=tmp_path / "new", check=False).returncode == 0
    (tmp_path / "new" / "epoch-10000.pt").write_text("garbage")
    (tmp_path / "new" / "epoch-9999.pt.sha256").write_text("")
    assert checkpoints.newest().name == "epoch-0002.pt"
    (tmp_path / "new" / "epoch-0002.pt.sha256").unlink()
    assert checkpoints.newest().read_text() == "parameters 2", "without a digest, it counts as intact"


def test_the_hosts_see_the_same_checkpoints(helper, tmp_path):
    checkpoints = helper.Checkpoints(tmp_path, ".params")
    save(checkpoints, 1)
    save(checkpoints, 2)
    found = checkpoint_files.complete(str(tmp_path))
    assert [(each.name, each.step.number, each.entries) for each in found] == [
        ("epoch-0002.params", 2, ["epoch-0002.params", "epoch-0002.params.sha256"]),
        ("epoch-0001.params", 1, ["epoch-0001.params", "epoch-0001.params.sha256"]),
    ]
    checkpoint_files.set_aside(str(tmp_path), {"name": found[0].name, "changed": found[0].changed})
    assert checkpoints.newest().name == "epoch-0001.params"


@pytest.mark.parametrize("at", ["write", "digest", "rename"])
def test_a_checkpoint_is_complete_or_missing(helper, tmp_path, monkeypatch, at):
    """A process may be killed at any time."""
    checkpoints = helper.Checkpoints(tmp_path)
    save(checkpoints, 1)

    def die(*_arguments):
        raise KeyboardInterrupt

    def write(path):
        path.write_text("half")
        if at == "write":
            die()

    if at == "digest":
        monkeypatch.setattr(helper, "sha256", die)
    if at == "rename":
        monkeypatch.setattr(helper, "synchronize", lambda path: die() if path.name == "epoch-0002.pt.tmp" else None)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(2, write)
    monkeypatch.undo()
    assert checkpoints.newest().name == "epoch-0001.pt"
    assert [each.name for each in checkpoint_files.complete(str(tmp_path))] == ["epoch-0001.pt"]
    save(checkpoints, 2)
    assert checkpoints.newest().name == "epoch-0002.pt"


def test_only_the_newest_are_kept(helper, tmp_path):
    checkpoints = helper.Checkpoints(tmp_path, keep=2)
    for epoch in range(1, 5):
        save(checkpoints, epoch)
    assert names(tmp_path) == ["epoch-0003.pt", "epoch-0003.pt.sha256", "epoch-0004.pt", "epoch-0004.pt.sha256"]


def test_the_stop_signal_is_remembered(helper):
    before = signal.getsignal(signal.SIGTERM)
    try:
        stop = helper.StopSignal()
        assert not stop.received
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.received
        assert stop.STATUS == 143
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("folder", ["cifar10", "mask_rcnn", "regression"])
def test_the_copies_in_the_examples_are_the_same(folder):
    assert (EXAMPLES / folder / "checkpoints.py").read_text() == (EXAMPLES / "digits/checkpoints.py").read_text()
