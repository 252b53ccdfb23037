"""Tests of the list of variables in docs/variables.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

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


def test_the_list_is_short():
    assert len(ROWS) == 20


@pytest.mark.parametrize(("name", "example", "meaning"), ROWS)
def test_each_variable_exists_and_has_a_valid_example(name, example, meaning):
    specification = {name: {key: value for key, value in OPTIONS[name].items() if key in ("type", "elements", "choices")}}
    assert not ArgumentSpecValidator(specification).validate({name: yaml.safe_load(example)}).error_messages
    assert set(re.findall(r"`(\w+_\w+)`", meaning)) <= OPTIONS.keys()
