"""The IAM policies for operators, as declared and as documented.

test_needed_actions.py shows that these policies are necessary and sufficient.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import botocore.session
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.iam_actions import IamActions
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import (
    iam_account,
    iam_playbook_actions,
    iam_policy_files,
    iam_resources_and_conditions,
)
from botocore import xform_name

ROOT = Path(__file__).resolve().parents[2]
# Without these actions, a check is skipped and nothing fails: the owner of a bucket decides who may check whether the bucket exists.
OPTIONAL = {"s3:ListBucket"}
# Files of other packages that make calls for a package
OF_OTHERS = {"emr": ["node_group/launch_and_termination.py"]}
# Calls whose names the code computes. test_needed_actions.py shows that the code makes these calls
COMPUTED = {
    "ec2:DescribeCapacityReservations",  # by the inventory, about Capacity Blocks
    "lambda:ListTags",  # AWS checks it for the tags in the answer to GetFunction
    *(f"ec2:{verb}SecurityGroup{direction}" for verb in ("Authorize", "Revoke") for direction in ("Ingress", "Egress")),
}
# Services whose names differ between botocore, IAM and the local cloud's records
PREFIXES = {"efs": "elasticfilesystem", "emr": "elasticmapreduce", "service-quotas": "servicequotas"}
SERVICES = (
    *(
        "autoscaling",
        "cloudtrail",
        "ec2",
        "efs",
        "emr",
        "fsx",
        "iam",
        "kms",
        "lambda",
        "pricing",
        "s3",
        "scheduler",
        "service-quotas",
        "sns",
    ),
    *("ssm", "sts"),
)
# The code of a function, whose role allows its calls. test_idle.py shows that.
FUNCTIONS = {"plugins/module_utils/_aws/idle/function.py"}
# Actions whose names in IAM differ from their names in the API
RENAMED = {
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:PutBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
}


@pytest.fixture(scope="module")
def actions():
    """IAM actions by botocore's service and method."""
    session = botocore.session.get_session()
    return {
        (service, xform_name(operation)): renamed(f"{PREFIXES.get(service, service)}:{operation}")
        for service in SERVICES
        for operation in session.get_service_model(service).operation_names
    }


def renamed(action):
    return RENAMED.get(action, action)


def called_in(source, actions):
    """Return the IAM actions of the calls in a file's source: `client.method`, `("service", "method")`,
    `client.get_paginator("method")` or `"method"` alone."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            names.append((node.value.attr, node.attr))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call) and node.value.args:
            names.append((getattr(node.value.args[0], "value", None), node.attr))
        elif isinstance(node, ast.Call):
            words = [getattr(argument, "value", None) for argument in node.args]
            if isinstance(node.func, ast.Attribute) and node.func.attr == "get_paginator":
                words.insert(0, getattr(node.func.value, "attr", None))
            names += itertools.pairwise(words)
            if not set(words) & set(SERVICES):
                names += [("ec2", word) for word in words]
        found |= {actions[name] for name in names if name in actions}
    return found


def sources(*folders):
    return [path for folder in folders for path in sorted((ROOT / "plugins" / folder).rglob("*.py"))]


def declared(path):
    """Return the actions that a file's component or module declares. Files that components share may use the actions of all components."""
    if path.name == "iam_actions.py":
        calls = declarations(path)
    elif path.stem == "validators" or path.parent.name == "validators":
        calls = [iam_playbook_actions.VALIDATORS, *iam_resources_and_conditions.COMPONENT_ACTIONS]
    elif path.parent.name == "_aws":
        calls = []
    else:
        calls = [item for each in path.parent.rglob("iam_actions.py") for item in declarations(each)]
    return {action for item in calls for action in (*item.reads, *item.definition, *item.present, *item.absent)}


def declarations(path):
    package = ".".join(path.parent.relative_to(ROOT).parts)
    module = importlib.import_module(f"ansible_collections.deeplearning.cluster.{package}.iam_actions")
    return [item for item in vars(module).values() if isinstance(item, IamActions)]


