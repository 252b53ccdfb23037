"""Tests of the commands that change the state of a node in slurmctld."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm import commands
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.membership import REASON, NodeState


class Module:
    """A stub of a module that records commands and returns the same result for each of them."""

    def __init__(self, check_mode=False, answer=(0, "", "")):
        self.check_mode, self.answer, self.commands = check_mode, answer, []

    def run_command(self, command):
        self.commands.append(command)
        return self.answer


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_state_is_changed_outside_check_mode(check_mode):
    module = Module(check_mode)
    diff = commands.change_state(module, "a", NodeState(frozenset(("IDLE",)), ""), "drain", REASON)
    assert [(change["before_header"], change["before"], change["after"]) for change in diff] == [("node a", "IDLE\n", "drain\n")]
    updates = [command[2:] for command in module.commands]
    assert updates == ([] if check_mode else [["scontrol", "update", "NodeName=a", "State=drain", f"Reason={REASON}"]])


def test_a_command_that_fails_is_named():
    with pytest.raises(commands.SlurmError, match=r"scontrol ping failed: no route\. Check slurmctld on the master\."):
        commands.ask(Module(answer=(1, "", "no route.\n")), "scontrol", "ping")
