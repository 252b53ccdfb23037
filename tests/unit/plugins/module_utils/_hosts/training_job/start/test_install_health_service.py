"""Tests of the installation of the health checks that run without the controller."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import host_health
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.start import install_health_service
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import exclusions, jobs_after_reboot

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
    monkeypatch.setattr(install_health_service, "UNITS", str(tmp_path / "units"))
    monkeypatch.setattr(exclusions, "PATH", str(tmp_path / "health/exclusions.json"))
    monkeypatch.setattr(install_health_service, "exclusive", contextlib.nullcontext)
    (tmp_path / "units").mkdir()

    def run_install(active=True, status=0, answers=0, **changes):
        commands = []
        answering = iter([True] * answers)
        monkeypatch.setattr(install_health_service, "is_listening", lambda: active)

        def run(command):
            assert command[0] == "systemctl"
            commands.append(" ".join(command[1:]))
            if command[1:] == ["is-active", "--quiet", "deeplearning-health.service"]:
                return (0 if next(answering, False) else 3), "", ""
            return (status if command[1] == "enable" else 0), "", "no such unit\n"

        install_health_service.install(run, {**PARAMS, **changes})
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
    assert install() == [], "also at another time"


def test_every_process_builds_the_same_files():
    """Otherwise, each start of a job would install the service again. The order of a set differs between processes."""
    script = (
        "import hashlib\n"
        f"from {install_health_service.__package__} import install_health_service\n"
        f"files = install_health_service.desired_files({PARAMS | {'reboot': True}!r})\n"
        "print({path: hashlib.sha256(content).hexdigest() for path, (content, _mode) in files.items()})\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


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
    monkeypatch.setattr(install_health_service, "INTERVAL", 0.0)
    install()
    monkeypatch.setattr(install_health_service, "SOCKET", install_health_service.SOCKET.replace("RemoveOnStop", "# RemoveOnStop"))
    commands = install(answers=3)
    question = commands.index("is-active --quiet deeplearning-health.service")
    assert commands[question : question + 5] == [
        *["is-active --quiet deeplearning-health.service"] * 4,
        "stop deeplearning-health.socket deeplearning-health.service",
    ]
    monkeypatch.setattr(install_health_service, "PATIENCE", 0.0)
    monkeypatch.setattr(install_health_service, "SOCKET", install_health_service.SOCKET.replace("# RemoveOnStop", "RemoveOnStop"))
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
    assert "disable --now --quiet deeplearning_health_periodic.service deeplearning_health_periodic.timer" in commands
    assert commands[-1] == "enable --now --quiet deeplearning-health.socket"
    assert not timer.exists()
    assert install(health_interval=0) == []


def test_with_reboots_the_host_can_start_its_jobs_again(install, tmp_path):
    commands = install(reboot=True)
    assert "enable --quiet deeplearning_health_boot.service deeplearning_rejoin.service" in commands
    unit = (tmp_path / "units/deeplearning_rejoin.service").read_text()
    assert f"ConditionDirectoryNotEmpty={tmp_path}/health/rejoin\n" in unit
    assert (tmp_path / "units/deeplearning_health_reboot.service").exists()
    done = subprocess.run([sys.executable, "-I", str(tmp_path / "health/rejoin.zip")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), "the program contains all modules that it imports"


def test_the_boot_does_not_wait_for_checks_or_storage(install, tmp_path):
    """A target starts after the units that it wants, except those that start after it. Both must, because one waits for the other."""
    install(reboot=True)
    for unit in ("deeplearning_health_boot.service", "deeplearning_rejoin.service"):
        text = (tmp_path / "units" / unit).read_text()
        assert "\nWantedBy=multi-user.target\n" in text
        assert "\nAfter=multi-user.target " in text


def test_what_other_options_have_installed_is_removed(install, tmp_path):
    def installed():
        return {path.name for path in [*(tmp_path / "units").iterdir(), *(tmp_path / "health").iterdir()]}

    install(health_interval=0)
    small = installed()
    install(reboot=True)
    obsolete = [
        "deeplearning_health_reboot.service",
        "deeplearning_rejoin.service",
        "deeplearning_health_periodic.service",
        "deeplearning_health_periodic.timer",
    ]
    assert installed() - small == {*obsolete, "rejoin.zip"}
    jobs_after_reboot.write(jobs_after_reboot.directory(), "digits", b"secret")
    commands = install(health_interval=0)
    assert "disable --now --quiet " + " ".join(obsolete) in commands
    assert jobs_after_reboot.files(jobs_after_reboot.directory()) == [], "no service would delete the secrets after the boot"
    assert installed() - {"rejoin"} == small
    assert install(health_interval=0) == []


def test_a_file_of_obsolete_options_is_removed_even_if_all_other_files_are_as_desired(install, tmp_path):
    install()
    (tmp_path / "health/rejoin.zip").touch()
    assert len(install()) > 1
    assert not (tmp_path / "health/rejoin.zip").exists()


def test_the_program_runs_at_the_interval_while_jobs_run_or_their_secrets_remain(install, tmp_path, monkeypatch):
    jobs, started = tmp_path / "jobs", tmp_path / "started"
    monkeypatch.setattr(install_health_service.directories, "runtime_directory", lambda job, process: f"{jobs}/{job}-{process}")
    monkeypatch.setattr(jobs_after_reboot, "STARTED", str(started))
    install()
    text = (tmp_path / "units/deeplearning_health_periodic.service").read_text()
    (command,) = [line.partition("=")[2] for line in text.splitlines() if line.startswith("ExecStart=")]
    command = command.replace(f"exec {sys.executable}", "exec echo")

    def runs():
        return bool(subprocess.run(command, shell=True, capture_output=True, check=True).stdout)

    assert not runs()
    jobs.mkdir()
    started.mkdir()
    assert not runs()
    (started / "digits.json").touch()
    assert runs()
    (started / "digits.json").unlink()
    (jobs / "digits-rank0").mkdir()
    assert runs()


def test_a_failed_installation_is_repeated(install):
    with pytest.raises(systemd.UnitError, match=r"systemctl enable --quiet deeplearning_health_boot\.service failed: no such unit"):
        install(status=1, active=False)
    assert install(active=False)[-1].startswith("enable --now")


@pytest.mark.parametrize("listens", [True, False])
def test_the_path_of_the_socket_shows_whether_the_service_listens(tmp_path, monkeypatch, listens):
    monkeypatch.setattr(host_health, "SOCKET", str(tmp_path / "socket"))
    if listens:
        (tmp_path / "socket").touch()
    assert install_health_service.is_listening() == listens
