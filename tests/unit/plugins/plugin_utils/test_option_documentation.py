"""Tests of the documentation of options."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import Option, Suboption, Update, UpdatePolicy
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import option_documentation

DIRECTORY = Option(
    "directory",
    {"type": "str", "choices": ["a", "b"], "no_log": False},
    ("file_system", "nodes"),
    Update(UpdatePolicy.REPLACES_NODES, advice="Keep O(efs)"),
    ("Not used with O(efs=false), nor with M(deeplearning.cluster.dataset).",),
    (Suboption("path", {"type": "str", "required": True}, "As in O(efs)."),),
)


def test_the_documentation_of_a_module():
    assert option_documentation.documentation(DIRECTORY, known={"efs"}) == {
        "description": [
            "Not used with O(efs=false), nor with M(deeplearning.cluster.dataset).",
            "Changing this option replaces the nodes, which requires O(ignore:replace_nodes). Keep O(efs).",
        ],
        "type": "str",
        "choices": ["a", "b"],
        "suboptions": {"path": {"description": ["As in O(efs)."], "type": "str", "required": True}},
    }


@pytest.mark.parametrize(
    ("prefix", "known", "expected"),
    [
        ("", (), "O(ignore:efs=false)"),
        ("", ("efs",), "O(efs=false)"),
        ("deeplearning_", (), "O(deeplearning_efs=false)"),
        ("deeplearning_", ("efs",), "O(deeplearning_efs=false)"),
        ("deeplearning_", ("nat",), "O(ignore:deeplearning_efs=false)"),
    ],
)
def test_options_of_other_modules_and_roles_are_marked(prefix, known, expected):
    assert option_documentation.marked("O(efs=false)", prefix, known) == expected
