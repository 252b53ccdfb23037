# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the installation of the health checks that run without the controller."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import health_service, systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import exclusions

PARAMS = {
    "instance_id": None,
    "metadata_directory": "/opt/deeplearning",
    "instance_type": "p5.48xlarge",
    "efa_devices": 32,
    "health_interval": 300,
    "reboot": False,
}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs the service and returns the systemctl commands that were run."""
    monkeypatch.setattr(health_service, "UNITS", str(tmp_path / "units"))
    monkeypatch.setattr(exclusions, "PATH", str(tmp_path / "health/exclusions.json"))
    monkeypatch.setattr(systemd, "exclusive", contextlib.nullcontext)
    (tmp_path / "units").mkdir()

    def run_install(active=True, status=0, answers=0, **changes):
        commands = []
        answering = iter([True] * answers)

        def run(command):
            assert command[0] == "systemctl"
            commands.append(" ".join(command[1:]))
            if command[1:] == ["is-active", "--quiet", "deeplearning-health.service"]:
                return (0 if next(answering, False) else 3), "", ""
            if command[1] == "is-active":
                return (0 if active else 3), "", ""
            return (status if command[1] == "enable" else 0), "", "no such unit\n"

        health_service.install(run, {**PARAMS, **changes})
        return commands

    return run_install


def test_the_service_is_installed_once(install, tmp_path, monkeypatch):
    assert install()[-3:] == [
        "daemon-reload",
        "enable --quiet deeplearning_health_boot.service",
        "enable --now --quiet deeplearning-health.socket deeplearning_health_periodic.timer",
    ]
    assert "ListenStream=/run/deeplearning/health.sock\n" in (tmp_path / "units/deeplearning-health.socket").read_text()
    for name in ("health.zip", "settings.json"):
        assert (tmp_path / "health" / name).stat().st_mode & 0o777 == 0o600
    settings = {
        "instance_id": "",
        "metadata_directory": "/opt/deeplearning",
        "instance_type": "p5.48xlarge",
        "efa_devices": 32,
        "reboot": False,
    }
    assert json.loads((tmp_path / "health/settings.json").read_text()) == settings
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(4e8))
    assert install() == ["is-active --quiet deeplearning-health.socket"], "also at another time"


@pytest.mark.parametrize(
    "change", [{"active": False}, {"efa_devices": 0}, {"instance_id": "i-0123456789abcdef0"}, {"health_interval": 60}, {"reboot": True}]
)
def test_a_service_that_has_stopped_or_differs_is_replaced(install, change):
    install()
    commands = install(**change)
    is_stopped = "stop deeplearning-health.socket deeplearning-health.service" in commands
    assert is_stopped == ("active" in change), "supervisors may be waiting for an answer"
    assert commands[-1].startswith("enable --now --quiet deeplearning-health.socket")


def test_a_service_that_answers_is_not_stopped(install, monkeypatch):
    """Only the installation of a different socket stops the service, when it has answered all requests."""
    monkeypatch.setattr(health_service, "INTERVAL", 0.0)
    install()
    monkeypatch.setattr(health_service, "SOCKET", health_service.SOCKET.replace("RemoveOnStop", "# RemoveOnStop"))
    commands = install(answers=3)
    question = commands.index("is-active --quiet deeplearning-health.service")
    assert commands[question : question + 5] == [
        *["is-active --quiet deeplearning-health.service"] * 4,
        "stop deeplearning-health.socket deeplearning-health.service",
    ]
    monkeypatch.setattr(health_service, "PATIENCE", 0.0)
    monkeypatch.setattr(health_service, "SOCKET", health_service.SOCKET.replace("# RemoveOnStop", "RemoveOnStop"))
    commands = install(answers=3)
    assert commands.count("is-active --quiet deeplearning-health.service") == 1
    assert "stop deeplearning-health.socket deeplearning-health.service" in commands


def test_requests_cannot_stop_the_socket(install, tmp_path):
    install()
    assert "\nTriggerLimitIntervalSec=0\n" in (tmp_path / "units/deeplearning-health.socket").read_text()
    unit, _rest = (tmp_path / "units/deeplearning-health.service").read_text().split("[Service]")
    assert "\nStartLimitIntervalSec=0\n" in unit


def test_the_interval_of_the_checks_while_jobs_run(install, tmp_path):
    timer = tmp_path / "units/deeplearning_health_periodic.timer"
    install(health_interval=60)
    assert "OnUnitInactiveSec=60\n" in timer.read_text()
    commands = install(health_interval=0)
    assert "disable --now --quiet deeplearning_health_periodic.timer" in commands
    assert commands[-1] == "enable --now --quiet deeplearning-health.socket"
    assert not timer.exists()
    assert len(install(health_interval=0)) == 1


def test_with_reboots_the_host_can_start_its_jobs_again(install, tmp_path):
    commands = install(reboot=True)
    assert "enable --quiet deeplearning_health_boot.service deeplearning_rejoin.service" in commands
    unit = (tmp_path / "units/deeplearning_rejoin.service").read_text()
    assert f"ConditionDirectoryNotEmpty={tmp_path}/health/rejoin\n" in unit
    assert (tmp_path / "units/deeplearning_health_reboot.service").exists()
    done = subprocess.run([sys.executable, "-I", str(tmp_path / "health/rejoin.zip")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), "the program contains all modules that it imports"


def test_a_failed_installation_is_repeated(install):
    with pytest.raises(systemd.UnitError, match=r"systemctl enable --quiet deeplearning_health_boot\.service failed: no such unit"):
        install(status=1, active=False)
    assert install(active=False)[-1].startswith("enable --now")
