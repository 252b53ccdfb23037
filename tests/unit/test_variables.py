"""Tests of the variables of roles, and of the list of the most important ones in docs/variables.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.options import OPTIONS as JOB_OPTIONS

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `(\w+)` \| `([^|]+)` \| (.*) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "variables.md").read_text(encoding="utf-8"))


def options() -> dict[str, Any]:
    found: dict[str, Any] = {"deeplearning_notify": {"type": "list", "elements": "str"}}  # a variable of the playbooks
    for file in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for specification in yaml.safe_load(file.read_text(encoding="utf-8"))["argument_specs"].values():
            found |= specification.get("options", {})
    return found


OPTIONS = options()
JOB = " ".join(f"training_job_{option.variable or option.name}" for option in JOB_OPTIONS)


def test_the_list_is_short():
    assert len(ROWS) == 20


@pytest.mark.parametrize(("name", "example", "meaning"), ROWS)
def test_each_variable_exists_and_has_a_valid_example(name, example, meaning):
    specification = {name: {key: value for key, value in OPTIONS[name].items() if key in ("type", "elements", "choices")}}
    assert not ArgumentSpecValidator(specification).validate({name: yaml.safe_load(example)}).error_messages
    assert set(re.findall(r"`(\w+_\w+)`", meaning)) <= OPTIONS.keys()


def texts_of(role: Path) -> str:
    folders = ("tasks", "vars", "templates", "files", "defaults")
    return "\n".join(path.read_text(encoding="utf-8") for folder in folders for path in (role / folder).rglob("*") if path.is_file())


@pytest.mark.parametrize("role", sorted((ROOT / "roles").iterdir()), ids=lambda path: path.name)
def test_each_variable_is_declared_and_used(role):
    declared = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((role / "defaults" / "main.yml").read_text()) if (role / "defaults").is_dir() else {}
    assert defaults.keys() <= declared.keys()
    # The action of a job takes the job's own options from the variables
    used = texts_of(role) + (JOB if role.name == "training_job" else "")
    names = re.findall(r"\b\w+\b(?!:)", used)
    assert declared.keys() - {*names} == set()
