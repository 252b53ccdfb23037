"""Checks that EMR makes during a request. EMR detects problems with EC2 resources only when the cluster starts (see `clusters`)."""

from __future__ import annotations

import re
from typing import Any

from .errors import invalid
from .nodes import CORE, MASTER, ROLES, TASK
from .roles import check_profile
from .steps import MOST_ACTIVE

RELEASE = re.compile(r"emr-(?:[a-z]+-)?(\d+)\.(\d+)\.(\d+)")
FIRST_WITH_CUSTOM_IMAGES = (5, 7, 0)
# The first release whose master connects to the service through the service access security group.
FIRST_WITH_SERVICE_RULE = (5, 30, 0)
MOST_BOOTSTRAP_ACTIONS = 16
MOST_ADDITIONAL_GROUPS = 4
MOST_CHARACTERS_OF_STEP = 10240
FIRST_WITH_LARGER_ROOT = (6, 10, 0)
# Minimum sizes in GiB, before and since `FIRST_WITH_LARGER_ROOT`. Source: Amazon EMR Management Guide, "Using a custom AMI".
SMALLEST_ROOT_VOLUMES = (10, 15)
# GiB. Source: Amazon EMR Management Guide, "Customizing the Amazon EBS root device volume".
LARGEST_ROOT_VOLUME = 100
# Parameters of RunJobFlow that the local cloud implements.
IMPLEMENTED = {
    "Applications",
    "AutoTerminationPolicy",
    "BootstrapActions",
    "CustomAmiId",
    "EbsRootVolumeSize",
    "Instances",
    "JobFlowRole",
    "LogUri",
    "Name",
    "ReleaseLabel",
    "ServiceRole",
    "Steps",
    "Tags",
    "VisibleToAllUsers",
}
INSTANCES = {
    "AdditionalMasterSecurityGroups",
    "AdditionalSlaveSecurityGroups",
    "Ec2KeyName",
    "Ec2SubnetId",
    "EmrManagedMasterSecurityGroup",
    "EmrManagedSlaveSecurityGroup",
    "InstanceCount",
    "InstanceGroups",
    "KeepJobFlowAliveWhenNoSteps",
    "MasterInstanceType",
    "Placement",
    "ServiceAccessSecurityGroup",
    "SlaveInstanceType",
    "TerminationProtected",
}
GROUP = {"InstanceCount", "InstanceRole", "InstanceType", "Market", "Name"}


def normal_request(request: dict[str, Any]) -> dict[str, Any]:
    """Return the request with instance groups. If the request uses the older parameters for two instance types, convert them to groups."""
    instances = request["Instances"]
    former = ("MasterInstanceType", "SlaveInstanceType", "InstanceCount")
    if "InstanceGroups" in instances or not any(name in instances for name in former):
        return request
    count = instances.get("InstanceCount", 1)
    types = {MASTER: (instances.get("MasterInstanceType"), 1), CORE: (instances.get("SlaveInstanceType"), count - 1)}
    groups = [{"InstanceRole": role, "InstanceType": kind, "InstanceCount": size} for role, (kind, size) in types.items() if size > 0]
    if any(not group["InstanceType"] for group in groups):
        raise invalid("MasterInstanceType, SlaveInstanceType and InstanceCount must all be specified.")
    return {**request, "Instances": {**{name: value for name, value in instances.items() if name not in former}, "InstanceGroups": groups}}


def check_creation(backend: Any, request: dict[str, Any]) -> None:
    """Raise the EMR error for a cluster that cannot be created."""
    _check_implemented(request, IMPLEMENTED)
    _check_implemented(request["Instances"], INSTANCES)
    _check_release(backend, request)
    for name in ("JobFlowRole", "ServiceRole"):
        if not request.get(name):
            raise invalid(f"{name} is required for creating cluster.")
    check_profile(backend.account_id, request["JobFlowRole"])
    groups = request["Instances"].get("InstanceGroups") or []
    check_groups(backend, request["ReleaseLabel"], groups)
    roles = [group["InstanceRole"] for group in groups]
    if roles.count(MASTER) != 1 or roles.count(CORE) > 1:
        raise invalid("A cluster must have exactly one MASTER instance group and at most one CORE instance group.")
    if TASK in roles and CORE not in roles:
        raise invalid("A cluster with a TASK instance group must have a CORE instance group.")
    if next(group["InstanceCount"] for group in groups if group["InstanceRole"] == MASTER) != 1:
        raise invalid("The local cloud implements only MASTER instance groups of one instance.")
    _check_rest(request)


