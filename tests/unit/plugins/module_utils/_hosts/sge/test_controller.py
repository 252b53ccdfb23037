"""Tests of qmaster: nodes, hosts, creation of the queue, and removal."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.sge.configuration import SgeNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import services
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.services import Service, ServiceError
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.sge import controller

from unit.modules import ExitError, Module

# The status and the message of qconf for an object that does not exist.
MISSING = (1, "no such object")

MASTER = {"name": "demo-master", "address": "10.0.0.4", "cpus": 96, "gpus": 8}
SILENT = {"name": "demo-worker2", "address": "10.0.1.5", "cpus": None, "gpus": 0}
PARAMS = {
    "nodes": [MASTER, SILENT],
    "state_directory": "/efs/sge-demo",
    "queue": "trainers",
    "groups": [],
    "parameters": {"max_unheard": 60},
}


@pytest.fixture
def no_wait(monkeypatch):
    """Make each poll take 50 s of simulated time."""
    clock = itertools.count(step=50)
    monkeypatch.setattr(services.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(services.time, "sleep", lambda _seconds: None)


def test_the_values_of_parameters_are_text():
    settings = controller.settings_of(PARAMS)
    assert (settings.state_directory, settings.queue, settings.groups) == ("/efs/sge-demo", "trainers", ())
    assert settings.parameters == {"max_unheard": "60"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"nodes": []}, "nodes: the list is empty"), ({"groups": ["no-such-group"]}, "groups: group 'no-such-group' does not exist")],
)
def test_bad_parameters_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        controller.settings_of({**PARAMS, **changes})


def test_a_node_that_does_not_answer_keeps_its_hardware():
    module = Module({"qconf -se demo-worker2": "hostname demo-worker2\ncomplex_values exclusive=true,gpu=4,slots=48\n"})
    assert controller.members(module, PARAMS["nodes"], up=True) == [SgeNode("demo-master", 96, 8), SgeNode("demo-worker2", 48, 4)]
    assert module.warnings == []


@pytest.mark.parametrize("up", [False, True])
def test_a_new_node_that_does_not_answer_waits(up):
    module = Module({"qconf -se demo-worker2": MISSING})
    assert controller.members(module, PARAMS["nodes"], up) == [SgeNode("demo-master", 96, 8)]
    assert module.commands == (["qconf -se demo-worker2"] if up else [])
    assert module.warnings == [
        "demo-worker2 is not in the queue yet, because it did not report its hardware. Run the role again when the node responds."
    ]


def test_a_queue_is_created_by_its_user_in_an_empty_directory(tmp_path):
    calls = []
    module = Module()
    module.run_command = lambda command, **options: calls.append((command, options)) or (0, "", "")
    controller.create(module, str(tmp_path), "demo-master")
    ((command, options),) = calls
    assert command[:5] == ["runuser", "--user", "sgeadmin", "--", "/bin/sh"]
    assert command[-2:] == [str(tmp_path), "demo-master"]
    assert "managers root sgeadmin" in command[6]
    assert options["environ_update"]["SGE_QMASTER_PORT"] == "6444"


@pytest.mark.parametrize("check_mode", [False, True])
def test_an_existing_queue_is_kept_and_check_mode_creates_none(tmp_path, check_mode):
    if not check_mode:
        (tmp_path / "created").touch()
    module = Module(check_mode=check_mode)
    controller.create(module, str(tmp_path), "demo-master")
    assert module.commands == []


def test_a_queue_that_cannot_be_created_is_reported(tmp_path):
    module = Module()
    module.run_command = lambda _command, **_options: (1, "", "disk full\n")
    with pytest.raises(ServiceError, match=r"could not be created: disk full\. Remove the directory and try again\.$"):
        controller.create(module, str(tmp_path), "demo-master")


def test_qmaster_has_time_to_start(no_wait):
    answers = iter([MISSING, "demo-master\n"])
    module = Module(timeout=120)
    module.answers = lambda _command: next(answers)
    controller.wait(module)
    assert module.commands == ["qconf -sh"] * 2


def test_qmaster_that_does_not_answer_shows_the_end_of_its_log(no_wait):
    log = "journalctl --unit sge_qmaster.service --lines 15 --no-pager --output cat"
    module = Module({"qconf -sh": MISSING, log: "no spool directory\n"}, timeout=120)
    with pytest.raises(ServiceError, match=r"(?s)Timed out after 120 s waiting for sge_qmaster to respond\..*no spool directory"):
        controller.wait(module)


def test_new_nodes_can_submit_jobs_and_root_can_administer_there():
    module = Module({"qconf -ss": "demo-master\n", "qconf -sh": "demo-master\ndemo-worker2\n"})
    differences = controller.trusted_hosts(module, ["demo-master", "demo-worker2", "demo-worker3"], up=True)
    assert [(each["before_header"], each["after"]) for each in differences] == [
        ("submit hosts", "demo-worker2\n"),
        ("submit hosts", "demo-worker3\n"),
        ("administrative hosts", "demo-worker3\n"),
    ]
    assert [command for command in module.commands if "-a" in command] == ["qconf -as demo-worker2,demo-worker3", "qconf -ah demo-worker3"]


def test_check_mode_trusts_nobody_and_needs_no_qmaster():
    module = Module(check_mode=True)
    assert len(controller.trusted_hosts(module, ["demo-master"], up=False)) == 2
    assert module.commands == []


def test_a_list_that_does_not_exist_yet_contains_nobody():
    module = Module({"qconf -ss": MISSING, "qconf -sh": "demo-master\n"})
    assert [each["before_header"] for each in controller.trusted_hosts(module, ["demo-master"], up=True)] == ["submit hosts"]


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_removed_node_loses_its_rights_first(check_mode):
    module = Module(check_mode=check_mode)
    assert [each["before"] for each in controller.remove(module, ["demo-worker3"])] == ["demo-worker3\n"]
    commands = ["qconf -ds demo-worker3", "qconf -dh demo-worker3", "qconf -de demo-worker3"]
    assert module.commands == ([] if check_mode else commands)


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """A host on which the unit of qmaster is active. The value is the folder that replaces the directory of systemd units."""
    (tmp_path / "sge_qmaster.service").touch()
    monkeypatch.setattr(controller.hosts, "unit_path", lambda unit: str(tmp_path / unit))
    monkeypatch.setattr(controller.services, "find_service", lambda _module, _unit: Service(True, True))
    monkeypatch.setattr(controller.shutil, "which", lambda _program: None)
    return tmp_path


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (" 12 0.5 a ubuntu r 01/01/2026\n", r"^state: the queue contains job 12\. Wait until the job ends, or cancel it with qdel\.$"),
        (
            "job-ID prior\n----\n  7 0.5 a root qw\n 13 0.5 b ubuntu r\n",
            r"^state: the queue contains jobs 7, 13\. Wait until the jobs end, or cancel them with qdel\.",
        ),
    ],
)
def test_a_queue_with_jobs_is_not_removed(installed, rows, message):
    with pytest.raises(ServiceError, match=message):
        controller.ensure_absent(Module({"qstat -u *": rows}, state_directory="/efs/sge-demo", user="ubuntu"))
    assert (installed / "sge_qmaster.service").exists()


def test_an_empty_queue_is_removed(installed):
    module = Module(state_directory="/efs/sge-demo", user="ubuntu")
    with pytest.raises(ExitError) as exited:
        controller.ensure_absent(module)
    assert exited.value.result["changed"]
    assert not (installed / "sge_qmaster.service").exists()
    assert "systemctl stop sge_qmaster.service" in module.commands


def test_a_host_without_qmaster_has_nothing_to_remove(installed):
    (installed / "sge_qmaster.service").unlink()
    module = Module(state_directory="/efs/sge-demo", user="ubuntu")
    with pytest.raises(ExitError) as exited:
        controller.ensure_absent(module)
    assert not exited.value.result["changed"]
    assert module.commands == []
