# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads and changes launch templates, auto scaling groups and their nodes. One AWS call per step."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any, Mapping

from .._aws import COMPONENT_TAG, IMAGE_TAG, KEY_TAG, Cloud, CloudError, WaitTimeout, error_code, is_missing, tag_dict, tag_list, together
from .._plan.plan import Kind
from .._plan.resources import Address, Found
from .activities import Launches, explain
from .definition import FILE_SYSTEM_TAG, NODE_TYPE_TAG, NODE_TYPES, NUMBER_TAG, assign_numbers, nodes

try:
    from botocore.exceptions import ClientError
except ImportError:
    pass  # AnsibleAWSModule reports it

COMPONENT = "nodes"
ALIVE = ("pending", "running")
NOT_YET_ACCEPTED_TIMEOUT = 120  # seconds; a new instance profile takes some to get known
Properties = Mapping[str, Any]


def read(cloud: Cloud) -> list[Found]:
    """The cluster's launch templates, groups, and the nodes that have a number."""
    found = together([lambda: _launch_templates(cloud), lambda: _groups(cloud), lambda: _nodes(cloud)])
    groups = {item.address.key: item for item in found if item.address.kind == "auto_scaling_group"}
    # Nodes belong to a group: without one there is nothing that could be changed
    result = [item for item in found if item.address.kind != "nodes"]
    for item in found:
        if item.address.kind == "nodes" and item.address.key in groups:
            group = groups[item.address.key]
            result.append(Found(item.address, group.id, {**item.properties, "group": group.id}, item.attributes))
    return result


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


def _in_group(instances: list[dict[str, Any]], group: str) -> list[dict[str, Any]]:
    return [instance for instance in instances if tag_dict(instance.get("Tags", [])).get(NODE_TYPE_TAG) == NODE_TYPES[group]]


# Launch templates


def _launch_templates(cloud: Cloud) -> Iterator[Found]:
    templates = cloud.retrieve("ec2", "describe_launch_templates", "LaunchTemplates", Filters=cloud.filters())
    with ThreadPoolExecutor(4) as pool:
        versions = pool.map(
            lambda template: cloud.ec2.describe_launch_template_versions(
                LaunchTemplateId=template["LaunchTemplateId"], Versions=["$Latest"]
            )["LaunchTemplateVersions"][0],
            templates,
        )
        for template, version in zip(templates, versions):
            tags = tag_dict(template.get("Tags", []))
            if tags.get(COMPONENT_TAG) == COMPONENT:
                yield Found(
                    Address("launch_template", tags[KEY_TAG]),
                    template["LaunchTemplateId"],
                    {
                        "name": template["LaunchTemplateName"],
                        **_template_properties(version["LaunchTemplateData"]),
                        "tags": cloud.comparable_tags(template["Tags"]),
                    },
                    {"version": version["VersionNumber"], "image_source": tags.get(IMAGE_TAG)},
                )


def _template_properties(data: Mapping[str, Any]) -> dict[str, Any]:
    interface: dict[str, Any] = next(iter(data.get("NetworkInterfaces", [])), {})
    root: dict[str, Any] = next(iter(data.get("BlockDeviceMappings", [])), {})
    return {
        "instance_type": data.get("InstanceType"),
        "image_id": data.get("ImageId"),
        "root_device": root.get("DeviceName"),
        "root_volume_size": root.get("Ebs", {}).get("VolumeSize"),
        "key_name": data.get("KeyName"),
        "instance_profile": data.get("IamInstanceProfile", {}).get("Name"),
        "security_groups": frozenset(interface.get("Groups", [])),
        "public_address": interface.get("AssociatePublicIpAddress", False),
        "user_data": base64.b64decode(data.get("UserData", "")).decode(),
    }


