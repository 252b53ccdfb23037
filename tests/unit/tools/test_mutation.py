"""Tests of the report on faults that the unit tests do not detect."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[3]
tool = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "mutation.py")))
KILLED = tool.Mutant("a.py", "", "", "killed")
SURVIVED = tool.Mutant("a.py", "x > 1", "x >= 1", "survived")


def test_the_share_of_each_file_and_what_is_not_noticed():
    other = tool.Mutant("b.py", "return 1", "return 2", "no tests")
    assert tool.report([KILLED, KILLED._replace(status="timeout"), SURVIVED, other], []) == [
        "  66 %     2 of    3  a.py",
        "          survived: x > 1\n          instead:  x >= 1",
        "   0 %     0 of    1  b.py",
        "          no tests: return 1\n          instead:  return 2",
    ]


def test_what_is_equivalent_does_not_count():
    equivalent = SURVIVED._replace(status="")
    assert tool.report([KILLED, SURVIVED, SURVIVED._replace(after="x > 2")], [equivalent]) == [
        "  50 %     1 of    2  a.py",
        "          survived: x > 1\n          instead:  x > 2",
    ]
    assert tool.report([SURVIVED._replace(file="b.py")], [equivalent])[0].split()[0] == "0"


def test_every_equivalent_fault_has_a_reason_and_a_file():
    entries = tool.yaml.safe_load(tool.EQUIVALENT.read_text())
    assert all(entry["reason"].endswith(".") and (ROOT / "plugins" / entry["file"]).is_file() for entry in entries)
    assert len(tool.read_equivalent()) == len(entries) > 0
