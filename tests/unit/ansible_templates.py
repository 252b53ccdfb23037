"""Evaluates the templates and conditions of roles and playbooks as Ansible does."""

from __future__ import annotations

from pathlib import Path

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template


def loaded(path: Path):
    """Return the data in a YAML file."""
    return DataLoader().load_from_file(str(path), cache="none", trusted_as_template=True)


def task_of(path: Path, name: str):
    """Return the task with this name in a file with a list of tasks."""
    (task,) = [task for task in loaded(path) if task["name"] == name]
    return task


def evaluated(template, *scopes, **variables):
    """Return the value of a template or, for a list of conditions, whether all of them are met. Later scopes take precedence."""
    templar = Templar(DataLoader(), variables={name: value for scope in (*scopes, variables) for name, value in scope.items()})
    if isinstance(template, list):
        return all(templar.evaluate_conditional(condition) for condition in template)
    return templar.template(trust_as_template(template) if isinstance(template, str) else template)
