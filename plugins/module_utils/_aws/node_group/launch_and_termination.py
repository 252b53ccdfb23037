# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads, numbers and terminates the nodes of a group. The nodes of a group are its live instances."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Mapping

from ..client import AwsClient, ClientError, ClusterError, WaitTimeout, tag_list
from ..instances import ALIVE, group_of
from ..node_names import NODE_TYPES, NUMBER_TAG, assign_numbers, group_name, node_name, numbers
from ..plan.planning import Kind
from ..plan.resources import Address, Found, Properties
from . import membership_tags
from .definition import nodes
from .insufficient_capacity import Launches, explain
from .membership_tags import number_of
from .node_service import AUTO_SCALING

END_TIMEOUT = 3600  # seconds; large instances can take a quarter of an hour to shut down
END_PAUSE = 0.5  # seconds between the first two reads
ACTIVE = ("Pending", "InService")  # prefixes of the lifecycle states in which an instance counts toward the size of its group
# An Auto Scaling group's entries about its instances, by instance ID.
Members = Mapping[str, Mapping[str, Any]]


class Shortage(ClusterError):
    """AWS has launched fewer nodes than the minimum that the cluster needs."""


def live_instances(cloud: AwsClient, *states: str) -> list[dict[str, Any]]:
    """Return the instances of the cluster's groups, oldest first. Only instances in the given states are included, by default `ALIVE`."""
    filters = [*membership_tags.filters(cloud.cluster), {"Name": "instance-state-name", "Values": list(states or ALIVE)}]
    reservations = cloud.retrieve("ec2", "describe_instances", "Reservations", Filters=filters)
    instances = [instance for reservation in reservations for instance in reservation["Instances"]]
    return sorted(instances, key=lambda instance: (instance["LaunchTime"], instance["InstanceId"]))


def in_group(cloud: AwsClient, instances: list[dict[str, Any]], group: str) -> list[dict[str, Any]]:
    return [instance for instance in instances if group_of(cloud.cluster, instance) == group]


def read(cloud: AwsClient) -> Iterator[Found]:
    """For each group, yield one entry with its numbered nodes, even if the Auto Scaling group does not exist."""
    instances = live_instances(cloud)
    # Pending instances are not checked, because they may replace an instance that EC2 still lists
    running = [item for item in instances if item["State"]["Name"] == "running"]
    problems = membership_tags.problems(cloud.cluster, running, AUTO_SCALING)
    for group in NODE_TYPES:
        members = in_group(cloud, instances, group)
        numbered = {number: instance["InstanceId"] for instance in members if (number := number_of(instance))}
        yield Found(
            nodes(group),
            group,
            {"numbers": tuple(sorted(numbered))},
            {
                "subnets": {instance["SubnetId"] for instance in members},
                "instances": numbered,
                "placement_groups": {instance["Placement"].get("GroupName") for instance in members},
                "public_addresses": [instance.get("PublicIpAddress") for instance in members],
                "problems": problems,
            },
        )