def test_every_call_in_the_code_is_declared(actions):
    undeclared = {
        str(path.relative_to(ROOT)): missing
        for path in sources("module_utils", "modules", "inventory", "action")
        if str(path.relative_to(ROOT)) not in FUNCTIONS
        if (missing := called_in(path.read_text(), actions) - declared(path) - OPTIONAL - iam_playbook_actions.WITHOUT_PERMISSION)
    }
    assert undeclared == {}


def users(path):
    """Return the files that make the declared calls: those in the declaration's directory, and those that its package shares."""
    shared = path.parents[1].glob("*.py") if path.parents[1].name != "_aws" else ()
    return [*path.parent.glob("*.py"), *shared, *(path.parents[1] / name for name in OF_OTHERS.get(path.parent.name, ()))]


def test_every_call_that_is_declared_is_in_the_code(actions):
    uncalled = {}
    for path in sources("module_utils", "modules", "inventory"):
        declares = path.name == "iam_actions.py" and path.parent.name != "_aws"
        beside = users(path) if declares else [path]
        called = set().union(*(called_in(each.read_text(), actions) for each in beside))
        own = declared(path) if declares or path.parent.name in ("modules", "inventory") else set()
        uncalled[str(path.relative_to(ROOT))] = own - called - COMPUTED
    assert {path: extra for path, extra in uncalled.items() if extra} == {}


def test_a_call_that_is_not_declared_is_noticed(actions):
    named = 'cloud.ec2.delete_volume(VolumeId=id)\ncloud.retrieve("iam", "list_users", "Users")\nlook(cloud, "describe_hosts")'
    named += '\ncloud.autoscaling.get_paginator("describe_tags").paginate()'
    assert called_in(named, actions) == {"ec2:DeleteVolume", "iam:ListUsers", "ec2:DescribeHosts", "autoscaling:DescribeTags"}


def test_the_files_are_those_that_the_declarations_give():
    wanted = {f"{name}.json": iam_policy_files.text(policy) for name, policy in iam_policy_files.policies(iam_account.Account()).items()}
    written = {path.name: path.read_text() for path in (ROOT / "docs/policies").iterdir()}
    assert written.keys() == wanted.keys()
    assert written == wanted, "run python tools/iam_policies.py"
    assert all(len(re.sub(r"\s", "", text)) <= iam_policy_files.LONGEST for text in wanted.values())


def test_only_reading_is_allowed_everywhere():
    for name, policy in iam_policy_files.policies(iam_account.Account()).items():
        for statement in policy["Statement"]:
            if statement["Resource"] == "*" and "Condition" not in statement:
                assert [each for each in statement["Action"] if not re.search(r":(Describe|Get|List|Lookup)", each)] == [], name


@pytest.mark.parametrize("partition", ["aws-cn", "aws-eusc"])
def test_policies_are_for_the_clusters_that_are_named(partition):
    text = json.dumps(list(iam_policy_files.policies(iam_account.Account("bert-*", partition)).values()))
    assert '"aws:ResourceTag/deeplearning:cluster": "bert-*"' in text
    assert f"arn:{partition}:iam::*:role/deeplearning/bert-*-nodes-*" in text
    assert "arn:aws:" not in text
    assert "example" not in text


def statements(playbook, action, account=None):
    """Return the statements about an action in a playbook's policy, by statement ID."""
    found = iam_policy_files.statements(iam_playbook_actions.playbooks()[playbook], account or iam_account.Account())
    return {each["Sid"]: each for each in found if action in each["Action"]}


def test_reading_mount_targets_reads_their_interfaces():
    """EFS requires this permission from the caller. Source: EFS API Reference, DescribeMountTargetSecurityGroups (aws.md, B2)."""
    for playbook in ("validate", "provision", "train", "destroy"):
        assert statements(playbook, "ec2:DescribeNetworkInterfaceAttribute").keys() == {"Read"}, playbook