def _check_rest(request: dict[str, Any]) -> None:
    instances = request["Instances"]
    if bool(instances.get("EmrManagedMasterSecurityGroup")) != bool(instances.get("EmrManagedSlaveSecurityGroup")):
        raise invalid("EmrManagedMasterSecurityGroup and EmrManagedSlaveSecurityGroup must be specified together.")
    for name in ("AdditionalMasterSecurityGroups", "AdditionalSlaveSecurityGroups"):
        if len(instances.get(name) or []) > MOST_ADDITIONAL_GROUPS:
            raise invalid(f"{name} can have at most {MOST_ADDITIONAL_GROUPS} security groups.")
    smallest = SMALLEST_ROOT_VOLUMES[version(request["ReleaseLabel"]) >= FIRST_WITH_LARGER_ROOT]
    if not smallest <= request.get("EbsRootVolumeSize", smallest) <= LARGEST_ROOT_VOLUME:
        raise invalid(f"EbsRootVolumeSize must be at least {smallest} GiB and at most {LARGEST_ROOT_VOLUME} GiB.")
    if len(request.get("BootstrapActions", [])) > MOST_BOOTSTRAP_ACTIONS:
        raise invalid(f"Too many bootstrap actions. Maximum: {MOST_BOOTSTRAP_ACTIONS}.")
    check_steps(0, request.get("Steps", []))


def check_groups(backend: Any, label: str, groups: list[dict[str, Any]]) -> None:
    """Raise the EMR error for instance groups that cannot be created in any cluster of the release."""
    supported = {each["Type"] for each in backend.list_supported_instance_types(label)}
    for group in groups:
        _check_implemented(group, GROUP)
        if group["InstanceRole"] not in ROLES or group.get("Market", "ON_DEMAND") != "ON_DEMAND":
            raise invalid("The local cloud implements only On-Demand Instances.")
        if group["InstanceCount"] < 1:
            raise invalid(f"The {group['InstanceRole']} instance group must have at least one instance.")
        if group["InstanceType"] not in supported:
            raise invalid(f"Instance type '{group['InstanceType']}' is not supported.")


def check_steps(active: int, steps: list[dict[str, Any]]) -> None:
    """Raise the EMR error for steps that exceed a limit. `active` is the number of active steps of the cluster."""
    if active + len(steps) > MOST_ACTIVE:
        active_states = "(State = 'Running', 'Pending' or 'Cancel_Pending')"
        raise invalid(f"Maximum number of active steps{active_states} for cluster exceeded: {MOST_ACTIVE}.")
    for step in steps:
        if _characters(step["HadoopJarStep"]) > MOST_CHARACTERS_OF_STEP:
            raise invalid(f"The strings of HadoopJarStep exceed {MOST_CHARACTERS_OF_STEP} characters.")


def _characters(value: Any) -> int:
    """Return the total length of the strings in a part of a request."""
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(_characters, parts))


def _check_release(backend: Any, request: dict[str, Any]) -> None:
    label = request.get("ReleaseLabel") or ""
    if label not in backend.list_release_labels():
        raise invalid(f"The supplied release label is invalid: {label}.")
    if request.get("CustomAmiId") and version(label) < FIRST_WITH_CUSTOM_IMAGES:
        raise invalid("Custom AMI is not allowed")


def version(label: str) -> tuple[int, ...]:
    """Return the version numbers in a release label."""
    found = RELEASE.fullmatch(label)
    return tuple(map(int, found.groups())) if found else ()


def _check_implemented(given: dict[str, Any], implemented: set[str]) -> None:
    others = sorted(set(given) - implemented)
    if others:
        raise invalid(f"The local cloud does not implement {others[0]}.")
