"""Tests that check what the module returns about steps that are running, have ended or have failed."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_setup import records
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_setup import converge, runner

SECRETS = {"TOKEN": "hunter2/hunter2"}
STEPS = [{"number": number, "name": name, "digest": name * 12, "secrets": SECRETS} for number, name in ((1, "a"), (2, "b"), (4, "c"))]


class Systemd:
    """A stub of the module and of systemd: starting the unit writes the records, and the unit is active for `polls` polls."""

    def __init__(self, states):
        self.params = {"steps": STEPS, "state": "present", "attempt": "mine", "wait": 0, "region": None}
        self.check_mode, self.states, self.polls, self.started = False, states, 0, []

    def run_command(self, argv):
        if argv[0] == "systemctl":
            self.polls -= 1
            return 0, "active\n" if self.polls >= 0 else "inactive\n", ""
        steps = json.loads(Path(argv[-1]).read_text())["steps"]
        assert [{"hunter2/hunter2", "hunter2%2Fhunter2"}.issubset(step["hidden"]) for step in steps] == [True] * len(steps)
        self.started.append([step["name"] for step in steps])
        for step, state in zip(STEPS, self.states):
            if state:
                record = {"state": state, "reason": "the command ended with exit status 3", "log": "/var/log/x.log", "tail": ["no\x1b[2J"]}
                runner.write_json(records.record_path(step["digest"]), record)
        return 0, "", ""


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    for name, path in {"STATE": "state", "RECORDS": "state/records", "WORK": "state/work", "LOGS": "logs"}.items():
        monkeypatch.setattr(records, name, str(tmp_path / path))
    for name, path in {"RUNTIME": "run", "PROGRESS": "run/progress.json", "LOCK": "run/lock"}.items():
        monkeypatch.setattr(converge, name, str(tmp_path / path))
    return Systemd


def succeed(*steps):
    converge.make_directory(records.RECORDS, 0o700)
    for step in steps:
        runner.write_json(records.record_path(step["digest"]), {"state": "succeeded"})


def test_only_steps_that_have_not_succeeded_run(systemd):
    succeed(STEPS[1])
    module = systemd(["succeeded"] * 3)
    assert converge.ensure(module) == {"changed": True, "finished": True, "ran": ["a", "c"]}
    assert module.started == [["a", "c"]]
    module.params["attempt"] = "next"
    assert converge.ensure(module) == {"changed": False, "finished": True, "ran": []}
    assert len(module.started) == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("systemd-run could not start x: no bus", "systemd-run could not start x: no bus. Check systemd on this host."),
        ("another playbook run has held the lock. Wait until it ends.", "another playbook run has held the lock. Wait until it ends."),
    ],
)
def test_only_systemd_is_to_be_checked_if_systemd_has_failed(systemd, monkeypatch, error, told):
    monkeypatch.setattr(converge, "exclusive", Mock(side_effect=converge.UnitError(error)))
    with pytest.raises(converge.SetupError) as failure:
        converge.ensure(systemd([]))
    assert str(failure.value) == told


def test_check_mode_names_the_steps_and_starts_nothing(systemd):
    succeed(STEPS[0])
    module = systemd([])
    module.check_mode = True
    result = converge.ensure(module)
    assert (result["changed"], result["ran"], result["diff"][0]["after"]) == (True, ["b", "c"], "b\nc\n")
    assert module.started == []


def test_steps_that_run_are_not_started_again(systemd):
    module = systemd(["succeeded"] * 3)
    converge.make_directory(converge.RUNTIME, 0o700)
    converge.start(module, STEPS)
    module.polls = 1
    answer = converge.ensure(module)
    assert (answer["finished"], answer["progress"]["number"]) == (False, 1)
    assert converge.ensure(module)["changed"] is True
    assert len(module.started) == 1


def test_the_steps_of_another_run_are_waited_for(systemd):
    module = systemd([None] * 3)
    converge.make_directory(converge.RUNTIME, 0o700)
    module.params["attempt"] = "another"
    converge.start(module, STEPS[:1])
    module.params["attempt"], module.polls = "mine", 1
    assert converge.ensure(module)["finished"] is False
    assert len(module.started) == 1
    module.states = ["succeeded"] * 3
    assert converge.ensure(module)["ran"] == ["a", "b", "c"]


def test_a_failure_is_told_with_all_that_helps(systemd):
    with pytest.raises(converge.SetupError) as told:
        converge.ensure(systemd(["succeeded", "failed", None]))
    assert str(told.value).splitlines() == [
        "Step 2 (b) failed: the command ended with exit status 3. Correct the step or the host, and run the playbook again to "
        "continue with this step. The log is /var/log/x.log on this host and ends with:",
        "  no",
    ]


@pytest.mark.parametrize("state", ["running", None])
def test_an_interrupted_step_is_told(systemd, state):
    with pytest.raises(converge.SetupError, match=r"Step 1 \(a\) was interrupted before it ended.*journalctl -u deeplearning-node-setup"):
        converge.ensure(systemd([state, None, None]))


def test_the_failure_of_an_earlier_run_is_not_told_again(systemd):
    converge.make_directory(records.RECORDS, 0o700)
    runner.write_json(records.record_path(STEPS[0]["digest"]), {"state": "failed", "reason": "is old", "log": ""})
    with pytest.raises(converge.SetupError, match="was interrupted"):
        converge.ensure(systemd([None] * 3))


def test_the_module_needs_its_action_plugin(systemd):
    module = systemd([])
    module.params["attempt"] = None
    with pytest.raises(converge.SetupError, match="action plugin"):
        converge.ensure(module)
