"""Tests that execd runs only on the host that has the node's name, and that the module waits until qmaster knows the node."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import services
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.services import Service, ServiceError
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.sge import node

from unit.modules import ExitError, Module

MASTER = {"name": "demo-master", "address": "10.0.0.4", "cpus": 96, "gpus": 8}
WORKER = {"name": "demo-worker2", "address": "10.0.1.5", "cpus": 48, "gpus": 2}
HOST = "demo-worker2 lx-amd64 48 1 48 48 0.5 377.0G 2.0G 0.0 0.0\n"
SILENT = HOST.replace("0.5", "-")


def module(*nodes, queue=False, answer=HOST, **options):
    """Return a module on a host where the daemon of another queue may run."""
    answers = {"qhost -h demo-worker2": answer, "qhost -h demo-master": HOST.replace("worker2", "master")}
    answers["systemctl is-active --quiet slurmd.service"] = "" if queue else (3, "")
    return Module(answers, nodes=list(nodes), state_directory="/efs/sge-demo", timeout=100, **options)


@pytest.fixture
def written(monkeypatch):
    """The contents of the files that the module writes on the host demo-worker2, by path."""
    found = {}

    def converge(_module, files):
        found.update({file.path: file.content for file in files})
        return [{"after_header": file.path} for file in files]

    clock = itertools.count(step=50)
    monkeypatch.setattr(services.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(services.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(node, "converge", converge)
    monkeypatch.setattr(node.services, "find_service", lambda module, unit: Service(active(module, unit), True))
    monkeypatch.setattr(node.socket, "gethostname", lambda: "demo-worker2.internal")
    return found


def active(module, unit):
    return module.run_command(["systemctl", "is-active", "--quiet", unit])[0] == 0


def test_execd_runs_with_the_master_and_the_gpus_of_the_node(written):
    worker = module(MASTER, WORKER)
    with pytest.raises(ExitError) as exited:
        node.ensure_present(worker)
    assert exited.value.result["changed"]
    assert written["/var/lib/gridengine/default/common/act_qmaster"] == "demo-master\n"
    assert "of demo-master, 10.0.0.4" in written["/etc/systemd/system/sge_execd.service"]
    assert written["/usr/local/lib/deeplearning/sge_shepherd"].endswith("main(2)\n")
    assert "systemctl restart sge_execd.service" in worker.commands
    assert worker.commands[-1] == "qhost -h demo-worker2"


def test_the_controller_writes_the_files_of_the_master(monkeypatch, written):
    monkeypatch.setattr(node.socket, "gethostname", lambda: "demo-master")
    with pytest.raises(ExitError):
        node.ensure_present(module(MASTER, MASTER))
    assert set(written) == {"/etc/systemd/system/sge_execd.service", "/usr/local/lib/deeplearning/sge_shepherd"}


def test_execd_restarts_only_for_its_unit(monkeypatch, written):
    monkeypatch.setattr(node, "converge", lambda _module, _files: [{"after_header": "/usr/local/lib/deeplearning/sge_shepherd"}])
    worker = module(MASTER, WORKER)
    with pytest.raises(ExitError) as exited:
        node.ensure_present(worker)
    assert exited.value.result["changed"]
    assert not [command for command in worker.commands if "restart" in command]


def test_another_host_is_told_what_to_do(written):
    with pytest.raises(ValueError, match=r"nodes: this host's name is demo-worker2, not demo-worker3\. Run the role worker_metadata"):
        node.ensure_present(module(MASTER, {**WORKER, "name": "demo-worker3"}))
    with pytest.raises(ExitError):  # in check mode, the host may not have its name yet
        node.ensure_present(module(MASTER, {**WORKER, "name": "demo-worker3"}, check_mode=True))


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_host_of_slurm_is_refused(written, check_mode):
    with pytest.raises(ServiceError, match=r"slurmd\.service runs on this host, .* slurm_state=absent"):
        node.ensure_present(module(MASTER, WORKER, queue=True, check_mode=check_mode))
    assert written == {}


def test_a_node_that_does_not_register_is_reported_with_the_reason(written):
    worker = module(MASTER, WORKER, answer=SILENT)
    with pytest.raises(ServiceError, match="Timed out after 100 s waiting for node demo-worker2 to register: qmaster has not heard from"):
        node.ensure_present(worker)
    worker.answers["qconf -sel"] = (1, "access denied\n")
    with pytest.raises(ServiceError, match=r"to register: access denied\."):
        node.wait(worker, "demo-worker2")


@pytest.mark.parametrize("is_installed", [False, True])
def test_execd_is_removed_where_it_runs(monkeypatch, tmp_path, is_installed):
    if is_installed:
        (tmp_path / "sge_execd.service").touch()
    monkeypatch.setattr(node.hosts, "unit_path", lambda unit: str(tmp_path / unit))
    monkeypatch.setattr(node.hosts.configuration, "SHEPHERD", str(tmp_path / "sge_shepherd"))
    worker = module()
    with pytest.raises(ExitError) as exited:
        node.ensure_absent(worker)
    assert exited.value.result["changed"] is is_installed
    assert ("systemctl stop sge_execd.service" in worker.commands) is is_installed
    assert not (tmp_path / "sge_execd.service").exists()
