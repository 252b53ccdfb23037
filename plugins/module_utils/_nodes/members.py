# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Nodes: the live instances of a group and their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, Mapping

from .._aws import Cloud, CloudError, WaitTimeout, tag_dict, tag_list
from .._plan.plan import Kind
from .._plan.resources import Address, Found
from .activities import Launches, explain
from .definition import NODE_TYPE_TAG, NODE_TYPES, NUMBER_TAG, assign_numbers, nodes

ALIVE = ("pending", "running")
Properties = Mapping[str, Any]


def live_instances(cloud: Cloud, *states: str) -> list[dict[str, Any]]:
    """The cluster's instances in the states given, oldest first."""
    state_filter = {"Name": "instance-state-name", "Values": list(states or ALIVE)}
    reservations = cloud.retrieve("ec2", "describe_instances", "Reservations", Filters=cloud.filters(state_filter))
    instances = [instance for reservation in reservations for instance in reservation["Instances"]]
    return sorted(instances, key=lambda instance: (instance["LaunchTime"], instance["InstanceId"]))


def number_of(instance: Mapping[str, Any]) -> int | None:
    """The number on an instance's tag, if it has one."""
    text = tag_dict(instance.get("Tags", [])).get(NUMBER_TAG, "")
    return int(text) if text.isdecimal() else None


def in_group(instances: list[dict[str, Any]], group: str) -> list[dict[str, Any]]:
    return [instance for instance in instances if tag_dict(instance.get("Tags", [])).get(NODE_TYPE_TAG) == NODE_TYPES[group]]


def read(cloud: Cloud) -> Iterator[Found]:
    """The numbered nodes of each group, whether there is such a group or not."""
    instances = live_instances(cloud)
    for group in NODE_TYPES:
        members = in_group(instances, group)
        numbers = {number for instance in members if (number := number_of(instance))}
        yield Found(nodes(group), group, {"numbers": tuple(sorted(numbers))}, {"subnets": {instance["SubnetId"] for instance in members}})


def _create_nodes(cloud: Cloud, address: Address, properties: Properties) -> Found:
    _number_nodes(cloud, address, properties)
    return Found(address, properties["group"], properties)


def _update_nodes(cloud: Cloud, found: Found, properties: Properties, _changed: frozenset[str]) -> None:
    _number_nodes(cloud, found.address, properties)


def _number_nodes(cloud: Cloud, address: Address, properties: Properties) -> None:
    """Waits until the group's nodes are in service and gives a number to each that has none.

    Raises CloudError with AWS's reason when the group cannot launch them.
    """
    name, wanted_numbers = properties["group"], properties["numbers"]
    launches = Launches(since=datetime.now(timezone.utc), wanted=len(wanted_numbers))

    def in_service() -> list[dict[str, Any]] | None:
        group = cloud.retrieve("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", AutoScalingGroupNames=[name])[0]
        members = {item["InstanceId"] for item in group["Instances"]}
        ready = {
            item["InstanceId"] for item in group["Instances"] if item["LifecycleState"] == "InService" and item["HealthStatus"] == "Healthy"
        }
        alive = [instance for instance in live_instances(cloud) if instance["InstanceId"] in members]
        # The group notices minutes later that an instance has died, and EC2 shows one for a while that the group ends
        if len(ready) == len(wanted_numbers) and ready == {instance["InstanceId"] for instance in alive}:
            return alive
        activities = cloud.autoscaling.describe_scaling_activities(AutoScalingGroupName=name, MaxRecords=20)["Activities"]
        launches.observe(len(ready & {instance["InstanceId"] for instance in alive}), activities)
        if launches.hopeless:
            raise CloudError(explain(name, launches))
        return None

    try:
        instances = cloud.wait_until(f"Nodes of {name}", in_service)
    except WaitTimeout as error:
        raise WaitTimeout(explain(name, launches, f"{error} ")) from error
    numbered: dict[str, int] = {}
    for instance in instances:
        number = number_of(instance)
        if number and number in wanted_numbers and number not in numbered.values():
            numbered[instance["InstanceId"]] = number
    unnumbered = [instance["InstanceId"] for instance in instances if instance["InstanceId"] not in numbered]
    for instance_id, number in assign_numbers(address.key, numbered, unnumbered, len(wanted_numbers)).items():
        if instance_id not in numbered:
            cloud.once_visible(
                cloud.ec2.create_tags, "InvalidInstanceID.NotFound", Resources=[instance_id], Tags=tag_list({NUMBER_TAG: str(number)})
            )


def _delete_nodes(_cloud: Cloud, _found: Found) -> None:
    """Nodes go with their group."""


KIND = Kind("nodes", _create_nodes, _delete_nodes, update=_update_nodes, updatable=frozenset({"numbers", "group"}))
