"""Commands and options in messages can be copied: no full stop follows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What ends a command, as a piece of a Python or Jinja expression.
COMMAND = re.compile(
    r"(?:(?:playbook|continuing)_command\((?:[^()]|\([^()]*\))*\)\}|playbook_command[^}]*\}\}|-e \w+=(?:\{\{[^}]*\}\}|\{[^}]*\}|[a-z]\w*)"
    r"|DELETE_DATA\}|--region [^ .]+|base64 -d)[.;](?=[\s\"'`\\]|$)"
)
FILES = [path for folder in ("plugins", "playbooks", "roles") for path in sorted((ROOT / folder).rglob("*.*"))]


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("run {playbook_command('destroy')} {DELETE_DATA}.", True),
        ("run {playbook_command(queue.lower())}. {IGNORE_JOBS}", True),
        ("add -e deeplearning_start_again=true.", True),
        ("run {{ 'destroy' | deeplearning.cluster.playbook_command }}.", True),
        ("run {playbook_command('destroy')} first.", False),
        ("run {playbook_command('destroy')}\nTo", False),
    ],
)
def test_the_pattern_finds_full_stops(text, is_wrong):
    assert bool(COMMAND.search(text)) == is_wrong


def test_no_full_stop_follows_a_command():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in FILES
        if path.suffix in (".py", ".yml")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if COMMAND.search(line) and not line.lstrip().startswith("#")
    ]
    assert found == []
