"""Tests of the filter that returns messages, and of the facts that roles and playbooks pass to it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.filter.message import message
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import (
    job_end_messages,
    job_messages,
    messages,
    node_end_messages,
    role_messages,
)

REPOSITORY = Path(__file__).resolve().parents[4]
MESSAGES = {
    name: each
    for module in (job_end_messages, job_messages, messages, node_end_messages, role_messages)
    for name, each in inspect.getmembers(module, inspect.isfunction)
    if each.__module__ == module.__name__ and name[0] != "_"
}
# The facts of a message: the name of a variable, or a dictionary.
USE = re.compile(r"(\w+|{.*?}) \| deeplearning\.cluster\.message\('(\w+)'\)")


def facts_in(data: Any, scope: Mapping[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Yield the name of each message in the data with the names of its facts. `scope` contains the variables."""
    if isinstance(data, dict):
        inner = {**scope, **data.get("vars", {})}
        for value in data.values():
            yield from facts_in(value, inner)
    elif isinstance(data, list):
        for value in data:
            yield from facts_in(value, scope)
    else:
        for facts, name in USE.findall(str(data)):
            yield name, set(re.findall(r"'(\w+)':", facts) if facts.startswith("{") else scope[facts])


def uses() -> list[tuple[str, set[str]]]:
    """Return the uses of messages in roles and playbooks."""
    found = []
    shared = [*(REPOSITORY / "roles").glob("*/vars/main.yml"), *(REPOSITORY / "playbooks" / "vars").glob("*.yml")]
    scope = {name: value for file in shared for name, value in yaml.safe_load(file.read_text()).items()}
    for path in [*(REPOSITORY / "roles").glob("*/[tv]*/*.yml"), *(REPOSITORY / "playbooks").rglob("*.yml")]:
        found += facts_in(yaml.safe_load(path.read_text()), scope)
    return found


def test_each_message_gets_the_facts_that_it_states():
    found = uses()
    assert [(name, facts) for name, facts in found if facts != inspect.signature(MESSAGES[name]).parameters.keys()] == []
    others = {name for name, _facts in found} ^ MESSAGES.keys()
    assert {MESSAGES[name].__module__ for name in others} <= {node_end_messages.__name__}


def test_the_filter_returns_the_message():
    valid = message({"cluster": "demo", "findings": [], "price": {}}, "validated")
    assert valid.startswith("No errors and no warnings: demo can be provisioned.\nNothing ends the nodes by itself.")
    with pytest.raises(TypeError, match="findings"):
        message({"cluster": "demo"}, "validated")
