"""Tests of the steps that the modules for a queue choose, and of the checks that they share."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.queue import module_steps
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.queue.state_directory import StateDirectoryError
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.services import ServiceError

from unit.modules import ExitError, Module


def steps(step):
    return {("node", "present"): (step, ["nodes", "settings"]), ("node", "absent"): (step, [])}


def test_the_step_of_the_component_and_state_runs():
    called = []
    module = Module(component="node", state="absent", nodes=None, settings=None)
    module_steps.run(module, "slurm", steps(called.append))
    assert called == [module]


def test_parameters_that_the_component_needs_are_named_together():
    module = Module(component="node", state="present", nodes=None, settings=None)
    with pytest.raises(ExitError, match=r"^component: node requires nodes, settings\. Set them\.$"):
        module_steps.run(module, "slurm", steps(lambda _module: None))


@pytest.mark.parametrize("error", [OSError("no space"), ServiceError("no space"), StateDirectoryError("no space"), ValueError("no space")])
def test_an_error_of_the_step_names_the_queue(error):
    def fail(_module):
        raise error

    with pytest.raises(ExitError, match=r"^sge: no space$"):
        module_steps.run(Module(component="node", state="absent"), "sge", steps(fail))


@pytest.mark.parametrize("value", ["{}", "root@{}", "{} $host $job_id", "{}/*.sh"])
@pytest.mark.parametrize("name", ["Prolog", "prolog", "load_sensor", "HealthCheckProgram"])
def test_a_program_that_the_queue_runs_must_exist(tmp_path, name, value):
    """Slurm drains a node whose prolog is missing, and Grid Engine sets its queue to an error state."""
    missing, existing = tmp_path / "missing", tmp_path / "existing"
    existing.mkdir()
    (existing / "a.sh").touch()
    module_steps.check_programs({name: value.format(existing), "JobCompLoc": str(missing), "MailProg": "none"}, ())
    with pytest.raises(ValueError, match="the file does not exist on this host"):
        module_steps.check_programs({name: value.format(missing)}, ())
    if "*" not in value:
        module_steps.check_programs({name: value.format(missing)}, ["missing"])
