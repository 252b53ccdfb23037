"""Checks the collection on a real AWS account, for less than one dollar and in about an hour.

Creates, with the generated policies and not as administrator: a network without NAT gateway, an empty EFS file system, an SSH authority
in Parameter Store, a bucket, the instance role, and Auto Scaling groups of size 0 whose launch templates name p5 and g5 instances.
Launches one t3.micro to read its console output. Deletes everything in any case.

Records the answers of AWS in a folder. In the records, account IDs, ARNs, addresses, keys and resource IDs are replaced. Read the records
before you send them to anybody.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import importlib.util
import io
import json
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import botocore.client
from ansible.module_utils.testing import patch_module_args
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.error_codes import DENIED, error_code
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.console import host_keys
from botocore.exceptions import ClientError

MODULES = "ansible_collections.deeplearning.cluster.plugins.modules"
# The playbooks whose policies the operator gets, in the order in which the policies are attached.
PLAYBOOKS = ("dataset", "validate", "configure", "provision", "destroy")
# Validators of capacity that this tool does not use.
SUPPRESSED = ["vcpu_quota", "replacement_vcpu_quota"]
SIZES = ("MinSize", "MaxSize", "DesiredCapacity")
# The maximum time in seconds for new policies to take effect, and for an instance to print its host keys.
POLICY_TIMEOUT, CONSOLE_TIMEOUT = 120, 900
SECRET = re.compile(r"SecretAccessKey|SessionToken|KeyMaterial|PublicKey\w*|UserData|Password", re.IGNORECASE)
REPLACED = (
    (re.compile(r"\b\d{12}\b"), lambda _text: "123456789012"),
    (re.compile(r"\b(AKIA|ASIA|AIDA|AROA|AIPA)[A-Z0-9]{12,}\b"), lambda text: text[:4] + "EXAMPLE"),
    (re.compile(r"\b(?:(?!10\.|127\.|169\.254\.)\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})(?!/\d)\b"), lambda _text: "203.0.113.1"),
    (re.compile(r"(?<=-)[0-9a-f]{8,17}\b"), lambda text: _digest(text, len(text))),
    (re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.]+\b"), lambda _text: "somebody@example.com"),
)
SALT = secrets.token_bytes(16)


def _digest(text: str, length: int) -> str:
    return hashlib.blake2b(text.encode(), key=SALT).hexdigest()[:length]


def anonymous(value: Any, name: str = "") -> Any:
    """Return an answer of AWS without secrets, and with invented accounts, addresses and IDs. The same ID always gets the same new ID."""
    if isinstance(value, Mapping):
        own = {"Value": "SecretAccessKey"} if value.get("Type") in ("SecureString", "String") else {}
        return {each: anonymous(item, own.get(each, each)) for each, item in value.items() if each != "ResponseMetadata"}
    if isinstance(value, (list, tuple)):
        return [anonymous(item, name) for item in value]
    if SECRET.fullmatch(name):
        return "REMOVED"
    if not isinstance(value, str):
        return value if isinstance(value, (int, float, bool, type(None))) else str(value)
    for pattern, replacement in REPLACED:
        value = pattern.sub(lambda match, new=replacement: new(match.group()), value)
    return value


class Recorder:
    """Records the answers of AWS, and sets the sizes of Auto Scaling groups to 0."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0
        folder.mkdir(parents=True)
        self._original = botocore.client.BaseClient._make_api_call

    def call(self, client: Any, operation: str, parameters: dict[str, Any]) -> Any:
        if operation in ("CreateAutoScalingGroup", "UpdateAutoScalingGroup"):
            parameters = {**parameters, **{name: 0 for name in SIZES if name in parameters}}
        service = client.meta.service_model.service_name
        try:
            answer = self._original(client, operation, parameters)
        except ClientError as error:
            self._write(service, operation, {"Error": error.response["Error"]})
            raise
        self._write(service, operation, answer)
        return answer

    def _write(self, service: str, operation: str, answer: Any) -> None:
        self._number += 1
        path = self._folder / f"{self._number:04}-{service}.{operation}.json"
        path.write_text(json.dumps(anonymous(answer), indent=1, sort_keys=True) + "\n")


