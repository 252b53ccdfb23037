"""The imports among the modules and packages of the local cloud have no cycles."""

from __future__ import annotations

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import local_cloud
import pytest

ROOT = Path(local_cloud.__file__).parent
SOURCES = {path: path.relative_to(ROOT.parent).with_suffix("").parts for path in ROOT.rglob("*.py") if "files" not in path.parts}
MODULES = {parts[:-1] if parts[-1] == "__init__" else parts for parts in SOURCES.values()}


def imported(path: Path) -> set[tuple[str, ...]]:
    """Return the modules that a file imports, including imports in functions, but not imports for type checkers."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = tuple(resolve_name("." * node.level + (node.module or ""), ".".join(SOURCES[path][:-1])).split("."))
            names = {(*base, alias.name) for alias in node.names}
            found |= (names & MODULES) or {base}
    return found & MODULES


def siblings() -> dict[tuple[str, ...], dict[str, set[str]]]:
    """Return the modules and subpackages of each package, each with the siblings that it imports."""
    graphs: dict[tuple[str, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path, parts in SOURCES.items():
        for target in imported(path):
            common = next((n for n, (one, other) in enumerate(zip(parts, target)) if one != other), len(target))
            if common < len(target):
                graphs[parts[:common]][parts[common]].add(target[common])
    return graphs


def test_the_graph_has_known_imports() -> None:
    graphs = siblings()
    assert "hosts" in graphs["local_cloud",]["manager"]
    assert {"context", "requests"} <= graphs["local_cloud", "aws"]["access"]
    assert "activities" in graphs["local_cloud", "aws", "autoscaling"]["groups"]


@pytest.mark.parametrize("package", sorted(siblings()), ids=".".join)
def test_no_cycle(package: tuple[str, ...]) -> None:
    try:
        TopologicalSorter(siblings()[package]).prepare()
    except CycleError as error:
        pytest.fail(f"{'.'.join(package)} has an import cycle: {' <- '.join(error.args[1])}")