def _template_data(cloud: Cloud, key: str, properties: Properties) -> dict[str, Any]:
    return {
        "InstanceType": properties["instance_type"],
        "ImageId": properties["image_id"],
        "KeyName": properties["key_name"],
        "IamInstanceProfile": {"Name": properties["instance_profile"]},
        "UserData": base64.b64encode(properties["user_data"].encode()).decode(),
        "MetadataOptions": {"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        "BlockDeviceMappings": [
            {
                "DeviceName": properties["root_device"],
                "Ebs": {"VolumeSize": properties["root_volume_size"], "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True},
            }
        ],
        "NetworkInterfaces": [
            {
                "DeviceIndex": 0,
                "AssociatePublicIpAddress": properties["public_address"],
                "Groups": sorted(properties["security_groups"]),
                "DeleteOnTermination": True,
            }
        ],
        "TagSpecifications": [{"ResourceType": "volume", "Tags": tag_list(cloud.tags(COMPONENT, key, properties["name"]))}],
    }


def _create_template(cloud: Cloud, address: Address, properties: Properties) -> Found:
    template = cloud.ec2.create_launch_template(
        LaunchTemplateName=properties["name"],
        LaunchTemplateData=_template_data(cloud, address.key, properties),
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": tag_list(properties["tags"])}],
    )["LaunchTemplate"]
    return Found(address, template["LaunchTemplateId"], properties)


def _update_template(cloud: Cloud, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    if changed - {"tags"}:
        version = cloud.ec2.create_launch_template_version(
            LaunchTemplateId=found.id, LaunchTemplateData=_template_data(cloud, found.address.key, properties)
        )["LaunchTemplateVersion"]["VersionNumber"]
        cloud.ec2.modify_launch_template(LaunchTemplateId=found.id, DefaultVersion=str(version))
    if "tags" in changed:
        cloud.ec2.create_tags(Resources=[found.id], Tags=tag_list(properties["tags"]))


def _delete_template(cloud: Cloud, found: Found) -> None:
    cloud.once_unused(cloud.ec2.delete_launch_template, LaunchTemplateId=found.id)


# Auto scaling groups


def _groups(cloud: Cloud) -> Iterator[Found]:
    for group in cloud.retrieve("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", Filters=cloud.filters()):
        tags = tag_dict(group["Tags"])
        if tags.get(COMPONENT_TAG) != COMPONENT or group.get("Status"):
            continue  # a status means that the group is being deleted
        yield Found(
            Address("auto_scaling_group", tags[KEY_TAG]),
            group["AutoScalingGroupName"],
            {
                "name": group["AutoScalingGroupName"],
                "launch_template": group.get("LaunchTemplate", {}).get("LaunchTemplateId"),
                "minimum": group["MinSize"],
                "size": group["DesiredCapacity"],
                "subnets": frozenset(filter(None, group["VPCZoneIdentifier"].split(","))),
                "suspended": frozenset(process["ProcessName"] for process in group["SuspendedProcesses"]),
                "tags": _comparable_group_tags(cloud, tags),
            },
            {"instances": [instance["InstanceId"] for instance in group["Instances"]]},
        )


def _comparable_group_tags(cloud: Cloud, tags: Mapping[str, str]) -> dict[str, str]:
    own = {name: tags[name] for name in (FILE_SYSTEM_TAG, NODE_TYPE_TAG) if name in tags}
    return {**cloud.comparable_tags(tag_list(tags)), **own}


def _group_tags(name: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"ResourceId": name, "ResourceType": "auto-scaling-group", "Key": key, "Value": value, "PropagateAtLaunch": True}
        for key, value in tags.items()
    ]


def _create_group(cloud: Cloud, address: Address, properties: Properties) -> Found:
    name = properties["name"]
    refusals: list[Exception] = []

    def create() -> bool:
        try:
            cloud.once_visible(
                cloud.autoscaling.create_auto_scaling_group,
                AutoScalingGroupName=name,
                LaunchTemplate={"LaunchTemplateId": properties["launch_template"], "Version": "$Latest"},
                MinSize=properties["minimum"],
                MaxSize=properties["size"],
                DesiredCapacity=properties["size"],
                VPCZoneIdentifier=",".join(sorted(properties["subnets"])),
                HealthCheckType="EC2",
                Tags=_group_tags(name, properties["tags"]),
            )
        except ClientError as error:
            if not _not_yet_accepted(error):
                raise
            refusals.append(error)
            return False
        return True

    try:
        cloud.wait_until(f"Auto scaling group {name}", create, timeout=min(cloud.wait_timeout, NOT_YET_ACCEPTED_TIMEOUT))
    except WaitTimeout as error:
        raise refusals[-1] from error
    found = Found(address, name, {**properties, "suspended": frozenset()})
    _update_group(cloud, found, properties, frozenset({"suspended"}))
    return Found(address, name, properties)


def _not_yet_accepted(error: Exception) -> bool:
    """Whether AWS refuses because it has not seen the new instance profile or launch template yet, or the old group is going away."""
    message = str(error)
    if error_code(error) == "ValidationError":
        return "Invalid IAM Instance Profile" in message or ("launch template" in message and "does not exist" in message)
    return error_code(error) == "AlreadyExists" and "pending delete" in message


def _update_group(cloud: Cloud, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    settings: dict[str, Any] = {}
    if "size" in changed and properties["size"] < found.properties["size"]:
        _remove_highest_numbers(cloud, found, properties)
    if changed & {"size", "minimum"}:
        settings = {"MinSize": properties["minimum"], "MaxSize": properties["size"], "DesiredCapacity": properties["size"]}
    if "subnets" in changed:
        settings["VPCZoneIdentifier"] = ",".join(sorted(properties["subnets"]))
    if "launch_template" in changed:
        settings["LaunchTemplate"] = {"LaunchTemplateId": properties["launch_template"], "Version": "$Latest"}
    if settings:
        cloud.autoscaling.update_auto_scaling_group(AutoScalingGroupName=found.id, **settings)
    if "suspended" in changed:
        _suspend(cloud, found.id, before=found.properties["suspended"], after=properties["suspended"])
    if "tags" in changed:
        cloud.autoscaling.create_or_update_tags(Tags=_group_tags(found.id, properties["tags"]))


def _suspend(cloud: Cloud, name: str, *, before: frozenset[str], after: frozenset[str]) -> None:
    """Suspends what is to be; resumes others, which AWS too suspends when launches fail for a day."""
    for call, processes in ((cloud.autoscaling.suspend_processes, after - before), (cloud.autoscaling.resume_processes, before - after)):
        if processes:
            call(AutoScalingGroupName=name, ScalingProcesses=sorted(processes))


def _remove_highest_numbers(cloud: Cloud, found: Found, properties: Properties) -> None:
    """Ends the surplus nodes with the highest numbers; left to itself AWS would choose by age and zone."""
    in_group = [instance for instance in live_instances(cloud) if instance["InstanceId"] in found.attributes["instances"]]
    # Nodes without a number go first
    surplus = sorted(in_group, key=lambda instance: number_of(instance) or 10**6, reverse=True)[
        : max(len(in_group) - properties["size"], 0)
    ]
    if found.properties["minimum"] > properties["minimum"] or found.properties["minimum"] > properties["size"]:
        cloud.autoscaling.update_auto_scaling_group(AutoScalingGroupName=found.id, MinSize=min(properties["minimum"], properties["size"]))
    for instance in surplus:
        cloud.once_unused(
            cloud.autoscaling.terminate_instance_in_auto_scaling_group,
            InstanceId=instance["InstanceId"],
            ShouldDecrementDesiredCapacity=True,
        )


def _delete_group(cloud: Cloud, found: Found) -> None:
    cloud.once_unused(cloud.autoscaling.delete_auto_scaling_group, AutoScalingGroupName=found.id, ForceDelete=True)

    def gone() -> bool:
        groups = cloud.retrieve("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", AutoScalingGroupNames=[found.id])
        leaving = _in_group(live_instances(cloud, "pending", "running", "shutting-down", "stopping", "stopped"), found.address.key)
        return not groups and not leaving

    cloud.wait_until(f"Deletion of auto scaling group {found.id} and its instances", gone)


# Nodes


def _nodes(cloud: Cloud) -> Iterator[Found]:
    instances = live_instances(cloud)
    for group in NODE_TYPES:
        members = _in_group(instances, group)
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


def find_image(cloud: Cloud, image_id: str) -> dict[str, Any]:
    """The image as EC2 describes it. Raises CloudError if there is none."""
    try:
        images = cloud.ec2.describe_images(ImageIds=[image_id])["Images"]
    except ClientError as error:
        if not is_missing(error) and error_code(error) != "InvalidAMIID.Malformed":
            raise
        images = []
    if not images:
        raise CloudError(f"image_id: there is no image {image_id} in {cloud.region} that this account may use.")
    return dict(images[0])


def root_volume_size(image: Mapping[str, Any]) -> int:
    """The least size of the root volume in GiB, that of the image's snapshot; 0 if the image does not say."""
    disks = {disk["DeviceName"]: disk.get("Ebs", {}) for disk in image.get("BlockDeviceMappings", [])}
    return int(disks.get(image["RootDeviceName"], {}).get("VolumeSize", 0))


KINDS = (
    Kind(
        "launch_template",
        _create_template,
        _delete_template,
        update=_update_template,
        updatable=frozenset(
            {
                "instance_type",
                "image_id",
                "root_device",
                "root_volume_size",
                "key_name",
                "instance_profile",
                "security_groups",
                "public_address",
                "user_data",
                "tags",
            }
        ),
        deleted_after=("auto_scaling_group",),
    ),
    Kind(
        "auto_scaling_group",
        _create_group,
        _delete_group,
        update=_update_group,
        updatable=frozenset({"launch_template", "minimum", "size", "subnets", "suspended", "tags"}),
    ),
    Kind("nodes", _create_nodes, _delete_nodes, update=_update_nodes, updatable=frozenset({"numbers", "group"})),
)
