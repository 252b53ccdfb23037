"""Every option of the module `cluster`: a change is predicted, reported and applied, and the next run has nothing to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import AwsClient
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role.definition import trust_policy
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_names import NODE_TYPES
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import UpdatePolicy
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import OPTIONS, options_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import KNOWN_AFTER_APPLY
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision.components import CHOICES
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.tags import NODES_COMPONENT

from .clusters import numbers
from .conftest import IMAGE_PARAMETER, KEY_NAME, ModuleFailed

POLICIES = {option.name: option.update.policy for option in OPTIONS}
BASE_IMAGE = IMAGE_PARAMETER.replace("oss-nvidia-driver-gpu-pytorch-2.7", "base-oss-nvidia-driver-gpu")
ELSEWHERE = r"elete the cluster \(the data is kept\) and create it again"
COPY = r"copy the data to a new file system and adopt it"


class Account:
    """Resources in the account that cluster options can name. Each resource is created when a value first needs it, and is then reused."""

    def __init__(self, cloud: Any, name: str, landlord: Callable[..., Any]) -> None:
        self.cloud, self.name, self._landlord, self._made = cloud, name, landlord, dict[Any, Any]()

    def once(self, what: Any, make: Callable[[], Any]) -> Any:
        if what not in self._made:
            self._made[what] = make()
        return self._made[what]

    def values(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options. Values that are functions of the account are replaced with their results."""
        return {option: value(self) if callable(value) else value for option, value in options.items()}

    def ec2(self, call: str, **arguments: Any) -> Any:
        return getattr(self.cloud.client("ec2"), call)(**arguments)

    @property
    def bucket(self) -> str:
        return self.once("bucket", lambda: self.cloud.client("s3").create_bucket(Bucket=f"{self.name}-data") and f"{self.name}-data")

    @property
    def kms_key(self) -> str:
        return self.once("key", lambda: self.cloud.client("kms").create_key()["KeyMetadata"]["KeyId"])

    @property
    def owner(self) -> Any:
        """Another owner's network in two zones, with three private and three public subnets."""
        return self.once("owner", lambda: self._landlord(("us-east-1a", "us-east-1b", "us-east-1a"), nat=False))

    @property
    def key_pair(self) -> str:
        return self.once("key pair", lambda: self.ec2("create_key_pair", KeyName=self.name)["KeyName"])

    @property
    def private_key_file(self) -> str:
        def make() -> str:
            pair = self.ec2("describe_key_pairs", KeyNames=[KEY_NAME], IncludePublicKey=True)["KeyPairs"][0]
            file = Path(self.cloud.environment["LOCAL_CLOUD_HOME"], f"{self.name}.pub")
            file.write_text(pair["PublicKey"])
            return str(file)

        return self.once("private key", make)

    @property
    def placement_group(self) -> str:
        name = f"{self.name}-theirs"
        return self.once("placement group", lambda: self.ec2("create_placement_group", GroupName=name, Strategy="cluster") and name)

    @property
    def instance_profile(self) -> str:
        def make() -> str:
            iam, name = self.cloud.client("iam"), f"{self.name}-theirs"
            iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust_policy("us-east-1")))
            iam.create_instance_profile(InstanceProfileName=name)
            iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
            return name

        return self.once("profile", make)

    @property
    def boundary(self) -> str:
        def make() -> str:
            document = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]})
            create = self.cloud.client("iam").create_policy
            return str(create(PolicyName=f"{self.name}-boundary", PolicyDocument=document)["Policy"]["Arn"])

        return self.once("boundary", make)

    @property
    def file_system(self) -> str:
        token = f"{self.name}-theirs"
        return self.once("efs", lambda: self.cloud.client("efs").create_file_system(CreationToken=token)["FileSystemId"])

    @property
    def lustre(self) -> str:
        place = {"StorageCapacity": 1200, "SubnetIds": self.owner.private[:1], "LustreConfiguration": {"DeploymentType": "SCRATCH_2"}}
        create = self.cloud.client("fsx").create_file_system
        return self.once("fsx", lambda: create(FileSystemType="LUSTRE", **place)["FileSystem"]["FileSystemId"])

    @property
    def topic(self) -> str:
        return self.once("topic", lambda: self.cloud.client("sns").create_topic(Name=self.name)["TopicArn"])

    def image(self, parameter: str) -> str:
        return self.cloud.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]

    def reservation(self, number: int) -> str:
        what = {"InstanceType": "c5.large", "InstancePlatform": "Linux/UNIX", "AvailabilityZone": "us-east-1a", "InstanceCount": 4}
        create = self.cloud.client("ec2").create_capacity_reservation
        return self.once(number, lambda: create(**what, InstanceMatchCriteria="targeted")["CapacityReservation"]["CapacityReservationId"])


