# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Auto Scaling groups, which determine how many nodes run and in which subnets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Mapping

from ..client import AwsClient, ClientError, WaitTimeout, tag_dict, tag_list
from ..error_codes import error_code
from ..node_names import assign_numbers, group_name
from ..own_resources import read_own
from ..plan.planning import Kind
from ..plan.resources import Address, Found, Properties
from ..storage.kinds import TAG_KEYS
from ..tags import NODES_COMPONENT, TOPIC_TAG
from .definition import NODE_TYPE_TAG, NOT_INHERITED, NOTIFICATION_TYPES, SUSPENDED, WANTED_TAG
from .launch_and_termination import END_PAUSE, END_TIMEOUT, active_members, in_group, live_instances, shrink
from .membership_tags import number_of

SETTINGS = {"health_check_grace_period": "HealthCheckGracePeriod", "protected_from_scale_in": "NewInstancesProtectedFromScaleIn"}
NOT_YET_ACCEPTED_TIMEOUT = 120  # seconds, enough for a new instance profile to become visible in AWS


def read(cloud: AwsClient) -> Iterator[Found]:
    """Return the cluster's groups, except groups that are being deleted."""
    described = cloud.retrieve("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", Filters=cloud.filters())
    return read_own(cloud, described, NODES_COMPONENT, "AutoScalingGroupName", partial(_found, _notifications(cloud, described)))


def _notifications(cloud: AwsClient, groups: Iterable[Mapping[str, Any]]) -> set[tuple[str, str, str]]:
    """Return the group, the topic and the type of all notifications of the groups with a topic. Without such groups, make no request."""
    names = [group["AutoScalingGroupName"] for group in groups if TOPIC_TAG in tag_dict(group["Tags"])]
    if not names:
        return set()
    key = "NotificationConfigurations"
    found = cloud.retrieve("autoscaling", "describe_notification_configurations", key, AutoScalingGroupNames=names)
    return {(item["AutoScalingGroupName"], item["TopicARN"], item["NotificationType"]) for item in found}


def _found(notifications: set[tuple[str, str, str]], cloud: AwsClient, key: str, group: Mapping[str, Any]) -> Found | None:
    if group.get("Status") or group["AutoScalingGroupName"] != group_name(cloud.cluster, key):
        return None  # being deleted, or not this cluster's group, even if it has the cluster's tags
    tags = tag_dict(group["Tags"])
    topic = tags.get(TOPIC_TAG, "")
    types = tuple(each for each in NOTIFICATION_TYPES if (group["AutoScalingGroupName"], topic, each) in notifications)
    return Found(
        Address("auto_scaling_group", key),
        group["AutoScalingGroupName"],
        {
            "name": group["AutoScalingGroupName"],
            "launch_template": group.get("LaunchTemplate", {}).get("LaunchTemplateId"),
            "template_version": group.get("LaunchTemplate", {}).get("Version"),
            "minimum": group["MinSize"],
            "size": group["DesiredCapacity"],
            "subnets": frozenset(filter(None, group["VPCZoneIdentifier"].split(","))),
            "suspended": frozenset(process["ProcessName"] for process in group["SuspendedProcesses"] if not _is_foreign(process)),
            "health_check_grace_period": group["HealthCheckGracePeriod"],
            "protected_from_scale_in": group["NewInstancesProtectedFromScaleIn"],
            "notifications": {topic: types} if types else {},
            "tags": _comparable_group_tags(cloud, tags),
        },
        {
            "instances": launched_from(group["Instances"]),
            "unhealthy": {item["InstanceId"] for item in group["Instances"] if item["HealthStatus"] != "Healthy"},
            "deletion_protection": group.get("DeletionProtection", "none"),
            "suspended_by_others": sorted(process["ProcessName"] for process in group["SuspendedProcesses"] if _is_foreign(process)),
            "wanted": tags.get(WANTED_TAG),
        },
    )


