"""Tests that messages of the provisioning modules name options as the users of the modules or roles know them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws import message_parts
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.message_parts import P
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import OPTIONS
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import report
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators.definition import check_buckets, check_tags
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators.iam import LONGEST_POLICY, check_policy

AWS = Path(message_parts.__file__).parent
# What documents options, and what only modules use whose options no role sets from variables with the same names.
OTHERS = ("option.py", "options", "options.py", "dataset_bucket", "ssh_authority")
# Users of roles set these options in the inventory file, or cannot set them.
NOT_VARIABLES = {"cluster", "group", "private_key_file", *(option.name for option in OPTIONS if not option.has_variable)}
NAMES = {"region", *(option.name for option in OPTIONS)} - NOT_VARIABLES
MARK = "\0"
SPECIFIC = "|".join(name for name in NAMES if "_" in name)
WORDS = "|".join(name for name in NAMES if "_" not in name)
# A name with an underscore is that of an option, except in code. Other names are also ordinary words.
UNMARKED = re.compile(rf"(?<![\w.'\"/=:@{MARK}-])(?:{SPECIFIC})(?![\w=/-])|(?:^|\b(?:set|or|and|with|option) )(?:{WORDS})(?:: | to )", re.I)
MARKED = re.compile(rf"{MARK}(?!\{{\}}|(?:{'|'.join(NAMES)})\b)")


def texts(tree):
    """Yield the line and the text of each sentence that is not a docstring. In it, MARK stands for `{P}`, and `{}` for other values."""
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            parts = [each.value if isinstance(each, ast.Constant) else f"{{{ast.unparse(each.value)}}}" for each in node.values]
            text = re.sub(r"\{[^{}]*\}", "{}", "".join(parts).replace("{P}", MARK))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            text = node.value.replace("{P}", MARK)
        else:
            continue
        if " " in text:
            yield node.lineno, text


def sources():
    for path in sorted(AWS.rglob("*.py")):
        if not {*path.relative_to(AWS).parts} & {*OTHERS}:
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def test_each_option_in_a_message_follows_the_prefix():
    found = [(path.relative_to(AWS), line, text) for path, tree in sources() for line, text in texts(tree)]
    assert sum(text.count(MARK) for _path, _line, text in found) > 200
    assert not [each for each in found if UNMARKED.search(each[2])], "write {P} before the name of an option"
    assert not [each for each in found if MARKED.search(each[2])], "no option has this name"


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ('f"zones: there is no zone {zone}."', True),
        ('f"{P}zones: there is no zone {zone}. Set zones: [a]."', True),
        ('"Specify a smaller worker_count."', True),
        ('f"{P}zones: {zone} is missing from {P}private_subnet_ids."', False),
        ("f\"{options['worker_count']} nodes in all zones\"", False),
        ('"What the zones are"', False),
    ],
)
def test_a_name_without_the_prefix_is_found(source, is_found):
    assert [bool(UNMARKED.search(text)) for _line, text in texts(ast.parse(f"x = {source}"))] == [is_found]


@pytest.fixture
def of_role(monkeypatch):
    monkeypatch.setattr(P, "data", "deeplearning_")


def test_messages_have_the_names_of_the_options_or_of_the_variables(monkeypatch):
    monkeypatch.setattr(P, "data", "")
    monkeypatch.setattr(message_parts.RUN_OPTIONS, "data", "")
    (told,) = check_tags({"aws:a": "x"})
    message_parts.use({"option_prefix": "deeplearning_", "run_options": "-i x "})
    assert [*check_tags({"aws:a": "x"})] == [f"deeplearning_{told}"]
    assert f"ansible-playbook {message_parts.RUN_OPTIONS}deeplearning" == "ansible-playbook -i x deeplearning"
    assert told.startswith("tags: 'aws:a' must not start with")


@pytest.mark.parametrize("value", ["{P}zones", "worker_count", "set zones: x", "ansible-playbook deeplearning.cluster.destroy"])
def test_a_value_does_not_become_a_name(of_role, value):
    (told,) = check_buckets("read_buckets", [value])
    assert told.startswith(f"deeplearning_read_buckets: '{value}' is not a valid bucket name.")


def test_names_of_options_in_variables_have_the_prefix_and_other_properties_have_not(of_role):
    (told,) = check_policy({"Statement": [{"Action": "s" * LONGEST_POLICY}]}, ["read_buckets", "write_buckets"])
    assert told.startswith("deeplearning_read_buckets, deeplearning_write_buckets: the policy of the role would have")
    assert report._difference("image_id", "a", "b") == "deeplearning_image_id is 'b', but the nodes have 'a'"
    assert report._difference("user_data", "a", "b") == "user_data is 'b', but the nodes have 'a'"
