"""The launcher that docs/launchers.md has authors begin with."""

from __future__ import annotations

import re
from pathlib import Path

from .conftest import make_hosts, program


def test_the_example_is_a_launcher_and_its_test_passes():
    page = (Path(__file__).parents[3] / "docs/launchers.md").read_text().split("# Add a launcher\n")[1]
    launcher, test = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {"make_hosts": make_hosts, "program": program}
    exec(compile(launcher, "my_framework.py", "exec"), names)
    exec(compile(test, "test_my_framework.py", "exec"), names)
    names["test_each_gpu_has_a_rank"]()