def _update_nodes(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> Found:
    if changed & {"outdated", "unhealthy"}:
        _replace_nodes(cloud, found, properties)
    return _number_nodes(cloud, found.address, properties)


def _number_nodes(cloud: AwsClient, address: Address, properties: Properties, gone: Collection[str] = ()) -> Found:
    """Wait until the group's nodes are in service, and number the nodes that have no number. Raises Shortage."""
    name, wanted = properties["group"], len(properties["numbers"])
    instances, explanation = wait_for_instances(cloud, name, wanted, properties, gone)
    if len(instances) < wanted:
        _settle_for(cloud, name, [instance["InstanceId"] for instance in instances])
    possible = numbers(address.key, len(instances))
    numbered: dict[str, int] = {}
    for instance in instances:
        number = number_of(instance)
        if number in possible and number not in numbered.values():
            numbered[instance["InstanceId"]] = number
    unnumbered = [instance["InstanceId"] for instance in instances if instance["InstanceId"] not in numbered]
    number_new_nodes(cloud, address.key, numbered, unnumbered)
    return Found(address, name, {**properties, "numbers": possible}, {"shortage": explanation})


def number_new_nodes(cloud: AwsClient, group: str, numbered: Mapping[str, int], unnumbered: Sequence[str]) -> None:
    """Number the instances of a group that have no number. AWS launched these instances a short time ago."""
    cloud.created.update(unnumbered)
    for instance_id, number in assign_numbers(group, numbered, unnumbered, len(numbered) + len(unnumbered)).items():
        if instance_id not in numbered:
            cloud.once_visible(
                cloud.ec2.create_tags, "InvalidInstanceID.NotFound", Resources=[instance_id], Tags=tag_list({NUMBER_TAG: str(number)})
            )


def wait_for_instances(
    cloud: AwsClient, name: str, wanted: int, properties: Properties, gone: Collection[str] = ()
) -> tuple[list[dict[str, Any]], str | None]:
    """Wait until `wanted` instances of a group are in service. The result is the same as that of `_in_service`."""
    since, past = _time_of_aws(cloud, name), properties["past_activities"]
    launches = Launches(since=since, wanted=wanted, past=past, alternative=properties["alternative"])
    return _in_service(cloud, name, launches, properties["least"], properties["timeout"], gone)


def _time_of_aws(cloud: AwsClient, name: str) -> datetime:
    """Return the current time according to AWS.

    The result can be compared with the start times of activities even if the controller's clock is wrong.
    """
    answer = cloud.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    # Times in HTTP are always in GMT
    return parsedate_to_datetime(date).replace(tzinfo=timezone.utc) if date else datetime.now(timezone.utc)


def _in_service(
    cloud: AwsClient, name: str, launches: Launches, least: int, timeout: float, gone: Collection[str]
) -> tuple[list[dict[str, Any]], str | None]:
    """Wait until the desired number of instances is in service, and return the instances. Ignore the instances in `gone`.

    Terminate lost instances. After `timeout` seconds, or as soon as waiting is pointless, `least` instances are sufficient. If the result
    contains fewer instances than desired, also return the reason for the shortage. The timeout does not include time during which
    terminated nodes still occupy capacity and quota. Raises Shortage.
    """
    wanted, ended = launches.wanted, set(gone)
    began = counted_from = time.monotonic()

    def poll() -> tuple[list[dict[str, Any]], str | None] | None:
        nonlocal counted_from
        members, alive, ready, leaving = _read_members(cloud, name, ended)
        # A group can take minutes to detect that an instance has stopped, and EC2 still lists terminated instances for a while
        if len(ready) == len(alive) == len(members) == wanted:
            return ready, None
        # The group does not replace nodes on its own, so lost instances must be terminated here
        for instance_id in _lost(members, alive):
            end(cloud, instance_id, replaced=True)
            ended.add(instance_id)
        launches.observe(len(ready), activities(cloud, name), leaving=leaving, replacing=bool(ended))
        now = time.monotonic()
        counted_from = now if leaving else counted_from
        what = f"{name}: {len(ready)} of {wanted} nodes in service, {launches.alternative}{launches.newest_reason()}"
        cloud.progress(what, now - began, limit=timeout + counted_from - began)
        # Nodes on their way get more time
        on_their_way = any(item["LifecycleState"].startswith("Pending") for item in members.values())
        limit = 2 * timeout if on_their_way else 0 if launches.hopeless else timeout
        return None if leaving or now - counted_from < limit else _accepted(name, launches, ready, least)

    try:
        return cloud.wait_until(f"the nodes of {name}", poll, timeout=2 * timeout + max(cloud.wait_timeout, END_TIMEOUT))
    except WaitTimeout as error:
        raise WaitTimeout(explain(name, launches, f"{error} ")) from error


def _read_members(cloud: AwsClient, name: str, ended: Collection[str]) -> tuple[Members, list[dict[str, Any]], list[dict[str, Any]], bool]:
    """Return the members of a group, those that live, those that are in service, and whether one of the instances in `ended` still ends.

    The members are the group's entries by instance ID, without those in `ended`.
    """
    groups = cloud.retrieve("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", AutoScalingGroupNames=[name])
    members = {item["InstanceId"]: item for group in groups for item in group["Instances"] if item["InstanceId"] not in ended}
    instances = live_instances(cloud, *ALIVE, *(["shutting-down"] if ended else []))
    ending = {instance["InstanceId"] for instance in instances if instance["State"]["Name"] == "shutting-down"}
    alive = [instance for instance in instances if instance["InstanceId"] in members and instance["State"]["Name"] in ALIVE]
    ready = [instance for instance in alive if _is_in_service(instance, members[instance["InstanceId"]])]
    return members, alive, ready, not ending.isdisjoint(ended)


def _accepted(name: str, launches: Launches, ready: list[dict[str, Any]], least: int) -> tuple[list[dict[str, Any]], str | None] | None:
    """Return fewer instances than desired and the reason, or None if surplus instances are still terminating. Raises Shortage."""
    if len(ready) < least:
        raise Shortage(explain(name, launches))
    return (ready, explain(name, launches)) if len(ready) < launches.wanted else None


def end(cloud: AwsClient, instance_id: str, *, replaced: bool) -> None:
    """Terminate a node. If `replaced` is true, the group launches a replacement. A node that is already terminated causes no error."""
    try:
        cloud.once_unused(
            cloud.autoscaling.terminate_instance_in_auto_scaling_group,
            InstanceId=instance_id,
            ShouldDecrementDesiredCapacity=not replaced,
        )
    except ClientError as error:
        if "No managed instance found" not in str(error):
            raise


def active_members(cloud: AwsClient, name: str) -> set[str]:
    """Return the IDs of the instances that count toward the size of a group, including instances that have stopped or failed."""
    groups = cloud.retrieve("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", AutoScalingGroupNames=[name])
    return {item["InstanceId"] for group in groups for item in group["Instances"] if item["LifecycleState"].startswith(ACTIVE)}


def shrink(cloud: AwsClient, name: str, size: int, order: Sequence[str], **settings: Any) -> None:
    """Terminate the first instances in `order`, so that `size` instances remain. `order` lists all active members of a group.

    The group does not launch missing instances. The group's desired capacity is never lower than the number of members, because AWS would
    otherwise terminate instances of its own choice. `settings` contains additional settings to change in the group.
    https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-instance-termination.html
    """
    desired = max(size, len(order))
    cloud.once_idle(cloud.autoscaling.update_auto_scaling_group, AutoScalingGroupName=name, DesiredCapacity=desired, **settings)
    for instance_id in order[: max(len(order) - size, 0)]:
        end(cloud, instance_id, replaced=False)


def leaving(cloud: AwsClient) -> set[str]:
    """Return the IDs of nodes that are being terminated, but still occupy capacity, quota and space in the placement group."""
    names = [group_name(cloud.cluster, group) for group in NODE_TYPES]
    groups = cloud.retrieve("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", AutoScalingGroupNames=names)
    ended = {item["InstanceId"] for group in groups for item in group["Instances"] if item["LifecycleState"].startswith("Terminating")}
    return ended | {instance["InstanceId"] for instance in live_instances(cloud, "shutting-down")}


def activities(cloud: AwsClient, name: str) -> list[dict[str, Any]]:
    """Return the newest scaling activities of the group, newest first."""
    return list(cloud.autoscaling.describe_scaling_activities(AutoScalingGroupName=name, MaxRecords=20)["Activities"])


def _is_in_service(instance: Mapping[str, Any], member: Mapping[str, Any]) -> bool:
    """Return whether a node is ready for jobs.

    A numbered node is kept until nodes are replaced, even if its group reports it as unhealthy.
    """
    return bool(member["LifecycleState"] == "InService" and (member["HealthStatus"] == "Healthy" or number_of(instance)))


def _lost(members: Members, alive: Collection[Mapping[str, Any]]) -> list[str]:
    """Return the IDs of a group's unhealthy instances that have stopped or that never received a node number."""
    numbered = {instance["InstanceId"] for instance in alive if number_of(instance)}
    return [
        instance_id
        for instance_id, member in members.items()
        if member["LifecycleState"] == "InService" and member["HealthStatus"] != "Healthy" and instance_id not in numbered
    ]


def _settle_for(cloud: AwsClient, name: str, accepted: Collection[str]) -> None:
    """Reduce the group to the accepted instances. The group's tag keeps the desired number."""
    others = active_members(cloud, name).difference(accepted)
    shrink(cloud, name, len(accepted), [*sorted(others), *accepted])
    cloud.once_idle(cloud.autoscaling.update_auto_scaling_group, AutoScalingGroupName=name, MaxSize=len(accepted))


def _replace_nodes(cloud: AwsClient, found: Found, properties: Properties) -> None:
    """Replace the outdated and unhealthy nodes one by one. Wait until each replacement is in service and has the number of the former node.

    The first failed replacement stops the run, so at most one node is lost if the launch template cannot launch nodes.
    """
    # Nodes with higher numbers than desired were already terminated when the size of the group changed
    going = sorted({*found.properties["outdated"], *found.properties["unhealthy"]} & set(properties["numbers"]))
    for count, number in enumerate(going, start=1):
        cloud.progress(f"Replacing {node_name(cloud.cluster, found.address.key, number)}, {count} of {len(going)}")
        instance_id = found.attributes["instances"][number]
        end(cloud, instance_id, replaced=True)
        _number_nodes(cloud, found.address, {**properties, "least": len(properties["numbers"])}, gone={instance_id})


def _delete_nodes(_cloud: AwsClient, _found: Found) -> None:
    """Do nothing, because nodes are deleted with their group."""


KIND = Kind(
    "nodes",
    _number_nodes,
    _delete_nodes,
    update=_update_nodes,
    updatable=frozenset({"numbers", "group"}),
    replacing=frozenset({"outdated", "unhealthy"}),
)