@dataclass(frozen=True)
class Field:
    """Two values to test for one option, and the expected effect of changing the first to the second.

    Values are literals or functions of the account. `shows` is a pattern for the line of the plan that shows the change: `ACTION KIND KEY
    PROPERTY: AFTER`. `waits` is a pattern for the changes that are deferred until nodes are replaced, and `refusal` is a pattern for the
    error message. Without `first`, the option is unset before the change.
    """

    scenario: str = "own network"
    first: Any = None
    second: Any = None
    shows: str = ""
    waits: str = ""
    refusal: str = ""


def links(path: str, prefix: str = "") -> Callable[[Account], list[dict[str, Any]]]:
    return lambda account: [{"path": path, "s3": f"s3://{account.bucket}{prefix or path}"}]


SCENARIOS: dict[str, dict[str, Any]] = {
    "own network": {"lustre": True, "market": "spot", "placement": "none"},
    "adopted network": {"vpc_id": lambda account: account.owner.vpc, "throughput_mode": "provisioned", "image_parameter": None},
    "adapters": {"image_parameter": None, "zones": ["us-east-1a", "us-east-1b"]},
    "shared file system": {"file_system_id": lambda account: account.file_system},
    "reserved": {"image_framework": "pytorch", "image_parameter": None, "market": "capacity-reservation"},
}

