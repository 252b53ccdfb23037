# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM policies for operators: as declared, as written down, and enough for the calls that are really made."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

from .conftest import REGION, ModuleFailed

ROOT = Path(__file__).resolve().parents[2]
EFA_TYPE = "p4d.24xlarge"  # with several network cards, so that the master gets an elastic IP address
ELSEWHERE = {"CidrIp": "198.51.100.0/24"}
OTHER_TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
# Calls whose names the code puts together, so that only those that are made tell of them
COMPUTED = {f"ec2:{verb}SecurityGroup{direction}" for verb in ("Authorize", "Revoke") for direction in ("Ingress", "Egress")}
# Where the names of botocore, of IAM and of the local cloud's records differ
PREFIXES = {"efs": "elasticfilesystem", "service-quotas": "servicequotas"}
SERVICES = ("autoscaling", "ec2", "efs", "fsx", "iam", "kms", "s3", "service-quotas", "ssm", "sts")
# Actions that IAM calls otherwise than the API
RENAMED = {
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:PutBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
}


@pytest.fixture(scope="module")
def tool():
    """tools/iam_policies.py as a module."""
    specification = importlib.util.spec_from_file_location("iam_policies", ROOT / "tools/iam_policies.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules["iam_policies"] = module
    specification.loader.exec_module(module)
    return module


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
    """The IAM actions of the calls that a file's text names: C(client.method), C(("service", "method")) or a lone C("method")."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            names.append((node.value.attr, node.attr))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call) and node.value.args:
            names.append((getattr(node.value.args[0], "value", None), node.attr))
        elif isinstance(node, ast.Call):
            words = [getattr(argument, "value", None) for argument in node.args]
            names += itertools.pairwise(words)
            if not set(words) & set(SERVICES):
                names += [("ec2", word) for word in words]
        found |= {actions[name] for name in names if name in actions}
    return found


def sources(*folders):
    return [path for folder in folders for path in sorted((ROOT / "plugins" / folder).rglob("*.py"))]


def declared(tool, path):
    """What the unit or module that a file belongs to declares."""
    if path.parent.name == "_validators":
        calls = [tool.VALIDATORS] if path.name == "calls.py" else [tool.VALIDATORS, *tool.UNITS]
    elif path.with_name("calls.py").exists() and path.parent.name != "module_utils":
        module = f"ansible_collections.deeplearning.cluster.plugins.module_utils.{path.parent.name}.calls"
        calls = [importlib.import_module(module).CALLS]
    else:
        calls = {"host_keys_info": [tool.HOST_KEYS], "ssh_authority": [tool.AUTHORITY], "nodes": [tool.INVENTORY]}.get(path.stem, [])
    return {action for item in calls for action in (*item.reads, *item.present, *item.absent)}


def test_every_call_in_the_code_is_declared(tool, actions):
    undeclared = {
        str(path.relative_to(ROOT)): missing
        for path in sources("module_utils", "modules", "inventory", "action")
        if (missing := called_in(path.read_text(), actions) - declared(tool, path))
    }
    assert undeclared == {}


def test_every_call_that_is_declared_is_in_the_code(tool, actions):
    uncalled = {}
    for path in sources("module_utils", "modules", "inventory"):
        beside = path.parent.glob("*.py") if path.name == "calls.py" else [path]
        called = set().union(*(called_in(each.read_text(), actions) for each in beside))
        own = declared(tool, path) if path.name == "calls.py" or path.parent.name in ("modules", "inventory") else set()
        uncalled[str(path.relative_to(ROOT))] = own - called - COMPUTED
    assert {path: extra for path, extra in uncalled.items() if extra} == {}


def test_a_call_that_is_not_declared_is_noticed(actions):
    named = 'cloud.ec2.delete_volume(VolumeId=id)\ncloud.retrieve("iam", "list_users", "Users")\nlook(cloud, "describe_hosts")'
    assert called_in(named, actions) == {"ec2:DeleteVolume", "iam:ListUsers", "ec2:DescribeHosts"}


def test_the_files_are_those_that_the_declarations_give(tool):
    wanted = {f"{name}.json": tool.text(policy) for name, policy in tool.policies(tool.Account()).items()}
    written = {path.name: path.read_text() for path in tool.FOLDER.iterdir()}
    assert written.keys() == wanted.keys()
    assert written == wanted, "run python tools/iam_policies.py"
    assert all(len(re.sub(r"\s", "", text)) <= tool.LONGEST for text in wanted.values())


def test_only_reading_is_allowed_everywhere(tool):
    for name, policy in tool.policies(tool.Account()).items():
        for statement in policy["Statement"]:
            if statement["Resource"] == "*" and "Condition" not in statement:
                assert [each for each in statement["Action"] if not re.search(r":(Describe|Get|List)", each)] == [], name


def test_policies_can_be_narrowed_to_a_cluster(tool):
    text = json.dumps(list(tool.policies(tool.Account("bert-*", "aws-cn")).values()))
    assert '"aws:ResourceTag/deeplearning:cluster": "bert-*"' in text
    assert "arn:aws-cn:iam::*:role/bert-*-nodes-*" in text
    assert "arn:aws:" not in text


def test_spot_instances_may_be_launched(tool):
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/concepts-spot-instances-request-tags.html"""
    allowed = [
        statement
        for statement in tool.statements(tool.playbooks()["provision"], tool.Account())
        if statement["Sid"] == "LaunchFromTemplate"
    ]
    assert "arn:aws:ec2:*:*:spot-instances-request/*" in allowed[0]["Resource"]


def recorded(cloud):
    """The IAM actions of the calls so far, which are forgotten."""
    calls = {renamed(f"{PREFIXES.get(call['service'], call['service'])}:{call['action']}") for call in cloud.control.calls()}
    cloud.control.forget_calls()
    return calls


def test_policies_allow_the_calls_that_are_made(cloud, run, definition, name, tool, tmp_path):
    allowed, seen = tool.playbooks(), set()

    def check(playbook):
        calls = recorded(cloud)
        assert calls, "nothing was recorded"
        assert calls - allowed[playbook] == set()
        seen.update(calls)

    recorded(cloud)
    ec2, autoscaling, iam = cloud.client("ec2"), cloud.client("autoscaling"), cloud.client("iam")
    run("cluster_validation", **definition)
    check("validate")

    # A cluster with everything in it, which then loses it again
    first = {**definition, "zones": ["us-east-1a", "us-east-1b"], "nat": "per_zone", "interface_endpoints": ["ssm"], "lustre": True}
    made = run("cluster", **first)["resources"]
    check("provision")
    ec2.authorize_security_group_ingress(
        GroupId=made["security_group"]["ssh"], IpProtocol="tcp", FromPort=22, ToPort=22, CidrIp="198.51.100.0/24"
    )
    ec2.authorize_security_group_egress(
        GroupId=made["security_group"]["nodes"], IpPermissions=[{"IpProtocol": "-1", "IpRanges": [ELSEWHERE]}]
    )
    ec2.modify_vpc_attribute(VpcId=made["vpc"]["main"], EnableDnsHostnames={"Value": False})
    ec2.replace_route(
        RouteTableId=made["route_table"]["private-us-east-1a"],
        DestinationCidrBlock="0.0.0.0/0",
        GatewayId=made["internet_gateway"]["main"],
    )
    autoscaling.suspend_processes(AutoScalingGroupName=f"{name}-workers", ScalingProcesses=["Launch"])
    iam.update_assume_role_policy(RoleName=made["role"]["nodes"], PolicyDocument=json.dumps(OTHER_TRUST))
    recorded(cloud)
    run("cluster", **first, tags={"team": "speech"})
    check("provision")
    second = {**first, "nat": "single", "interface_endpoints": [], "root_volume_size": 120}
    run("cluster", **second, replace_nodes=True)
    check("provision")
    run("cluster", **{**second, "worker_count": 1})
    check("provision")

    nodes = run("cluster_info", cluster=name)["nodes"]
    check("validate")
    with pytest.raises(ModuleFailed, match="has not printed its SSH host keys"):
        run("host_keys_info", instance_ids=[nodes[0]["instance_id"]], wait_timeout=1)
    run("ssh_authority", cluster=name)
    (tmp_path / "nodes.yml").write_text(json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": REGION}))
    listing = [sys.executable, "-m", "ansible", "inventory", "-i", str(tmp_path / "nodes.yml"), "--list"]
    subprocess.run(listing, env=cloud.environment, check=True, capture_output=True, cwd=tmp_path)
    check("configure")
    run("dataset_bucket", cluster=name, bucket=f"{name}-data", kms_key_id="alias/data")
    check("dataset")
    run("ssh_authority", cluster=name, state="absent")
    run("cluster", cluster=name, state="absent", delete_data=True)
    check("destroy")

    # A run that AWS has no nodes for takes away what it made for them
    cloud.control.set_capacity({definition["instance_type"]: {"us-east-1a": 0}})
    with pytest.raises(ModuleFailed, match="AWS does not have the nodes"):
        run("cluster", **{**definition, "cluster": f"{name}-none", "capacity_timeout": 1})
    assert "autoscaling:DeleteAutoScalingGroup" in {f"{call['service']}:{call['action']}" for call in cloud.control.calls()}
    check("provision")

    # What only some instance types have
    efa = {**definition, "instance_type": EFA_TYPE, "efa": True, "nat": "none", "cluster": f"{name}-efa"}
    run("cluster", **efa)
    check("provision")
    run("cluster", cluster=f"{name}-efa", state="absent", delete_data=True)
    check("destroy")

    assert seen >= COMPUTED
