"""Tests of when a host is in use. `tests/hosts/test_idle_reports.py` tests it with real processes on real hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.idle_reports import report
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.idle_reports.report import Process


def process(name="python3", state="S", seconds=10.0, user=0, number=7, moved=0):
    return Process(f"{number} 100", name, state, user, seconds, moved)


@pytest.mark.parametrize(
    ("group", "name", "user", "is_work"),
    [
        ("user.slice/user-1000.slice/session-3.scope", "python3", 1000, True),
        ("user.slice/user-0.slice/session-1.scope", "bash", 0, True),
        ("deeplearning.slice/deeplearning-digits.slice/deeplearning-digits-0.service", "python3", 0, True),
        ("system.slice/docker-0123456789ab.scope", "python3", 0, True),
        ("machine.slice/libpod-0123456789ab.scope", "python3", 0, True),
        ("kubepods.slice/kubepods-pod1.slice", "pause", 0, True),
        ("system.slice/cron.service", "python3", 0, True),
        ("system.slice/ssh.service", "python3", 0, True),
        ("system.slice/study.service", "python3", 0, True),
        ("system.slice/amazon-ssm-agent.service", "bash", 1001, True),  # a session of Session Manager
        ("system.slice/amazon-ssm-agent.service", "python3", 0, True),  # Run Command
        ("system.slice/cloud-final.service", "python3", 0, True),  # user data
        ("user.slice/user-1000.slice/session-3.scope", "htop", 1000, False),
        ("system.slice/docker-0123456789ab.scope", "dcgm-exporter", 0, False),
        ("system.slice/study.service", "node_exporter", 1001, False),
        ("system.slice/cron.service", "cron", 0, False),
        ("system.slice/amazon-ssm-agent.service", "ssm-agent-worke", 0, False),
        ("system.slice/amazon-cloudwatch-agent.service", "amazon-cloudwat", 0, False),
        ("system.slice/newrelic-infra.service", "newrelic-infra", 0, False),
        ("system.slice/sge_execd.service", "sge_execd", 0, False),
        ("system.slice/ssh.service", "sshd", 0, False),
        ("system.slice/sshd.service", "sshd-session", 0, False),
        ("system.slice/amazon-ssm-agent.service", "amazon-ssm-agen", 0, False),
        ("system.slice/datadog-agent.service", "agent", 998, False),
        ("system.slice/deeplearning_idle.service", "python3", 0, False),
        ("system.slice/deeplearning_health.service", "python3", 0, False),
        ("system.slice/snap.amazon-ssm-agent.amazon-ssm-agent.service", "ssm-agent-worke", 0, False),
        ("init.scope", "systemd", 0, False),
    ],
)
def test_work_is_what_people_have_started(tmp_path, monkeypatch, group, name, user, is_work):
    monkeypatch.setattr(report, "OWN_UNITS", (str(tmp_path),))
    for unit in ("study", "amazon-cloudwatch-agent", "deeplearning_idle", "deeplearning_health", "newrelic-infra", "sge_execd"):
        (tmp_path / f"{unit}.service").touch()
    assert report.is_work(group, process(name, user=user), False) is is_work


@pytest.mark.parametrize(("computed", "in_use"), [(0.0, False), (0.3, False), (0.6, True), (30.0, True)])
def test_processes_of_one_group_may_use_one_percent_together(monkeypatch, computed, in_use):
    monkeypatch.setattr(Process, "group", lambda _self: "user.slice/session-3.scope")
    found = [process(seconds=10 + computed / 2, number=number) for number in (7, 8)]
    former = {each.identity: (10.0, 0) for each in found}
    assert bool(report.why_working(found, former, 60.0, False)) is in_use


@pytest.mark.parametrize(("moved", "in_use"), [(0, False), (1_000_000, False), (12_000_000, True)])
def test_a_slow_download_is_a_use(monkeypatch, moved, in_use):
    monkeypatch.setattr(Process, "group", lambda _self: "user.slice/session-3.scope")
    assert bool(report.why_working([process(moved=moved)], {"7 100": (10.0, 0)}, 60.0, False)) is in_use


@pytest.mark.parametrize(("state", "in_use"), [("D", True), ("I", True), ("S", False)])
def test_waiting_for_storage_is_a_use(monkeypatch, state, in_use):
    monkeypatch.setattr(Process, "group", lambda _self: "user.slice/session-3.scope")
    assert bool(report.why_working([process(state=state)], {"7 100": (10.0, 0)}, 60.0, False)) is in_use


@pytest.mark.parametrize(
    ("name", "group", "in_use"),
    [
        ("slurmstepd", "system.slice/slurmstepd.scope/job_7/step_0", True),
        ("slurmstepd", "system.slice/slurmd.service", True),
        ("slurmstepd", "system.slice/slurmstepd.scope/system", False),  # slurmstepd infinity
        ("sge_shepherd", "system.slice/sge_execd.service", True),
    ],
)
def test_a_job_of_a_queue_is_a_use_even_if_it_sleeps(monkeypatch, tmp_path, name, group, in_use):
    monkeypatch.setattr(Process, "group", lambda _self: group)
    monkeypatch.setattr(report, "why_typing", lambda: "")
    monkeypatch.setattr(report.directories, "HELD", str(tmp_path))
    former = {"processes": {"7 100": (10.0, 0)}, "time": 0.0}
    assert bool(report.why_used([process(name)], former, 60.0, False)) is in_use
    (tmp_path / "digits").mkdir()
    assert report.why_used([process(name)], former, 60.0, False) == "a job of the queue holds this host (digits)"


def test_a_new_process_with_the_number_of_an_ended_one_counts_from_its_start(monkeypatch):
    monkeypatch.setattr(Process, "group", lambda _self: "user.slice/session-3.scope")
    assert report.why_working([process(seconds=1.0)], {"7 99": (0.9, 0)}, 60.0, False)


def test_this_process_is_among_the_processes():
    (own,) = [each for each in report.processes() if each.identity.split()[0] == str(os.getpid())]
    assert (own.user, own.seconds > 0) == (os.geteuid(), True)


def test_a_hostile_name_of_a_process_stays_one_line():
    command = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'x) R 1\\n\\x1b[2J', 0, 0, 0); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        (found,) = [each for each in report.processes() if each.identity.split()[0] == str(child.pid)]
        child.kill()
    assert found.name.isprintable(), found
    assert found.state in "SRD"


def test_somebody_who_types_uses_the_host(monkeypatch):
    master, slave = os.openpty()
    monkeypatch.setattr(report.directories, "listing", lambda _directory: [os.path.basename(os.ttyname(slave))])
    monkeypatch.setattr(report, "CONSOLE", os.devnull)
    assert report.why_typing().startswith("somebody types on /dev/pts/")
    os.utime(os.ttyname(slave), (time.time() - 100, time.time()))
    assert report.why_typing() == ""
    os.utime(os.ttyname(slave))
    monkeypatch.setattr(report, "CONSOLE", os.ttyname(slave))
    assert report.why_typing() == "", "the console of a container"
    os.close(master)
    os.close(slave)


GPU = "<gpu><persistence_mode>{}</persistence_mode><utilization><gpu_util>{}</gpu_util></utilization><processes>{}</processes></gpu>"
OPEN = "<process_info><pid>7</pid></process_info>"


@pytest.mark.parametrize(
    ("persistence", "utilization", "processes", "in_use"),
    [
        ("Enabled", "40 %", "", True),
        ("Disabled", "99 %", "", False),  # nvidia-smi itself initializes the GPU
        ("Disabled", "99 %", OPEN, True),
        ("Enabled", "0 %", OPEN, False),  # a forgotten notebook
        ("Enabled", "N/A", OPEN, True),  # with Multi-Instance GPU
        ("Enabled", "N/A", "", False),
    ],
)
def test_a_gpu_that_computes_is_a_use(monkeypatch, persistence, utilization, processes, in_use):
    element = ElementTree.fromstring(GPU.format(persistence, utilization, processes))
    monkeypatch.setattr(report.gpus, "query", lambda _limit: report.gpus.GpuQuery(True, [element]))
    assert bool(report.why_gpus_used()) is in_use


def test_a_gpu_that_cannot_be_asked_counts_as_in_use(monkeypatch):
    monkeypatch.setattr(report.gpus, "query", lambda _limit: report.gpus.GpuQuery(True, error="no device"))
    assert report.why_gpus_used() == "nvidia-smi: no device"


def run(monkeypatch, tmp_path, *, reason="", state=None):
    monkeypatch.setattr(report, "CONSOLE", str(tmp_path / "console"))
    monkeypatch.setattr(report, "STATE", str(tmp_path / "state.json"))
    monkeypatch.setattr(report, "why_used", lambda *_arguments: reason)
    monkeypatch.setattr(report, "why_gpus_used", lambda: "")
    (tmp_path / "console").write_text("")
    if state:
        (tmp_path / "state.json").write_text(json.dumps(state))
    report.main([])
    return (tmp_path / "console").read_text().strip()


def test_an_idle_host_reports_every_ten_minutes_and_one_in_use_each_minute_until_nobody_believes_that_it_is_idle(monkeypatch, tmp_path):
    assert run(monkeypatch, tmp_path, reason="digits runs").startswith("deeplearning: in use, reported at ")
    assert run(monkeypatch, tmp_path).startswith("deeplearning: idle since ")
    assert run(monkeypatch, tmp_path) == ""
    state = json.loads((tmp_path / "state.json").read_text())
    assert run(monkeypatch, tmp_path, state={**state, "reported": state["reported"] - 601}).startswith("deeplearning: idle since ")
    for _each in range(2):
        assert run(monkeypatch, tmp_path, reason="digits runs").startswith("deeplearning: in use")
    state = json.loads((tmp_path / "state.json").read_text())
    assert run(monkeypatch, tmp_path, reason="digits runs", state={**state, "reported": state["reported"] - 1501}) == ""


def test_a_host_that_stays_in_use_reports_every_ten_minutes(monkeypatch, tmp_path):
    """Other output can remove earlier reports from the console."""
    run(monkeypatch, tmp_path, reason="digits runs")
    state, told = json.loads((tmp_path / "state.json").read_text()), 0
    state = {**state, "reported": state["reported"] - 3600}
    for _minute in range(120):
        state = {name: value - 60 if name in ("reported", "said", "time") else value for name, value in state.items()}
        told += bool(run(monkeypatch, tmp_path, reason="digits runs", state=state))
        state = json.loads((tmp_path / "state.json").read_text())
    assert told == 120 // 10
