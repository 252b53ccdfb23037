# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""EMR clusters, their steps, and EMR's default roles, in the form that the plan compares and in the form that requests contain.

Performs no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Tuple

from ..idle.definition import parse
from ..plan.resources import Address, Ref, Wanted
from ..policy_documents import listed
from ..regions import partition_of

CLUSTER = Address("emr_cluster", "main")
SERVICE_ROLE = Address("emr_role", "service")
NODES_ROLE = Address("emr_role", "nodes")
INSTANCE_PROFILE = Address("emr_instance_profile", "nodes")
# The state of a cluster whose instance groups have all their nodes.
READY = "ready"
DEFAULT_SERVICE_ROLE, DEFAULT_PROFILE = "EMR_DefaultRole", "EMR_EC2_DefaultRole"
# The AWS managed policies of the default roles, as `aws emr create-default-roles` attaches them.
MANAGED_POLICIES = {SERVICE_ROLE: "AmazonElasticMapReduceRole", NODES_ROLE: "AmazonElasticMapReduceforEC2Role"}
SERVICES = {SERVICE_ROLE: "elasticmapreduce", NODES_ROLE: "ec2"}
NAMES = {SERVICE_ROLE: DEFAULT_SERVICE_ROLE, NODES_ROLE: DEFAULT_PROFILE}
# Properties of clusters that EMR changes in place. EMR cannot change the number of core nodes from 0 or to 0.
IN_PLACE = frozenset(
    {
        "core_count",
        "idle_seconds",
        "is_recorded",
        "nodes_without_number",
        "state",
        "surplus_nodes",
        "tags",
        "task_count",
        "termination_protection",
    }
)
# For how long a cluster can be idle before EMR terminates it. Source: Amazon EMR API Reference, AutoTerminationPolicy.
LEAST_IDLE, MOST_IDLE = "1m", "7d"
# A volume: its type, its size in GiB, its IOPS, and its throughput in MiB/s, the latter two as far as they are known.
Volume = Tuple[str, int, Optional[int], Optional[int]]
UNKNOWN_VOLUMES = (None,)
# Prefixes in the names of instance group properties.
GROUPS = {"MASTER": "master", "CORE": "core", "TASK": "task"}
SECURITY_GROUPS = {
    "master": "EmrManagedMasterSecurityGroup",
    "workers": "EmrManagedSlaveSecurityGroup",
    "service": "ServiceAccessSecurityGroup",
}
ADDITIONAL_GROUPS = {"master": "AdditionalMasterSecurityGroups", "workers": "AdditionalSlaveSecurityGroups"}


def step(name: str) -> Address:
    return Address("emr_step", name)


def wanted_cluster(
    options: Mapping[str, Any], tags: Callable[[Address], dict[str, str]], *, has_task_group: bool, after: Sequence[Address] = ()
) -> Wanted:
    """Return the desired cluster.

    The plan compares the instance type of task nodes only if a task group exists, because EMR can add the first task group in place.
    """
    core, task = options["emr_core_count"], options["emr_task_count"]
    task_type = options["emr_task_instance_type"] or options["emr_instance_type"]
    properties = {
        "release_label": options["emr_release_label"],
        "image_id": options["emr_image_id"],
        "master_instance_type": options["emr_instance_type"],
        "core_instance_type": (options["emr_core_instance_type"] or options["emr_instance_type"]) if core else None,
        "core_count": core,
        "task_instance_type": task_type if task and has_task_group else None,
        "task_count": task,
        "service_role": options["emr_service_role"],
        "instance_profile": options["emr_instance_profile"],
        "key_name": options["emr_key_name"],
        "subnet": options["emr_subnet_id"],
        **_security_groups(options),
        "bootstrap_actions": [{key: each[key] for key in ("name", "path", "args")} for each in options["emr_bootstrap_actions"]],
        "root_volume_size": options["emr_root_volume_size"],
        "log_uri": options["emr_log_uri"],
        "applications": frozenset(options["emr_applications"]) or None,
        "termination_protection": options["emr_termination_protection"],
        "idle_seconds": idle_seconds(options["emr_idle_after"]) if options["emr_idle_after"] else 0,
        "tags": tags(CLUSTER),
        "is_recorded": True,
        "state": READY if options["wait"] else None,
        "nodes_without_number": () if options["wait"] else None,
        "surplus_nodes": (),
    }
    return Wanted(CLUSTER, properties, tuple(after), {"task_instance_type": task_type})


def idle_seconds(text: str) -> int:
    """Return the number of seconds after which EMR terminates an idle cluster. Raises ValueError."""
    return round(parse(text, LEAST_IDLE, MOST_IDLE).total_seconds())


def _security_groups(options: Mapping[str, Any]) -> dict[str, Any]:
    groups, additional = options["emr_security_group_ids"], options["emr_additional_security_group_ids"]
    return {
        **{f"{name}_security_group": groups.get(name) for name in SECURITY_GROUPS},
        **{f"additional_{name}_security_groups": frozenset(additional.get(name) or ()) for name in ADDITIONAL_GROUPS},
    }