def run_module(name: str, **options: Any) -> dict[str, Any]:
    """Run a module of the collection in this process, and return its result. Raises RuntimeError if the module fails."""
    arguments = {**options, "_ansible_remote_tmp": "/tmp", "_ansible_check_mode": False}
    output = io.StringIO()
    module = importlib.import_module(f"{MODULES}.{name}")
    with patch_module_args(arguments), contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        module.main()
    result: dict[str, Any] = json.loads(output.getvalue())
    if result.get("failed"):
        raise RuntimeError(f"{name}: {result['msg']}")
    return result


def converge(name: str, **options: Any) -> dict[str, Any]:
    """Run a module twice, and return its first result. Raises RuntimeError if the second run would change anything.

    AWS may return what it stores in another form than the one in which it was sent.
    """
    result = run_module(name, **options)
    again = run_module(name, **options)
    if again["changed"]:
        raise RuntimeError(f"{name}: a second run changes what the first one made: {json.dumps(again.get('changes', again))}")
    return result


def _probes(session: boto3.Session, cluster: str) -> dict[str, Callable[[], Any]]:
    """Return calls that change nothing, by their IAM actions. Each policy allows one that no earlier policy allows."""
    ec2, ssm = session.client("ec2"), session.client("ssm")
    tags = [{"ResourceType": "vpc", "Tags": [{"Key": "deeplearning:cluster", "Value": cluster}]}]
    parameter = f"/deeplearning/{cluster}/ssh-authority"
    return {
        "ec2:DescribeInstances": ec2.describe_instances,
        "ec2:DescribeKeyPairs": ec2.describe_key_pairs,
        "autoscaling:DescribeScalingActivities": session.client("autoscaling").describe_scaling_activities,
        "ec2:CreateVpc": lambda: ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tags, DryRun=True),
        "ssm:ListTagsForResource": lambda: ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId=parameter),
        "ec2:DescribeVolumes": ec2.describe_volumes,
    }


def _is_allowed(call: Callable[[], Any]) -> bool:
    try:
        call()
    except ClientError as error:
        return error_code(error) not in DENIED
    return True


def _actions(policy: Mapping[str, Any]) -> set[str]:
    return {action for statement in policy["Statement"] for action in statement["Action"]}