def test_session_manager_opens_ssh_and_no_shell():
    """Without the condition, a request without a document opens a shell, even if shells are not allowed (Systems Manager User Guide)."""
    opened = statements("session_manager", "ssm:StartSession")
    assert opened.keys() == {"ConnectToNodes", "ConnectBySsh"}
    for statement in opened.values():
        assert statement["Condition"]["BoolIfExists"] == {"ssm:SessionDocumentAccessCheck": "true"}
    (used,) = statements("session_manager", "ssmmessages:OpenDataChannel").values()
    assert "arn:aws:ssm:*:*:session/${aws:userid}-*" in used["Resource"]


IAM_CHANGES = re.compile(r"iam:(Add|Attach|Create|Delete|Detach|Pass|Put|Remove|Tag|Update)")


@pytest.mark.parametrize("playbook", ["provision", "train", "destroy"])
def test_roles_of_others_are_out_of_reach(playbook):
    """The path and the tag restrict access, so a matching name alone is not sufficient (security.md, H5)."""
    for statement in iam_policy_files.statements(iam_playbook_actions.playbooks()[playbook], iam_account.Account()):
        changes = [each for each in statement["Action"] if IAM_CHANGES.match(each)]
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        if not changes or all("aws-service-role" in each for each in resources):
            continue
        assert all("/deeplearning/example-*-nodes-" in each for each in resources), statement["Sid"]
        tags = json.dumps(statement["Condition"])
        assert "Tag/deeplearning:cluster" in tags or changes == ["iam:PassRole"], statement["Sid"]
    actions = iam_playbook_actions.playbooks()[playbook]
    assert not actions & {"iam:UpdateAssumeRolePolicy", "iam:CreatePolicyVersion", "iam:DeleteRolePermissionsBoundary"}


def test_roles_can_be_bound():
    boundary = "arn:aws:iam::123456789012:policy/nodes-boundary"
    account = iam_account.Account(permissions_boundary=boundary)
    for action in ("iam:CreateRole", "iam:PutRolePolicy", "iam:PutRolePermissionsBoundary"):
        (statement,) = (each for name, each in statements("provision", action, account).items() if name != "LustreRole")
        assert statement["Condition"]["ArnEquals"] == {"iam:PermissionsBoundary": boundary}
        assert "StringLike" in statement["Condition"]
    assert not statements("provision", "iam:PutRolePermissionsBoundary")


def test_interfaces_of_others_are_out_of_reach():
    """The caller may change only the network interfaces of Lustre file systems. EFS and FSx change their own interfaces on the caller's
    behalf (security.md, M7; aws.md, S2).
    """
    for action in iam_resources_and_conditions.INTERFACES:
        conditions = {name: each["Condition"] for name, each in statements("train", action).items()}
        assert conditions.pop("InterfacesOfFileSystems") == {"Bool": {"aws:ViaAWSService": "true"}}
        if action == "ec2:ModifyNetworkInterfaceAttribute":
            assert conditions.pop("InterfacesOfLustre") == {"Null": {"aws:ResourceTag/AmazonFSx.FileSystemId": "false"}}
            assert conditions.pop("GroupsOfLustre") == iam_account.Account().own
        assert conditions == {}


def test_addresses_go_to_nodes_alone():
    (statement,) = statements("provision", "ec2:AssociateAddress").values()
    assert statement["Condition"] == iam_account.Account().own


def test_nodes_are_launched_from_templates_of_the_cluster_and_in_its_security_groups():
    ours = "arn:aws:ec2:us-east-1:123456789012:security-group/sg-0123"
    template = {"ArnLike": {"ec2:LaunchTemplate": "arn:aws:ec2:*:*:launch-template/*"}}
    launched = statements("provision", "ec2:RunInstances", iam_account.Account(adopted=(ours,)))
    assert launched["LaunchOwnTemplate"]["Condition"] == iam_account.Account().own
    assert launched["LaunchFromTemplate"]["Condition"] == template
    assert launched["LaunchInGroups"]["Condition"] == iam_account.Account().own | template
    assert launched["LaunchInAdoptedGroups"]["Resource"] == ours
    kinds = {each.split(":")[-1].removesuffix("/*") for each in launched["LaunchFromTemplate"]["Resource"]}
    assert "security-group" not in kinds
    assert kinds >= {"capacity-reservation", "image", "key-pair", "placement-group", "subnet"}


