"""Tests that the table of the replaced systems' capabilities is complete, and that the tests and pages to which it refers exist."""

from __future__ import annotations

import ast
import functools
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
from lanes import lane, marks

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"S1": 71, "S2": 46, "S3": 29, "S4": 27}
tool = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "originals.py")))
SYSTEMS = tool.systems()
CAPABILITIES = [capability for system in SYSTEMS for capability in system["capabilities"]]
# Attributes of `pytest` and `pytest.mark` that keep a test from running, or let it fail.
SKIPPING = {"skip", "skipif", "xfail", "importorskip"}
# The only reason for which a test in the table may be skipped.
NO_FUSE = "This machine lets no container use /dev/fuse."
MAKEFILE = (ROOT / "Makefile").read_text()
KEYS = {"id", "capability", "verdict", "how"}
each_capability = pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda capability: capability["id"])


@functools.cache
def functions(path: str) -> dict[str, ast.FunctionDef]:
    """Return the tests in a file, by name."""
    return {node.name: node for node in parsed(path).body if isinstance(node, ast.FunctionDef)}


@functools.cache
def parsed(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


@functools.cache
def skipping(path: str) -> set[str]:
    """Return the names of the tests in a file that may not run, and of the fixtures in the file that may skip their tests.

    An assignment to `pytestmark` stands for all tests of the file.
    """
    found = set()
    for node in parsed(path).body:
        parts = list(ast.walk(node))
        allowed = {
            id(part.func) for part in parts if isinstance(part, ast.Call) and [ast.unparse(each) for each in part.args] == [repr(NO_FUSE)]
        }
        if any(isinstance(part, ast.Attribute) and part.attr in SKIPPING and id(part) not in allowed for part in parts):
            found.add(node.name if isinstance(node, ast.FunctionDef) else "pytestmark")
    return found


def fixtures(path: str, function: str) -> set[str]:
    """Return the names of the fixtures in a file that a test uses, directly or through other fixtures."""
    known, found, left = functions(path), set(), [function]
    while left:
        used = {argument.arg for argument in known[left.pop()].args.args if argument.arg in known} - found
        found |= used
        left += used
    return found


@functools.cache
def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the website write them."""
    text = re.sub(r"^```.*?^```", "", (ROOT / "docs" / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_capability_of_each_system_is_there_once():
    expected = [f"{system}-{number:02}" for system, size in SIZES.items() for number in range(1, size + 1)]
    assert [capability["id"] for capability in CAPABILITIES] == expected


def test_the_page_is_what_the_table_gives():
    assert tool.PAGE.read_text() == tool.page(), "run python tools/originals.py"


@each_capability
def test_an_entry_is_complete(capability):
    assert KEYS <= set(capability) <= KEYS | {"docs", "tests", "untestable"}
    assert capability["verdict"] in tool.VERDICTS
    assert ("tests" in capability) != ("untestable" in capability), "list tests, or explain why there are none"
    assert "|" not in capability["capability"] + capability["how"], "a bar would end the table cell"


@each_capability
def test_how_it_is_done_is_told_in_sentences(capability):
    sentences = re.split(r"(?<=\.) ", capability["how"])
    assert len(sentences) <= 3
    for sentence in sentences:
        assert re.fullmatch(r"[A-Z`].*[^.]\.", sentence)
        assert 3 <= len(sentence.split()) <= 25


@each_capability
def test_the_named_tests_exist(capability):
    tests = capability.get("tests", [])
    assert len(tests) == len(set(tests))
    for test in tests:
        path, function = test.split("::")
        assert function.startswith("test_")
        assert function in functions(path), test


@each_capability
def test_the_named_tests_run(capability):
    for test in capability.get("tests", []):
        path, function = test.split("::")
        assert not skipping(path) & {"pytestmark", function, *fixtures(path, function)}, f"{test} can be skipped"
        folder = "/".join(path.split("/")[:2])
        start = "EXHAUSTIVE_FOLDERS := " if lane(test) == "rotation" else r"\t\$\(PYTEST\) "
        assert re.search(rf"^{start}(.* )?{folder}( .*)?$", MAKEFILE, re.MULTILINE), f"make test does not run {test}"
        assert lane(test) != "rotation" or marks(path, function) & set(
            re.findall(r'pytest -m "(.*)" -p rotation', MAKEFILE)[0].split(" or ")
        )


@each_capability
def test_the_named_section_exists(capability):
    page, _hash, anchor = capability.get("docs", "originals.md").partition("#")
    assert not anchor or anchor in anchors(page), capability["docs"]


@pytest.mark.parametrize("page", sorted(system["guide"] for system in SYSTEMS if "guide" in system))
def test_a_guide_leads_to_the_table(page):
    assert "(originals.md)" in (ROOT / "docs" / page).read_text()