class Administrator:
    """The caller, who creates the operator with the generated policies, and deletes what the collection never deletes."""

    def __init__(self, region: str, cluster: str) -> None:
        self.session = boto3.Session(region_name=region)
        self.region, self.cluster, self.name = region, cluster, f"{cluster}-operator"
        identity = self.session.client("sts").get_caller_identity()
        self.account, self.partition = identity["Account"], identity["Arn"].split(":")[1]
        self._arn = identity["Arn"]
        self._iam, self._ec2 = self.session.client("iam"), self.session.client("ec2")
        self._instances: list[str] = []
        self._created_policies: set[str] = set()

    @property
    def is_root(self) -> bool:
        return bool(self._arn.endswith(":root"))

    def create_operator(self) -> dict[str, str]:
        """Create a key pair, and a role with the generated policies. Return the environment variables of a session of the role.

        Wait until each policy is in effect.
        """
        specification = importlib.util.spec_from_file_location("iam_policies", Path(__file__).with_name("iam_policies.py"))
        assert specification
        assert specification.loader
        tool = importlib.util.module_from_spec(specification)
        sys.modules["iam_policies"] = tool
        specification.loader.exec_module(tool)
        policies = tool.policies(tool.Account(self.cluster, partition=self.partition))
        trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:{self.partition}:iam::{self.account}:root"}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        self._iam.create_role(RoleName=self.name, AssumeRolePolicyDocument=document)
        self._ec2.create_key_pair(KeyName=self.name)
        operator = self.assume_operator()
        keys = dict(zip(("aws_access_key_id", "aws_secret_access_key", "aws_session_token"), operator.values(), strict=True))
        probes = _probes(boto3.Session(region_name=self.region, **keys), self.cluster)
        own = [name for playbook in PLAYBOOKS for name in policies if name.split("-")[0] == playbook]
        attached = set[str]()
        for name in own:
            text = json.dumps(policies[name], separators=(",", ":"))
            arn = self._iam.create_policy(PolicyName=f"{self.name}-{name}", PolicyDocument=text)["Policy"]["Arn"]
            self._created_policies.add(arn)
            self._iam.attach_role_policy(RoleName=self.name, PolicyArn=arn)
            action = next(action for action in probes if action in _actions(policies[name]) - attached)
            if not eventually(lambda call=probes[action]: _is_allowed(call), POLICY_TIMEOUT):  # type: ignore[misc]
                raise RuntimeError(f"{action} is not allowed within {POLICY_TIMEOUT} s after the policy {name} was attached")
            attached |= _actions(policies[name])
        return operator

    def assume_operator(self) -> dict[str, str]:
        """Return the environment variables of a new session of the role, which lasts for an hour."""
        role, sts = f"arn:{self.partition}:iam::{self.account}:role/{self.name}", self.session.client("sts")
        given = eventually(lambda: sts.assume_role(RoleArn=role, RoleSessionName="first-account")["Credentials"], POLICY_TIMEOUT)
        names = {"AWS_ACCESS_KEY_ID": "AccessKeyId", "AWS_SECRET_ACCESS_KEY": "SecretAccessKey", "AWS_SESSION_TOKEN": "SessionToken"}
        return {variable: given[key] for variable, key in names.items()}

    def read_host_keys(self, template: str, subnet: str) -> list[str]:
        """Launch one t3.micro with the image of the template, and return the host keys in its console output."""
        ec2 = self._ec2
        version = ec2.describe_launch_template_versions(LaunchTemplateId=template, Versions=["$Latest"])["LaunchTemplateVersions"][0]
        request = {"ImageId": version["LaunchTemplateData"]["ImageId"], "InstanceType": "t3.micro", "SubnetId": subnet}
        instance = ec2.run_instances(MinCount=1, MaxCount=1, **request)["Instances"][0]["InstanceId"]
        self._instances.append(instance)
        ec2.get_waiter("instance_running").wait(InstanceIds=[instance])

        def printed() -> list[str]:
            return host_keys(str(ec2.get_console_output(InstanceId=instance, Latest=True).get("Output", "")))

        found: list[str] = eventually(printed, CONSOLE_TIMEOUT)
        if not found:
            raise RuntimeError(f"{instance} printed no SSH host keys within {CONSOLE_TIMEOUT} s")
        return found

    def terminate_instances(self) -> None:
        if self._instances:
            self._ec2.terminate_instances(InstanceIds=self._instances)
            self._ec2.get_waiter("instance_terminated").wait(InstanceIds=self._instances)

    def delete_bucket(self, name: str) -> None:
        s3 = self.session.client("s3")
        with contextlib.suppress(s3.exceptions.NoSuchBucket):
            s3.delete_bucket(Bucket=name)

    def delete_operator(self) -> None:
        self._ec2.delete_key_pair(KeyName=self.name)
        missing = self._iam.exceptions.NoSuchEntityException
        pages = self._iam.get_paginator("list_policies").paginate(Scope="Local")
        # The list may lack policies that this run has just created.
        listed = {each["Arn"] for page in pages for each in page["Policies"] if each["PolicyName"].startswith(f"{self.name}-")}
        for arn in sorted(listed | self._created_policies):
            with contextlib.suppress(missing):  # a policy that is not attached
                self._iam.detach_role_policy(RoleName=self.name, PolicyArn=arn)
            with contextlib.suppress(missing):
                self._iam.delete_policy(PolicyArn=arn)
        with contextlib.suppress(missing):
            self._iam.delete_role(RoleName=self.name)


def eventually(call: Callable[[], Any], timeout: float) -> Any:
    """Repeat `call` until it returns a truthy value. After `timeout` seconds, raise the last error, or return the last value."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            value = call()
            if value or time.monotonic() > deadline:
                return value
        except ClientError:
            if time.monotonic() > deadline:
                raise
        time.sleep(1)


def steps(administrator: Administrator, bucket: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what an operator with the generated policies does, each step with its description."""
    cluster = {"cluster": administrator.cluster, "region": administrator.region}
    network = {**cluster, "nat": "none", "ssh_cidrs": ["203.0.113.0/24"]}
    nodes = {**cluster, "worker_count": 1, "wait": False, "suppress_validators": SUPPRESSED, "key_name": administrator.name}
    made: dict[str, Any] = {}
    yield "Validate a definition", lambda: run_module("cluster_validation", **{**network, **nodes, "instance_type": "g5.xlarge"})
    yield "Create the network", lambda: made.update(converge("cluster", components=["network"], **network)["resources"])
    yield "Create an empty EFS file system with a mount target", lambda: converge("cluster", components=["file_system"], **cluster)
    yield "Create the instance role", lambda: converge("cluster", components=["instance_role"], **cluster)
    yield "Create the SSH authority in Parameter Store", lambda: converge("ssh_authority", **cluster)
    yield "Create a bucket", lambda: converge("dataset_bucket", **cluster, bucket=bucket)
    for name, market in (("p5.48xlarge", {"efa": True, "market": "spot", "spot_max_price": "1.50"}), ("g5.xlarge", {})):
        options = {**nodes, **market, "components": ["workers"], "instance_type": name}
        yield (
            f"Create an Auto Scaling group of size 0 with {name}",
            lambda given=options: made.update(run_module("cluster", **given)["resources"]),
        )
    yield (
        "Read the console output of one t3.micro",
        lambda: administrator.read_host_keys(made["launch_template"]["workers"], next(iter(made["subnet"].values()))),
    )


