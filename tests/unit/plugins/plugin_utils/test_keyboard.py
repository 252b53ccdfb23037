"""Tests of the choice of the terminal. tests/hosts/test_job_logs.py and tests/end_to_end press Ctrl-C in real terminals."""

from __future__ import annotations

import os
import pty

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import keyboard


@pytest.mark.parametrize(
    ("shows_output", "environment", "is_kept"),
    [(True, {}, True), (False, {}, False), (True, {"AWX_ISOLATED_DATA_DIR": "/runner/artifacts/1"}, False)],
    ids=["terminal", "pipe to less", "ansible-runner"],
)
def test_the_keyboard_belongs_to_the_program_that_shows_the_output(monkeypatch, shows_output, environment, is_kept):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    control, terminal = pty.openpty()
    reading, writing = os.pipe()
    monkeypatch.setattr(os, "tcgetpgrp", lambda _descriptor: os.getpgrp())
    try:
        with open(terminal, closefd=False) as typed, open(terminal if shows_output else writing, "w", closefd=False) as shown:
            monkeypatch.setattr("sys.stdin", typed)
            monkeypatch.setattr("sys.stdout", shown)
            kept = keyboard.keep_terminal()
        assert (kept is not None) == is_kept
        if kept is not None:
            os.close(kept)
    finally:
        for descriptor in (control, terminal, reading, writing):
            os.close(descriptor)
