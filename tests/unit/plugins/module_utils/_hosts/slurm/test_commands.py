"""Tests of the commands that change the state of a node in slurmctld."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm import commands
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.membership import REASON, NodeState

from unit.modules import Module


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_state_is_changed_outside_check_mode(check_mode):
    module = Module(check_mode=check_mode)
    diff = commands.change_state(module, "a", NodeState(frozenset(("IDLE",)), ""), "drain", REASON)
    assert [(change["before_header"], change["before"], change["after"]) for change in diff] == [("node a", "IDLE\n", "drain\n")]
    updates = module.commands
    assert updates == ([] if check_mode else [f"scontrol update NodeName=a State=drain Reason={REASON}"])


def test_a_command_that_fails_is_named():
    with pytest.raises(commands.SlurmError, match=r"scontrol ping failed: no route\. Check slurmctld on the master\."):
        commands.ask(Module(lambda _command: (1, "no route.\n")), "scontrol", "ping")