FIELDS = {
    "tags": Field(first={"team": "speech"}, second={"team": "vision"}, shows="update vpc main tags: .*vision"),
    "suppress_validators": Field(second=["buckets"]),
    "prices": Field(first=False, second=True),  # without them, no price can be enforced
    "price_warning": Field(second=1000.0),
    "lease": Field(first="8h", second="1d12h", shows="update node_lease main lease: .129600 s"),
    "idle_after": Field(first="30m", second="1h", shows="update idle_end main function: .*3600"),
    "idle_then": Field(first="terminate", second="notify", shows="update idle_end main function: .*notify"),
    "start_again": Field(second=True),
    "keep_ends": Field(second=True),
    "lease_minimum": Field(second=3600),
    "enforce_price_warning": Field(second=True),
    "known_instances": Field(second=["i-0123456789abcdef0"]),
    "wait": Field(second=False),
    "wait_timeout": Field(first=30, second=31),
    # Network
    "vpc_id": Field(second=lambda account: account.owner.vpc, refusal=rf"vpc_id: .* cannot move to vpc-\w+\..*{ELSEWHERE}"),
    "public_subnet_ids": Field(
        "adopted network",
        first=lambda account: account.owner.public[:1],
        second=lambda account: account.owner.public[1:],
        shows="update auto_scaling_group master subnets",
    ),
    "private_subnet_ids": Field(
        "adopted network",
        first=lambda account: account.owner.private[:1],
        second=lambda account: account.owner.private[:2],
        shows="create mount_target us-east-1b subnet",
    ),
    "security_group_ids": Field(
        "adopted network",
        second=lambda account: {"nodes": account.once("group", lambda: account.owner.group("theirs", ("tcp", 0, 65535, "")))},
        refusal=rf"security_group_ids: the cluster has its own group for nodes, which cannot be replaced with sg-\w+\..*{ELSEWHERE}",
    ),
    "master_public_address": Field(
        second=False, shows="update launch_template master public_address: false", waits="auto_scaling_group master subnets"
    ),
    "network_cidr": Field(second="10.1.0.0/16", refusal=f"cidr is .* cannot be changed to '10.1.0.0/16'.*{ELSEWHERE}"),
    "private_subnet_cidrs": Field(
        second={"us-east-1a": "10.0.64.0/24"}, refusal=f"private-us-east-1a: cidr is .* cannot be changed to '10.0.64.0/24'.*{ELSEWHERE}"
    ),
    "public_subnet_cidrs": Field(
        second={"us-east-1a": "10.0.192.0/24"}, refusal=f"public-us-east-1a: cidr is .* cannot be changed to '10.0.192.0/24'.*{ELSEWHERE}"
    ),
    "zones": Field(first=["us-east-1a"], second=["us-east-1a", "us-east-1b"], shows="update auto_scaling_group workers subnets"),
    "ssh_cidrs": Field(first=["203.0.113.0/24"], second=["198.51.100.0/24"], shows="security_group ssh ingress: .*198.51"),
    "allow_ssh_from_anywhere": Field(second=True),
    "nat": Field(second="per_zone", shows="create nat_gateway us-east-1a subnet"),
    "interface_endpoints": Field(second=["logs"], shows="create vpc_endpoint logs service"),
    # Storage
    "kms_key_id": Field(second=lambda account: account.kms_key, refusal=f"kms_key is .* cannot be changed to.*{COPY}"),
    "delete_data": Field(second=True),
    "efs": Field(second=False, refusal=rf"file_system_id: running nodes have .*to none.*{ELSEWHERE}"),
    "file_system_id": Field(second=lambda account: account.file_system, refusal=rf"file_system_id: running nodes have .*{ELSEWHERE}"),
    "encrypted": Field(second=False, refusal=f"encrypted is True and cannot be changed to False.*{COPY}"),
    "performance_mode": Field(second="maxIO", refusal=f"performance_mode is .* cannot be changed to 'maxIO'.*{COPY}"),
    "throughput_mode": Field(second="elastic", shows="update file_system main throughput_mode"),
    "provisioned_throughput": Field(
        "adopted network", first=64, second=128.5, shows="update file_system main provisioned_throughput: 128.5"
    ),
    "lustre": Field(
        "adopted network",
        second=True,
        shows="update launch_template workers user_data: .*(known after| lustre )",
        waits="auto_scaling_group .* tags",
    ),
    "lustre_file_system_id": Field(
        second=lambda account: account.lustre, refusal=rf"lustre_file_system_id: running nodes have .*{ELSEWHERE}"
    ),
    "lustre_capacity": Field(second=2400, shows="update lustre_file_system main capacity: 2400"),
    "lustre_deployment": Field(second="SCRATCH_2", refusal=f"deployment is .* cannot be changed to 'SCRATCH_2'.*{COPY}"),
    "lustre_throughput": Field(second=500, shows="update lustre_file_system main throughput: 500"),
    "lustre_compression": Field(second="NONE", shows="update lustre_file_system main compression"),
    "lustre_data_repositories": Field(first=links("/train"), second=links("/test"), shows="create data_repository_association /test s3"),
    # Role
    "instance_profile": Field(
        "adopted network",
        second=lambda account: account.instance_profile,
        shows="update launch_template master instance_profile: .*-theirs",
    ),
    "read_buckets": Field(second=["to-read"], shows="update role nodes policy: .*s3:::to-read/"),
    "write_buckets": Field(second=["to-write"], shows="update role nodes policy: .*s3:PutObject"),
    "export_destinations": Field(
        second=lambda account: [f"s3://{account.bucket}/jobs"], shows="update role nodes policy: .*s3:AbortMultipartUpload"
    ),
    "additional_policy_statements": Field(
        second=[{"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"}],
        shows="update role nodes policy: .*ecr:GetAuthorizationToken",
    ),
    "permissions_boundary": Field(
        second=lambda account: account.boundary,
        shows="update role nodes permissions_boundary: .*-boundary",
    ),
    "session_manager": Field(second=True, shows="update role nodes policy: .*ssmmessages"),
    # Nodes
    "instance_type": Field(
        "adapters", first="c5n.9xlarge", second="c5n.18xlarge", shows="launch_template master instance_type: .*c5n.18xlarge"
    ),
    "worker_count": Field(first=2, second=1, shows="update auto_scaling_group workers size: 3"),  # with the spares
    "worker_minimum": Field(second=1),
    "spares": Field(second=2, shows="update auto_scaling_group workers size: 3"),
    "market": Field("adapters", second="spot", shows="update launch_template workers market: .*spot"),
    "master_market": Field("reserved", second="on-demand", shows="update launch_template master market: .*on-demand"),
    "spot_max_price": Field(first="1.50", second="2.5", shows="update launch_template workers spot_max_price: .*2.5"),
    "capacity_reservation_id": Field(
        "reserved",
        first=lambda account: account.reservation(1),
        second=lambda account: account.reservation(2),
        shows="update launch_template workers capacity_reservation",
    ),
    "alternatives": Field(second=[{"instance_type": "c5.2xlarge"}]),
    "capacity_timeout": Field(second=30),
    "grow": Field(second=True),
    "replace_nodes": Field(second=True),
    "allow_outdated_nodes": Field(second=True),
    "progress_file": Field(second="/dev/null"),
    "private_key_file": Field(second=lambda account: account.private_key_file),
    "image_id": Field(
        "adopted network",
        first=lambda account: account.image(IMAGE_PARAMETER),
        second=lambda account: account.image(BASE_IMAGE),
        shows="update launch_template master image_id",
    ),
    "image_parameter": Field(first=IMAGE_PARAMETER, second=BASE_IMAGE, shows="update launch_template master image_id"),
    "image_framework": Field(
        "adapters",
        first="pytorch",
        second="base",
        shows="update launch_template workers image_id",
    ),
    "image_os": Field("reserved", second="amazon-linux-2023", shows="update launch_template workers image_id"),
    "image_update": Field(second=True),
    "key_name": Field(first=KEY_NAME, second=lambda account: account.key_pair, shows="update launch_template master key_name"),
    "root_volume_size": Field("adopted network", second=200, shows="update launch_template master root_volume_size: 200"),
    "root_volume_type": Field("adapters", second="gp2", shows="update launch_template master root_volume_type: .*gp2"),
    "root_volume_iops": Field("adopted network", second=4000, shows="update launch_template master root_volume_iops: 4000"),
    "root_volume_throughput": Field(second=250, shows="update launch_template master root_volume_throughput: 250"),
    "root_volume_kms_key": Field(
        "adopted network", second=lambda account: account.kms_key, shows="update launch_template workers root_volume_kms_key"
    ),
    "additional_security_group_ids": Field(
        "adopted network",
        second=lambda account: [account.once("group", lambda: account.owner.group("more"))],
        shows="update launch_template workers security_groups",
    ),
    "metadata_hop_limit": Field(second=2, shows="update launch_template workers metadata_hop_limit: 2"),
    "notify_topic": Field(second=lambda account: account.topic, shows="update auto_scaling_group master notifications: .*TERMINATE"),
    "efa": Field("adapters", second=True, shows="update launch_template workers interfaces: .*efa"),
    "placement": Field("reserved", second="cluster", shows="update launch_template workers placement_group"),
    "placement_group": Field(
        "adapters",
        second=lambda account: account.placement_group,
        shows="update launch_template workers placement_group: .*theirs",
    ),
    "login_user": Field(second="admin", shows="update launch_template workers user_data: .*admin"),
    "mount_point": Field("reserved", second="/shared", shows="update launch_template workers user_data: .* /shared nfs4 "),
    "file_system_directory": Field(
        "shared file system",
        first="/teams/bert",
        second="/teams/gpt",
        shows="update launch_template workers user_data: .*(known after|fsap-)",
    ),
    "encrypt_in_transit": Field(second=False, shows="update launch_template workers user_data: .*add 'fs-[0-9a-f]+[.]efs"),
    "bucket_mount": Field(
        second=lambda account: f"s3://{account.bucket}/train",
        shows="update launch_template workers user_data: .*s3://[^ ]+-data/train/ ",
    ),
    "bucket_mount_point": Field(second="/objects", shows="update launch_template workers user_data: .* /objects mount-s3 "),
    "lustre_mount_point": Field(second="/scratch", shows="update launch_template workers user_data: .* /scratch lustre "),
}

