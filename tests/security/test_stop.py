"""Stopping a job uses systemd on each host, independently of the job's files and the shared storage (M4 of the security review)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd

from .nodes import Nodes

ROOT = Path(__file__).resolve().parents[2]


def test_running_jobs_are_those_with_a_service_that_has_not_ended():
    """The slice of a job that has ended may still be active, and systemd continues to list failed services."""
    states = [
        ("deeplearning-digits.slice", "active"),
        ("deeplearning-digits.slice", "failed"),
        ("deeplearning-digits_2.slice", "deactivating"),
        ("deeplearning-over.slice", "failed"),
        ("deeplearning-done.slice", "inactive"),
        ("deeplearning-\x1b[2J.slice", "active"),
        ("system.slice", "active"),
    ]
    shown = "\n".join(f"Slice={slice_}\nActiveState={state}\n" for slice_, state in states)
    assert systemd.running_jobs(lambda command: (0, shown, "")) == ["digits", "digits-2"]
    assert systemd.running_jobs(lambda command: (0, "\n", "")) == []
    with pytest.raises(systemd.UnitError, match=r"systemctl show --property=Slice,ActiveState deeplearning-\*\.service failed: no bus"):
        systemd.running_jobs(lambda command: (1, "", "no bus"))


def test_stopping_asks_no_storage():
    (play,) = [play for play in yaml.safe_load((ROOT / "playbooks/stop.yml").read_text()) if "tasks" in play]
    asked = [name for task in play["tasks"] for name in task if "." in name]
    assert asked == ["ansible.builtin.assert", "deeplearning.cluster.training_job", "ansible.builtin.assert", "ansible.builtin.debug"]
    (stop,) = [task["deeplearning.cluster.training_job"] for task in play["tasks"] if "deeplearning.cluster.training_job" in task]
    assert stop == {"name": "{{ training_job_name }}", "state": "stopped"}


@pytest.mark.parametrize(
    ("answers", "name", "told"),
    [
        ([{"changed": False, "running": ["other"]}, {"changed": True, "running": []}], "mine", None),
        (
            [{"changed": False, "running": ["other", "third"]}, {"changed": False, "running": []}],
            "mine",
            'no process of job "mine" is running on any host, so there is nothing to stop. Running jobs: bert-worker2: other, third.',
        ),
        ([{"changed": False, "running": []}] * 2, "mine", "Running jobs: none."),
        ([{"changed": False, "running": []}] * 2, "", "training_job_name: no job is specified"),
    ],
)
def test_a_job_that_runs_nowhere_is_told_of_with_those_that_run(tmp_path, answers, name, told):
    nodes = Nodes(tmp_path)
    tasks = next(play["tasks"] for play in yaml.safe_load((ROOT / "playbooks/stop.yml").read_text()) if "tasks" in play)
    for task in tasks:
        task.pop("become", None)  # the node of this test is this host
    done = nodes.run([{"ansible.builtin.set_fact": {"training_job_name": name}}, *tasks], *answers)
    shown = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode == 0) == (told is None), shown
    assert told is None or told in shown
