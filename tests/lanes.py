"""Says when `make test` runs a test."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import parts

ROOT = Path(__file__).resolve().parents[1]
# Marks of tests that are too long for each run of `make test`. Each run of `make rotation` runs some of them.
ROTATING = {"exhaustive", "frameworks", "rotation"}


def lane(test: str) -> str:
    """Return when a test runs, given its path and name: `each run`, a part such as `part 3`, or `rotation`.

    Marks of single cases do not count, because the other cases run more often.
    """
    path, _separator, name = test.partition("::")
    if marks(path, name) & ROTATING:
        return "rotation"
    return _parts().get(path, "each run")


def marks(path: str, name: str) -> set[str]:
    """Return the marks of a function and those of its file."""
    body = _parsed(path).body
    (function,) = (node for node in body if isinstance(node, ast.FunctionDef) and node.name == name)
    assigned = [node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"]
    return {mark for node in [*function.decorator_list, *assigned] for mark in _names(node)}


def _names(node: ast.expr) -> Iterator[str]:
    """Yield the names of marks: x of `pytest.mark.x`, `pytest.mark.x(...)` and lists of them."""
    if isinstance(node, ast.List):
        for each in node.elts:
            yield from _names(each)
    name = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    if name.startswith("pytest.mark."):
        yield name.removeprefix("pytest.mark.")


@functools.cache
def _parsed(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


@functools.cache
def _parts() -> dict[str, str]:
    return {f"tests/{name}": f"part {number}" for number, names in parts.read_parts(ROOT).items() for name in names}