FURTHER = [
    # Invalid values for options whose values can be changed
    ("own network", {"lustre": False}, rf"lustre_file_system_id: running nodes have .* to none.*{ELSEWHERE}"),
    ("own network", {"lustre_data_repositories": links("/train", "/elsewhere")}, "s3 is .* cannot be changed to.*Remove this path from"),
    (
        "adopted network",
        {"private_subnet_ids": lambda account: account.owner.private[2:]},
        rf"mount_target us-east-1a: subnet is .*{ELSEWHERE}",
    ),
]


# What a run manages: the whole cluster, or one component or group of nodes, by the choices of `components`.
VIA = {"cluster": [CHOICES], "components": [(choice,) for choice in CHOICES]}


def options_for(choices: Sequence[str]) -> set[str]:
    """Return the names of the options that a run with these choices of `components` has."""
    parts = ("",) if choices == CHOICES else {NODES_COMPONENT if choice in NODE_TYPES else choice for choice in choices}
    return {option.name for part in parts for option in options_of(part)}


def test_every_option_is_in_the_table():
    """The options of EMR clusters are tested in test_emr.py."""
    assert set(FIELDS) == {option.name for option in options_of() if option.update.policy is not UpdatePolicy.SUBJECT}


def fields(scenario: str, *policies: UpdatePolicy) -> dict[str, Field]:
    """Return the scenario's fields whose options have one of these update policies."""
    return {option: item for option, item in FIELDS.items() if item.scenario == scenario and POLICIES[option] in policies}


