# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the installation of the health checks that run after a failure."""

from __future__ import annotations

import contextlib
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import health_service, systemd

PARAMS = {"instance_id": None, "metadata_directory": "/opt/deeplearning", "instance_type": "p5.48xlarge", "efa_devices": 32}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs the service and returns the commands that were run."""
    monkeypatch.setattr(health_service, "DIRECTORY", str(tmp_path / "health"))
    monkeypatch.setattr(systemd, "exclusive", contextlib.nullcontext)

    def run_install(active=True, status=0, **changes):
        commands = []

        def run(command):
            commands.append(command)
            if command[1] == "is-active":
                return (0 if active else 3), "", ""
            return (status if command[0] == "systemd-run" else 0), "", "no such property\n"

        health_service.install(run, {**PARAMS, **changes})
        return commands

    return run_install


def test_the_service_is_installed_once(install, tmp_path, monkeypatch):
    (*_stop, command) = install()
    assert command[:2] == ["systemd-run", "--quiet"]
    assert "--socket-property=ListenStream=/run/deeplearning/health.sock" in command
    (path,) = (tmp_path / "health").iterdir()
    assert command[-5:] == [str(path), "", "/opt/deeplearning", "p5.48xlarge", "32"]
    assert path.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(4e8))
    assert [command[1] for command in install()] == ["is-active"], "also at another time"


@pytest.mark.parametrize("change", [{"active": False}, {"efa_devices": 0}, {"instance_id": "i-0123456789abcdef0"}])
def test_a_service_that_has_stopped_or_differs_is_replaced(install, tmp_path, change):
    install()
    commands = install(**change)
    assert [command[1] for command in commands[-3:-1]] == ["stop", "reset-failed"]
    assert commands[-1][0] == "systemd-run"
    assert len(list((tmp_path / "health").iterdir())) == 1


def test_a_failed_installation_is_repeated(install):
    with pytest.raises(systemd.UnitError, match=r"systemd-run could not start deeplearning-health\.socket: no such property"):
        install(status=1)
    assert install()[-1][0] == "systemd-run"
