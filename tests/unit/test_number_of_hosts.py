"""No task that runs on each host reads the variables of all hosts.

Ansible needs about a millisecond to read the variables of one host. With 1000 hosts, such a task would take a quarter of an hour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = Path(__file__).resolve().parents[2] / "roles"
OF_ALL_HOSTS = re.compile(r"map\('extract', (\w+ or )?hostvars")
INCLUDES = ("ansible.builtin.include_tasks", "ansible.builtin.import_tasks")
# Tasks that only the master runs, in which a lookup comes first, or for the few hosts that have jobs in a queue.
ALLOWED = {
    ("queue", "Write the parameters"),
    ("sge", "Configure the controller"),
    ("slurm", "Configure the controller"),
    ("ssh_trust", "Request the host keys from hosts that have a certificate"),
    ("ssh_trust", "Read the host keys from the console output again"),
    ("ssh_trust", "Write the returned keys to the cluster's SSH files"),
    ("worker_metadata", "Check whether the nodes are configured"),
    ("worker_metadata", "Write the worker metadata"),
}


def variables_of_all_hosts(role: Path) -> set[str]:
    """Return the names of a role's variables that read the variables of all hosts, also through other variables."""
    files = [role / folder / "main.yml" for folder in ("vars", "defaults")]
    defined: dict[str, Any] = {}
    for file in files:
        defined |= (yaml.safe_load(file.read_text()) or {}) if file.exists() else {}
    found = {name for name, text in defined.items() if OF_ALL_HOSTS.search(str(text))}
    while more := {name for name, text in defined.items() if name not in found and names(text, found)}:
        found |= more
    return found


def names(text: Any, variables: set[str]) -> bool:
    return any(re.search(rf"\b{name}\b", str(text)) for name in variables)


def tasks(items: list[dict[str, Any]], once: bool = False) -> Iterator[tuple[bool, dict[str, Any]]]:
    """Yield each task, and whether it runs once for all hosts."""
    for item in items or []:
        runs_once = once or item.get("run_once") is True
        yield runs_once, {key: value for key, value in item.items() if key not in ("block", "rescue", "always")}
        for key in ("block", "rescue", "always"):
            yield from tasks(item.get(key, []), runs_once)


@pytest.mark.parametrize("role", sorted(each.name for each in ROLES.iterdir() if each.is_dir()))
def test_no_task_on_each_host_reads_the_variables_of_all_hosts(role: str) -> None:
    files = {path.name: list(tasks(yaml.safe_load(path.read_text()))) for path in (ROLES / role / "tasks").glob("*.yml")}
    included = {str(task[key]) for found in files.values() for once, task in found if once for key in INCLUDES if key in task}
    costly = variables_of_all_hosts(ROLES / role)
    wrong = [
        task["name"]
        for name, found in files.items()
        for once, task in found
        if not once and name not in included and (OF_ALL_HOSTS.search(str(task)) or names(task, costly))
    ]
    assert [each for each in wrong if (role, each) not in ALLOWED] == []


def test_a_task_that_reads_the_variables_of_all_hosts_is_noticed() -> None:
    assert "__training_job_failure" in variables_of_all_hosts(ROLES / "training_job")
    assert "__training_job_failed" in variables_of_all_hosts(ROLES / "training_job"), "it uses the variable __training_job_failure"