def concerned(scenario: str, via: str) -> list[Sequence[str]]:
    """Return the choices of `components` for the runs that have an option of this scenario."""
    changed = {option for option, item in FIELDS.items() if item.scenario == scenario}
    return [choices for choices in VIA[via] if changed & options_for(choices)]


def agrees(predicted: Any, applied: Any) -> bool:
    """Return whether applied values match predicted ones. "(known after apply)" matches any value or, in a list, one or more values."""
    if predicted == KNOWN_AFTER_APPLY:
        return True
    if isinstance(predicted, dict) and isinstance(applied, dict):
        return predicted.keys() == applied.keys() and all(agrees(value, applied[key]) for key, value in predicted.items())
    if isinstance(predicted, list) and isinstance(applied, list) and KNOWN_AFTER_APPLY in predicted:
        return len(applied) >= len(predicted) and all(value in applied for value in predicted if value != KNOWN_AFTER_APPLY)
    if isinstance(predicted, list) and isinstance(applied, list):
        return len(applied) == len(predicted) and all(map(agrees, predicted, applied))
    return bool(predicted == applied)


def plan(result: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    return [sorted(result[part], key=lambda change: (change["action"], change["kind"], change["key"])) for part in ("changes", "deferred")]


def parts(results: list[dict[str, Any]]) -> list[str]:
    """Return the applied changes and the deferred changes, each as text with one line per property."""
    assert {change["policy"] for result in results for change in result["deferred"]} <= {"replace"}
    return [
        "\n".join(
            f"{change['action']} {change['kind']} {change['key']} {name}: {json.dumps(value)}"
            for result in results
            for change in result[part]
            for name, value in change["after"].items()
        )
        for part in ("changes", "deferred")
    ]


def properties(lines: str) -> set[str]:
    return {line.split(": ")[0] for line in lines.splitlines()}


class Tour:
    """The runs of a test: one for the whole cluster, or one for each component, one after the other."""

    def __init__(self, cloud: Any, run: Callable[..., Any], runs: list[Sequence[str]]) -> None:
        self._cloud, self._run, self._runs = cloud, run, runs

    def _each(self, options: Mapping[str, Any], changed: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the options of each run that has all changed options."""
        return ({**options, **changed, "components": choices} for choices in self._runs if changed.keys() <= options_for(choices))

    def offers(self, option: str) -> bool:
        return any(option in options_for(choices) for choices in self._runs)

    def _writes(self) -> list[str]:
        return [call["action"] for call in self._cloud.control.calls() if not call["read_only"]]

    def go(self, options: Mapping[str, Any], **changed: Any) -> list[dict[str, Any]]:
        """Make the runs and return their results. Verify that check mode predicts the same plans."""
        results = []
        for arguments in self._each(options, changed):
            predicted = self._run("cluster", **arguments, check=True)
            results.append(self._run("cluster", **arguments))
            assert agrees(plan(predicted), plan(results[-1])), (arguments["components"], plan(predicted), plan(results[-1]))
        return results

    def rest(self, options: Mapping[str, Any]) -> None:
        """Verify that another run has nothing to do."""
        self._cloud.control.forget_calls()
        assert [(each["changed"], *plan(each)) for each in self.go(options)] == [(False, [], [])] * len(self._runs)
        assert self._writes() == []

    def refuse(self, options: Mapping[str, Any], change: Mapping[str, Any], message: str) -> None:
        """Verify that every run that has the changed options refuses the change, with and without check mode."""
        self._cloud.control.forget_calls()
        for arguments in self._each(options, change):
            for check in (True, False):
                assert re.search(message, self._refusal(arguments, check), re.DOTALL), (arguments["components"], change)
        assert self._writes() == []

    def _refusal(self, arguments: Mapping[str, Any], check: bool) -> str:
        try:
            self._run("cluster", **arguments, check=check)
        except ModuleFailed as failure:
            return str(failure)
        return "not refused"


@pytest.mark.exhaustive
@pytest.mark.parametrize("via", VIA)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_changing_does(cloud, run, definition, name, landlord, monkeypatch, scenario, via):
    monkeypatch.setattr(AwsClient, "now", datetime.now(UTC))  # so that a lease is predicted to the second
    cloud.control.set_delays(schedule_latency=3600)  # the function that looks for idle nodes makes no calls of its own
    account, tour = Account(cloud, name, landlord), Tour(cloud, run, concerned(scenario, via))
    firsts = {option: item.first for option, item in FIELDS.items() if item.scenario == scenario and item.first is not None}
    before = account.values({**definition, "worker_count": 1, "suppress_validators": ["vcpu_quota"], **SCENARIOS[scenario], **firsts})
    run("cluster", **before)

    refused = [({option: item.second}, item.refusal) for option, item in fields(scenario, UpdatePolicy.FORBIDDEN).items()]
    refused += [(change, message) for where, change, message in FURTHER if (where, via) == (scenario, "cluster")]
    for change, message in refused:
        tour.refuse(before, account.values(change), message)
    tour.rest({**before, **account.values({option: item.second for option, item in fields(scenario, UpdatePolicy.NOT_STORED).items()})})

    changing = fields(scenario, UpdatePolicy.IN_PLACE, UpdatePolicy.REPLACES_NODES)
    after = {**before, **account.values({option: item.second for option, item in changing.items() if tour.offers(option)})}
    now, later = parts(tour.go(after))
    missing = [option for option, item in fields(scenario, UpdatePolicy.IN_PLACE).items() if not re.search(item.shows, now)]
    missing += [option for option, item in fields(scenario, UpdatePolicy.REPLACES_NODES).items() if not re.search(item.shows, later)]
    assert [option for option in missing if tour.offers(option)] == []
    assert [
        option for option, item in fields(scenario, UpdatePolicy.REPLACES_NODES).items() if item.waits and re.search(item.waits, now)
    ] == []
    waiting = properties(later)
    if via == "cluster":
        now, later = parts(tour.go(after))
        assert (now, properties(later)) == ("", waiting), "deferred changes are reported again"

    old = numbers(cloud, name)
    now, later = parts(tour.go(after, replace_nodes=True))
    assert properties(now) >= waiting
    assert later == ""
    new = numbers(cloud, name)
    assert not old.keys() & new.keys()
    assert sorted(old.values()) == sorted(new.values())
    if via == "components":  # nodes are replaced last, so earlier runs may keep resources that old nodes use
        assert {change["action"] for result in tour.go(after) for change in result["changes"]} <= {"delete"}
    tour.rest(after)
    # Only runs for all nodes manage what ends the nodes
    ends = {"node_lease", "idle_end"} if via == "components" else set()
    assert {change["kind"] for change in run("cluster", **after)["changes"]} <= ends
    run("cluster", **after, state="absent", delete_data=True)
