"""The launcher that docs/launchers.md has authors begin with."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers import base


def test_the_example_is_a_launcher_and_its_test_passes(monkeypatch):
    page = (Path(__file__).parents[5] / "docs/launchers.md").read_text().split("# Add a launcher\n")[1]
    launcher, test = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    module = ModuleType(base.__name__.replace("base", "my_framework"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(launcher, "my_framework.py", "exec"), vars(module))
    names = {"__package__": __package__}
    exec(compile(test, "test_my_framework.py", "exec"), names)
    names["test_each_gpu_has_a_rank"]()
