"""The command local-cloud without a running cloud."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_cloud import cli


def test_env_before_the_first_start_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--home", str(tmp_path / "none"), "env"]) == 1
    assert capsys.readouterr().err == "local-cloud: The cloud has no address yet. Run `local-cloud start`.\n"
    assert not (tmp_path / "none").exists()


def test_stop_when_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stop", "--home", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "local-cloud: not running\n"
