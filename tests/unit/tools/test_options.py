"""Tests that options are declared correctly, and that the generated files match the declarations."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import (
    Update,
    UpdatePolicy,
    forbidden,
    in_place,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import OPTIONS, argument_spec, options_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision.components import ALL_COMPONENTS
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.tags import EMR_COMPONENT, NODES_COMPONENT

ROOT = Path(__file__).resolve().parents[3]
NAMES = [option.name for option in OPTIONS]
tool = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "options.py")))


@pytest.mark.parametrize("path", tool.files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_what_the_declarations_give(path):
    assert path.read_text() == tool.files()[path], "run python tools/options.py"


def handed_over(option: str, variables: dict[str, Any]) -> Any:
    """Return the value that the role passes to the module for an option, or "omitted"."""
    tasks = yaml.safe_load((ROOT / "roles" / "provision" / "tasks" / "main.yml").read_text())
    template = tasks[1]["deeplearning.cluster.cluster"][option].removeprefix("{{").removesuffix("}}")
    return jinja2.Environment().compile_expression(template)(omit="omitted", **variables)


def with_variables(*component: str) -> list[Any]:
    return [option for option in options_of(*component) if option.has_variable]


@pytest.mark.parametrize("option", with_variables(), ids=lambda option: option.name)
def test_the_role_hands_over_each_option(option):
    default = "present" if option.name == "state" else "omitted"
    assert handed_over(option.name, {}) == default
    assert handed_over(option.name, {option.variable: "x"}) == "x"
    if option.spec["type"] == "str":
        assert handed_over(option.name, {option.variable: ""}) == default
    else:
        assert handed_over(option.name, {option.variable: False}) is False or option.spec["type"] == "path"


@pytest.mark.parametrize("name", ["known_instances", "lease_minimum"])
def test_only_playbooks_set_what_is_no_variable_of_the_role(name):
    assert handed_over(name, {f"deeplearning_{name}": "x"}) == "omitted"
    assert handed_over(name, {f"__provision_{name}": "x"}) == "x"


def test_an_image_or_a_framework_goes_before_the_parameter():
    both = {"deeplearning_image_parameter": "/latest", "deeplearning_image_id": "ami-1"}
    assert handed_over("image_parameter", both) == "omitted"
    assert handed_over("image_parameter", {**both, "deeplearning_image_id": ""}) == "/latest"
    assert handed_over("image_parameter", {**both, "deeplearning_image_id": "", "deeplearning_image_framework": "pytorch"}) == "omitted"


def test_no_option_is_declared_twice():
    assert sorted(NAMES) == sorted(set(NAMES))


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_a_declaration_names_options_that_there_are(option):
    texts = [*option.description, option.update.advice, option.update.details, *(each.description for each in option.suboptions)]
    assert {name for text in texts for name in re.findall(r"\bO\((\w+)", text)} <= set(NAMES)
    assert set(option.yields_to) <= set(NAMES)
    assert set(option.components) <= {EMR_COMPONENT, *(component.name for component in ALL_COMPONENTS)}
    assert option.components


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_an_option_that_cannot_be_changed_says_what_to_do_instead(option):
    assert option.update.advice or option.update.policy is not UpdatePolicy.FORBIDDEN


def test_a_module_takes_the_options_of_its_component():
    assert {"cluster", "worker_count", "file_system_id"} <= argument_spec(NODES_COMPONENT).keys()
    assert not {"nat", "encrypted"} & argument_spec(NODES_COMPONENT).keys()
    assert argument_spec("lustre")["lustre_data_repositories"]["options"]["path"] == {"type": "str", "default": "/"}
    assert {option.name for option in options_of()} == {name for name in NAMES if not name.startswith("emr_")}
    assert {"emr_task_count", "tags"} <= argument_spec(EMR_COMPONENT).keys()
    assert not {"worker_count", "key_name"} & argument_spec(EMR_COMPONENT).keys()


@pytest.mark.parametrize(
    ("update", "summary", "sentences"),
    [
        (Update(UpdatePolicy.SUBJECT), "specifies the target or the action of a run", ""),
        (Update(UpdatePolicy.NOT_STORED), "not stored", "This option applies to one run and is not stored."),
        (in_place("for new files"), "in place, for new files", "This option can be changed in place, for new files."),
        (in_place("", "Wait"), "in place", "This option can be changed in place. Wait."),
        (
            Update(UpdatePolicy.REPLACES_NODES),
            "replaces nodes",
            "Changing this option replaces the nodes, which requires O(replace_nodes).",
        ),
        (
            Update(UpdatePolicy.REPLACES_EMR_CLUSTER),
            "replaces the EMR cluster",
            "Changing this option replaces the EMR cluster, which requires O(emr_replace).",
        ),
        (
            forbidden("Copy it", details="while nodes run"),
            "cannot be changed while nodes run",
            "This option cannot be changed while nodes run. Copy it.",
        ),
    ],
)
def test_an_update_policy_in_words(update, summary, sentences):
    assert (update.summary, update.sentences) == (summary, sentences)


def emr_role(option: str, variables: dict[str, Any]) -> Any:
    """Return the value that the role `emr_cluster` passes to the module for an option."""
    (task,) = yaml.safe_load((ROOT / "roles" / "emr_cluster" / "tasks" / "main.yml").read_text())
    template = task["deeplearning.cluster.emr_cluster"][option].removeprefix("{{").removesuffix("}}")
    return jinja2.Environment().compile_expression(template)(omit="omitted", **variables)


@pytest.mark.parametrize("option", with_variables(EMR_COMPONENT), ids=lambda option: option.name)
def test_the_role_of_emr_hands_over_each_option(option):
    assert emr_role(option.name, {}) == "omitted"
    assert emr_role(option.name, {option.variable: "x"}) == "x"
    if option.spec["type"] == "str":
        assert emr_role(option.name, {option.variable: ""}) == "omitted"


def test_markup_in_a_table():
    assert tool.markdown("Keep O(nat) for V(none), or C(aws iam x)") == "Keep `nat` for `none`, or `aws iam x`"


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("Name of the cluster.", "Name of the cluster"),
        ("Seconds to wait. Large instances take longer.", "Seconds to wait"),
        ("When AWS ends them: after V(8h), or at V(1d). Not before.", "When AWS ends them"),
        ("C(s3://a.b/c) for O(nat)", "`s3://a.b/c` for `nat`"),
    ],
)
def test_a_variable_is_for_what_the_beginning_of_its_description_says(description, expected):
    assert tool.phrase(description) == expected


def test_roles_and_playbooks_repeat_only_declared_defaults():
    """Hand-written inventories do not set variables for all options, so the templates that use an option contain its default."""
    texts = [path.read_text() for folder in ("roles", "playbooks") for path in (ROOT / folder).rglob("*.yml")]
    pattern = re.compile(r"\b(deeplearning_\w+) \| default\((\d+|true|false|'[^']+')\)")
    found = {match for text in texts for match in pattern.findall(text) if match[0] in [option.variable for option in OPTIONS]}
    declared = {option.variable: option.spec.get("default") for option in OPTIONS}
    wrong = {name: literal for name, literal in found if yaml.safe_load(literal) != declared[name]}
    assert "deeplearning_mount_point" in [name for name, _literal in found]
    assert wrong == {}