def delete(administrator: Administrator, bucket: str, *, as_operator: bool) -> list[str]:
    """Delete everything, and return what could not be deleted. Keep the operator if it could not delete the cluster."""
    cluster = {"cluster": administrator.cluster, "region": administrator.region}
    actions: list[tuple[str, Callable[[], Any]]] = [("the t3.micro", administrator.terminate_instances)]
    if as_operator:
        actions += [
            ("the cluster", lambda: run_module("cluster", **cluster, state="absent", delete_data=True)),
            ("the SSH authority", lambda: run_module("ssh_authority", **cluster, state="absent")),
        ]
    actions.append((f"the bucket {bucket}", lambda: administrator.delete_bucket(bucket)))
    left = list(_failures(actions))
    if any(name in ("the cluster", "the SSH authority") for name, _error in left):
        print(
            f"The role {administrator.name} is kept. Delete the rest with it, and then the role, its policies and its key pair.", flush=True
        )
    else:
        left += _failures([("the operator", administrator.delete_operator)])
    return [f"{name}: {error}" for name, error in left]


def _failures(actions: Iterable[tuple[str, Callable[[], Any]]]) -> Iterator[tuple[str, Exception]]:
    for name, action in actions:
        print(f"Delete {name}", flush=True)
        try:
            action()
        except Exception as error:
            yield name, error


def check(administrator: Administrator) -> list[str]:
    """Run all steps, delete everything, and return the problems."""
    bucket, operator, problems = f"{administrator.cluster}-{secrets.token_hex(4)}", dict[str, str](), list[str]()
    try:
        operator = administrator.create_operator()
        with patch.dict(os.environ, operator):
            os.environ.pop("AWS_PROFILE", None)
            for name, action in steps(administrator, bucket):
                print(name, flush=True)
                action()
    except (Exception, KeyboardInterrupt) as error:
        problems.append(f"{type(error).__name__}: {error}")
    try:
        operator = operator and administrator.assume_operator()  # the first session may have expired
    except (ClientError, KeyboardInterrupt) as error:
        problems.append(f"{type(error).__name__}: {error}")
    with patch.dict(os.environ, operator):
        if operator:
            os.environ.pop("AWS_PROFILE", None)
        problems += [f"Could not delete {each}" for each in delete(administrator, bucket, as_operator=bool(operator))]
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--region", required=True)
    parser.add_argument("--cluster", default="first-account", help="name of the cluster, which must not exist")
    parser.add_argument("--output", type=Path, default=Path("first-account-answers"), help="new folder for the answers of AWS")
    parser.add_argument("--yes", action="store_true", help="do not ask before resources are created")
    arguments = parser.parse_args()
    administrator = Administrator(arguments.region, arguments.cluster)
    if administrator.is_root:
        parser.error("the root user cannot assume a role. Use the credentials of an administrator who is an IAM user or a role")
    print(__doc__)
    print(f"Account {administrator.account}, region {arguments.region}, cluster {arguments.cluster}, answers in {arguments.output}.")
    if not arguments.yes and input("Create these resources? [y/N] ").strip().lower() != "y":
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    recorder = Recorder(arguments.output)

    def call(client: Any, *others: Any) -> Any:
        """Record a call. As an attribute of the class, the recorder's own method would not get the client."""
        return recorder.call(client, *others)

    with patch.object(botocore.client.BaseClient, "_make_api_call", call):
        problems = check(administrator)
    print("\n".join(problems) or "All steps succeeded, and everything is deleted.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