def wanted_steps(options: Mapping[str, Any]) -> list[Wanted]:
    """Return the desired steps. A run adds the steps one after another, because EMR runs steps in the order in which they were added."""
    result = list[Wanted]()
    for each in options["emr_steps"]:
        after = (CLUSTER, *(previous.address for previous in result[-1:]))
        properties = {name: each[name] for name in ("jar", "args", "on_failure")}
        result.append(Wanted(step(each["name"]), properties, after, {"cluster": Ref(CLUSTER)}))
    return result


def wanted_roles(options: Mapping[str, Any], region: str) -> list[Wanted]:
    result = list[Wanted]()
    if options["emr_service_role"] == DEFAULT_SERVICE_ROLE:
        result.append(_wanted_role(SERVICE_ROLE, region))
    if options["emr_instance_profile"] == DEFAULT_PROFILE:
        profile = Wanted(INSTANCE_PROFILE, {"name": DEFAULT_PROFILE, "role": Ref(NODES_ROLE)})
        result += [_wanted_role(NODES_ROLE, region), profile]
    return result


def _wanted_role(address: Address, region: str) -> Wanted:
    partition = partition_of(region)
    policy = f"arn:{partition.name}:iam::aws:policy/service-role/{MANAGED_POLICIES[address]}"
    return Wanted(address, {"name": NAMES[address], "policy": policy}, parameters={"trust": trust_policy(SERVICES[address], region)})


def trust_policy(service: str, region: str) -> dict[str, Any]:
    principal = {"Service": partition_of(region).principals(service)}
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    return {"Version": "2012-10-17", "Statement": [statement]}


def trusts(document: Mapping[str, Any], service: str) -> bool:
    for statement in listed(document.get("Statement")):
        principal = statement.get("Principal") or {}
        names = listed(principal.get("Service")) if isinstance(principal, Mapping) else []
        if statement.get("Effect") == "Allow" and any(name.startswith(f"{service}.") for name in names):
            return True
    return False


def run_job_flow_request(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of RunJobFlow, without tags. The `aws emr create-cluster` command sends the same fields."""
    instances = {
        "InstanceGroups": [group_request(role, properties) for role in GROUPS if properties.get(f"{GROUPS[role]}_count", 1)],
        # Nodes wait for jobs, so a cluster must not terminate when it has no steps
        "KeepJobFlowAliveWhenNoSteps": True,
        "TerminationProtected": properties.get("termination_protection", False),
        "Ec2KeyName": properties.get("key_name"),
        "Ec2SubnetId": properties.get("subnet"),
        **{member: properties.get(f"{purpose}_security_group") for purpose, member in SECURITY_GROUPS.items()},
        **{member: sorted(properties.get(f"additional_{nodes}_security_groups", ())) for nodes, member in ADDITIONAL_GROUPS.items()},
    }
    request = {
        "Name": name,
        "ReleaseLabel": properties["release_label"],
        "LogUri": properties.get("log_uri"),
        "ServiceRole": properties["service_role"],
        "JobFlowRole": properties["instance_profile"],
        "VisibleToAllUsers": True,
        "Instances": _without_empty(instances),
        "Applications": [{"Name": each} for each in sorted(properties.get("applications", ()))],
        "BootstrapActions": [
            {"Name": each["name"], "ScriptBootstrapAction": _without_empty({"Path": each["path"], "Args": each["args"]})}
            for each in properties.get("bootstrap_actions", ())
        ],
        "CustomAmiId": properties.get("image_id"),
        "EbsRootVolumeSize": properties.get("root_volume_size"),
    }
    return _without_empty(request)


def group_request(role: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "InstanceRole": role,
        "Name": role,
        "Market": "ON_DEMAND",
        "InstanceType": properties[f"{GROUPS[role]}_instance_type"],
        "InstanceCount": properties.get(f"{GROUPS[role]}_count", 1),
    }


def step_request(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "Name": name,
        "ActionOnFailure": properties["on_failure"].upper(),
        "HadoopJarStep": {"Jar": properties["jar"], "Args": list(properties["args"])},
    }


def _without_empty(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None and value != []}


def needs_replacement(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the changed properties that EMR cannot change in place. `before` and `after` contain only changed properties."""
    fixed = [name for name in after if name not in IN_PLACE]
    return [*fixed, "core_count"] if "core_count" in after and not (before["core_count"] and after["core_count"]) else fixed


# EMR returns some values in a different form. These functions return the definition's value if the actual value is equivalent.


def comparable_name(wanted: str | None, actual: str) -> str:
    """Return the name of a role or a profile for comparison. The definition and EMR may each specify the name or the ARN."""
    return wanted if wanted and wanted.rpartition("/")[2] == actual.rpartition("/")[2] else actual


def comparable_log_uri(wanted: str | None, actual: str | None) -> str | None:
    """Return the log URI for comparison. EMR changes the scheme to `s3n` and adds a slash at the end."""
    return wanted if wanted and actual and _location(wanted) == _location(actual) else actual


def _location(uri: str) -> str:
    return uri.partition("://")[2].rstrip("/")


def comparable_applications(wanted: Sequence[str], actual: Sequence[str]) -> frozenset[str]:
    """Return the application names for comparison.

    EMR ignores case, and adds the applications on which the requested applications depend.
    """
    lower = {name.lower() for name in actual}
    return frozenset(wanted) if wanted and {name.lower() for name in wanted} <= lower else frozenset(actual)