def test_buckets_of_other_accounts_are_out_of_reach():
    (statement,) = statements("dataset", "s3:PutBucketPolicy").values()
    assert statement["Resource"] == "arn:aws:s3:::example-*-*"
    assert statement["Condition"] == {"StringEquals": {"s3:ResourceAccount": "${aws:PrincipalAccount}"}}


def test_what_is_adopted_is_named():
    file_system = "arn:aws:elasticfilesystem:us-east-1:123456789012:file-system/fs-0123"
    role, bucket = "arn:aws:iam::123456789012:role/theirs", "arn:aws:s3:::pictures"
    parameter = "arn:aws:ssm:us-east-1:123456789012:parameter/images/ours"
    account = iam_account.Account(adopted=(file_system, role, bucket, parameter))
    assert statements("provision", "elasticfilesystem:CreateMountTarget").keys() == {"MountTargets"}
    assert statements("provision", "elasticfilesystem:CreateAccessPoint").keys() == set()
    points = statements("provision", "elasticfilesystem:CreateAccessPoint", account)["AccessPoints"]
    assert (points["Resource"], points["Condition"]) == (file_system, account.new)
    targets = statements("provision", "elasticfilesystem:CreateMountTarget", account)
    assert targets["AdoptedFileSystems"]["Resource"] == file_system
    assert role in statements("provision", "iam:PassRole", account)["PassNodesRole"]["Resource"]
    assert parameter in statements("provision", "ssm:GetParameters", account)["PublicParameters"]["Resource"]
    assert statements("dataset", "s3:PutObject", account)["AdoptedBuckets"]["Resource"] == [bucket, f"{bucket}/*"]
    assert "AdoptedBuckets" not in statements("dataset", "s3:PutBucketPolicy", account)


@pytest.mark.parametrize(
    "arguments", [["--cluster", "bert"], ["--output", "elsewhere"], ["--permissions-boundary", "arn:aws:iam::1:policy/x"]]
)
def test_policies_are_for_a_cluster_that_somebody_names(arguments):
    run = subprocess.run([sys.executable, str(ROOT / "tools/iam_policies.py"), *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 2


def test_spot_instances_may_be_launched():
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/concepts-spot-instances-request-tags.html"""
    allowed = statements("provision", "ec2:RunInstances")["LaunchFromTemplate"]
    assert "arn:aws:ec2:*:*:spot-instances-request/*" in allowed["Resource"]


def test_policies_may_be_for_one_region():
    for name, policy in iam_policy_files.policies(iam_account.Account(region="eu-west-1")).items():
        assert len(json.dumps(policy, separators=(",", ":"))) <= iam_policy_files.LONGEST, name
        sids = [statement["Sid"] for statement in policy["Statement"]]
        assert len(sids) == len(set(sids))
        for statement in policy["Statement"]:
            regions = statement.get("Condition", {}).get("StringEquals", {}).get("aws:RequestedRegion")
            without = {action.startswith(("iam:", "pricing:", "route53:", "sts:")) for action in statement["Action"]}
            assert (regions, without) in (("eu-west-1", {False}), (None, {True})), statement["Sid"]


def test_uploads_may_be_encrypted_with_a_key():
    for action in ("kms:GenerateDataKey", "kms:Decrypt"):
        statement = statements("dataset", action)["KeysOfBuckets"]
        assert statement["Condition"] == {"StringLike": {"kms:ViaService": "s3.*.amazonaws.*"}}
