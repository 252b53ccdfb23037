"""Tests of properties that all launchers have in common."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.naming import PROCESS_NAME
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers import base
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.registry import LAUNCHERS

from .conftest import make_hosts, program


@pytest.mark.parametrize(("name", "launcher"), sorted(LAUNCHERS.items()))
def test_every_launcher_gives_processes_names_that_units_can_have(name, launcher):
    options = ArgumentSpecValidator(dict(launcher.options)).validate({}).validated_parameters
    for count in (1, 2, 5):
        for gpus in (0, 1, 8):
            processes = launcher.plan(program(options=options), make_hosts(count, gpus))
            names = [process.name or f"rank{process.rank}" for process in processes]
            assert len(set(names)) == len(names)
            assert all(PROCESS_NAME.fullmatch(name) for name in names)
            assert [process.rank for process in processes] == list(range(len(processes)))
            assert processes[0].part == "worker"
            assert {process.host for process in processes} <= {host.name for host in make_hosts(count, gpus)}
            given = [process.ranks for process in processes if process.ranks is not None]
            assert len(given) in (0, len(processes)), "either all processes or none have ranks"
            ranks = [rank for ranks in given for rank in ranks]
            assert ranks == list(range(len(ranks))), "each rank belongs to one process"
            assert {process.task for process in processes} == set(launcher.tasks(options) or [""])


@pytest.mark.parametrize("name", sorted(LAUNCHERS))
def test_every_launcher_is_on_the_page(name):
    page = (Path(__file__).parents[5] / "docs/launchers.md").read_text()
    assert f"## {name}\n" in page
    section = page.split(f"## {name}\n")[1].split("\n## ")[0]
    for option in LAUNCHERS[name].options:
        assert f"| `{option}` |" in section


def test_the_example_is_a_launcher_and_its_test_passes(monkeypatch):
    page = (Path(__file__).parents[5] / "docs/launchers.md").read_text().split("# Add a launcher\n")[1]
    launcher, test = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    module = ModuleType(base.__name__.replace("base", "my_framework"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(launcher, "my_framework.py", "exec"), vars(module))
    names = {"__package__": __package__}
    exec(compile(test, "test_my_framework.py", "exec"), names)
    names["test_each_gpu_has_a_rank"]()