def launched_from(members: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the launch template specification of each member, by instance ID. If the template was deleted, the specification is empty.

    AWS reports no launch template for terminating instances, so members out of service without a template are omitted.
    """
    return {
        member["InstanceId"]: member.get("LaunchTemplate", {})
        for member in members
        if "LaunchTemplate" in member or member["LifecycleState"] == "InService"
    }


def _is_foreign(process: Mapping[str, str]) -> bool:
    """Return whether a user suspended the process. A run does not resume processes that a user suspended.

    The suspension reason of these processes starts with "User suspended". AWS itself suspends processes of a group if launches keep failing
    for a day.
    """
    return process["ProcessName"] not in SUSPENDED and process.get("SuspensionReason", "").startswith("User suspended")


def _comparable_group_tags(cloud: AwsClient, tags: Mapping[str, str]) -> dict[str, str]:
    own = {name: tags[name] for name in (*TAG_KEYS, NODE_TYPE_TAG, *NOT_INHERITED) if name in tags}
    return {**cloud.comparable_tags(tag_list(tags)), **own}


def storage_tags(found: Found) -> dict[str, str]:
    return {name: value for name, value in found.properties["tags"].items() if name in TAG_KEYS}


def _group_tags(name: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "ResourceId": name,
            "ResourceType": "auto-scaling-group",
            "Key": key,
            "Value": value,
            "PropagateAtLaunch": key not in NOT_INHERITED,
        }
        for key, value in tags.items()
    ]


def _create_group(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    name = properties["name"]
    create = partial(
        cloud.create,
        "autoscaling",
        "create_auto_scaling_group",
        AutoScalingGroupName=name,
        LaunchTemplate=_template(properties),
        MinSize=properties["minimum"],
        MaxSize=properties["size"],
        DesiredCapacity=properties["size"],
        VPCZoneIdentifier=",".join(sorted(properties["subnets"])),
        HealthCheckType="EC2",
        HealthCheckGracePeriod=properties["health_check_grace_period"],
        NewInstancesProtectedFromScaleIn=properties["protected_from_scale_in"],
        Tags=_group_tags(name, properties["tags"]),
    )
    # The template and the role are also new, so AWS may deny the call for a while
    _once_accepted(cloud, name, partial(cloud.once_allowed, create))
    found = Found(address, name, {**properties, "suspended": frozenset(), "notifications": {}})
    cloud.once_allowed(partial(_update_group, cloud, found, properties, frozenset({"suspended", "notifications"})))
    return Found(address, name, properties)


def _template(properties: Properties) -> dict[str, str]:
    """Return the launch template and its version number.

    The version is never `$Latest`, because AWS would then not check permissions for newer versions.
    """
    return {"LaunchTemplateId": properties["launch_template"], "Version": properties["template_version"]}


def _once_accepted(cloud: AwsClient, name: str, call: Callable[[], object]) -> None:
    """Make an API call, and retry it until AWS finds the resources to which the group refers."""
    refusals: list[Exception] = []

    def accepted() -> bool:
        try:
            call()
        except ClientError as error:
            if not _not_yet_accepted(error):
                raise
            refusals.append(error)
            return False
        return True

    try:
        cloud.wait_until(f"AWS to accept Auto Scaling group {name}", accepted, timeout=min(cloud.wait_timeout, NOT_YET_ACCEPTED_TIMEOUT))
    except WaitTimeout as error:
        raise refusals[-1] from error


def _not_yet_accepted(error: Exception) -> bool:
    """Return whether the call failed because resources are not visible yet, or because the former group is still being deleted."""
    message = str(error)
    if error_code(error) == "ValidationError":
        unseen = "does not exist" in message and ("launch template" in message or "subnet ID" in message)
        unseen = unseen or "Could not find the specified version" in message
        return unseen or "Invalid IAM Instance Profile" in message or ("Placement Group" in message and "is unknown" in message)
    return error_code(error) == "AlreadyExists" and "pending delete" in message


def _update_group(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    """Change the group. Its tag with the topic changes after the former topic is removed and before the new topic is added.

    A run that is killed thus leaves no topic that the next run does not know.
    """
    before, after = (each["notifications"] if "notifications" in changed else {} for each in (found.properties, properties))
    for topic in before.keys() - after.keys():
        cloud.once_idle(cloud.autoscaling.delete_notification_configuration, AutoScalingGroupName=found.id, TopicARN=topic)
    _update_settings(cloud, found, properties, changed)
    for topic, types in after.items():
        put = cloud.autoscaling.put_notification_configuration
        cloud.once_idle(put, AutoScalingGroupName=found.id, TopicARN=topic, NotificationTypes=list(types))


def _update_settings(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    settings: dict[str, Any] = {parameter: properties[name] for name, parameter in SETTINGS.items() if name in changed}
    if "tags" in changed:
        _change_tags(cloud, found, properties["tags"], inherited=True)
    if "size" in changed and properties["size"] < found.properties["size"]:
        _remove_highest_numbers(cloud, found, properties)
    if changed & {"size", "minimum"}:
        settings |= {"MinSize": properties["minimum"], "MaxSize": properties["size"], "DesiredCapacity": properties["size"]}
    if "subnets" in changed:
        settings["VPCZoneIdentifier"] = ",".join(sorted(properties["subnets"]))
    if changed & {"launch_template", "template_version"}:
        settings["LaunchTemplate"] = _template(properties)
    if settings:
        update = partial(cloud.once_idle, cloud.autoscaling.update_auto_scaling_group, AutoScalingGroupName=found.id, **settings)
        _once_accepted(cloud, found.id, update)
    if "suspended" in changed:
        _suspend(cloud, found.id, before=found.properties["suspended"], after=properties["suspended"])
    if "tags" in changed:
        # This tag contains the desired size, so the tag is changed after the group
        _change_tags(cloud, found, properties["tags"], inherited=False)


def _change_tags(cloud: AwsClient, found: Found, tags: Mapping[str, str], *, inherited: bool) -> None:
    """Change the group tags that new nodes inherit. If `inherited` is false, change the tags that new nodes do not inherit."""
    before, after = (
        {name: value for name, value in each.items() if (name not in NOT_INHERITED) is inherited}
        for each in (found.properties["tags"], tags)
    )
    gone = {name: value for name, value in before.items() if name not in after}
    new = {name: value for name, value in after.items() if before.get(name) != value}
    for call, changed in ((cloud.autoscaling.delete_tags, gone), (cloud.autoscaling.create_or_update_tags, new)):
        if changed:
            cloud.once_idle(call, Tags=_group_tags(found.id, changed))


def _suspend(cloud: AwsClient, name: str, *, before: frozenset[str], after: frozenset[str]) -> None:
    """Suspend the processes in `after`, and resume other processes that AWS has suspended on its own."""
    for call, processes in ((cloud.autoscaling.suspend_processes, after - before), (cloud.autoscaling.resume_processes, before - after)):
        if processes:
            cloud.once_idle(call, AutoScalingGroupName=name, ScalingProcesses=sorted(processes))


def _remove_highest_numbers(cloud: AwsClient, found: Found, properties: Properties) -> None:
    """Terminate surplus members of the group: first instances that are no longer running, then the nodes with the highest numbers."""
    members = active_members(cloud, found.id)
    alive = [instance for instance in live_instances(cloud) if instance["InstanceId"] in members]
    numbered = {instance["InstanceId"]: number for instance in alive if (number := number_of(instance))}
    unnumbered = [instance["InstanceId"] for instance in alive if instance["InstanceId"] not in numbered]
    # The order matches the inventory, which the playbooks use to check whether jobs run on the surplus nodes
    shown = assign_numbers(found.address.key, numbered, unnumbered, len(alive))
    order = [*sorted(members - shown.keys()), *sorted(shown, key=shown.__getitem__, reverse=True)]
    shrink(cloud, found.id, properties["size"], order, MinSize=min(properties["minimum"], properties["size"]))


def _delete_group(cloud: AwsClient, found: Found) -> None:
    cloud.once_unused(cloud.autoscaling.delete_auto_scaling_group, AutoScalingGroupName=found.id, ForceDelete=True)

    def gone() -> bool:
        groups = cloud.retrieve("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", AutoScalingGroupNames=[found.id])
        leaving = in_group(cloud, live_instances(cloud, "pending", "running", "shutting-down", "stopping", "stopped"), found.address.key)
        return not groups and not leaving

    cloud.wait_until(
        f"the deletion of Auto Scaling group {found.id} and its instances",
        gone,
        timeout=max(cloud.wait_timeout, END_TIMEOUT),
        pause=END_PAUSE,
    )


KIND = Kind(
    "auto_scaling_group",
    _create_group,
    _delete_group,
    update=_update_group,
    updatable=frozenset(
        {
            "health_check_grace_period",
            "launch_template",
            "minimum",
            "notifications",
            "protected_from_scale_in",
            "size",
            "subnets",
            "suspended",
            "tags",
            "template_version",
        }
    ),
)
