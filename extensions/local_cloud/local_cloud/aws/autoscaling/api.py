"""The API of Auto Scaling groups."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, cast

from moto.autoscaling.exceptions import AutoscalingClientError, ValidationError
from moto.autoscaling.models import AutoScalingBackend
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.exceptions import EC2ClientError

from ..context import CLOUD
from ..ec2.placement_groups import find_placement_group
from ..override import check_before, override
from . import notifications
from .activities import activities
from .groups import Group, find_group, find_member

# Fields of an activity, and the filter or parameter with their allowed values.
FILTERED = {"StatusCode": "Status", "ActivityId": "ActivityIds"} | {name: name for name in ("AutoScalingGroupName", "AutoScalingGroupARN")}

moto_create_group = AutoScalingResponse.create_auto_scaling_group
moto_update_group = AutoScalingResponse.update_auto_scaling_group


def _check_group(response: AutoScalingResponse) -> None:
    """Raise `ValidationError` for a group that does not exist."""
    find_group(response.autoscaling_backend, response._get_param("AutoScalingGroupName"))


for _action in (
    "attach_instances",
    "detach_instances",
    "suspend_processes",
    "enter_standby",
    "exit_standby",
    "set_instance_protection",
    "enable_metrics_collection",
    "put_lifecycle_hook",
    "put_scaling_policy",
):
    check_before(AutoScalingResponse, _action, _check_group)


@override(AutoScalingResponse)
def create_auto_scaling_group(self: AutoScalingResponse) -> EmptyResult:
    """Create the group. Raises `ValidationError` for references to resources that do not exist."""
    backend, name = self.autoscaling_backend, self._get_param("AutoScalingGroupName")
    if name in backend.autoscaling_groups:
        raise AutoscalingClientError(
            "AlreadyExists", f"AutoScalingGroup by this name already exists - A group with the name {name} already exists"
        )
    least, most = self._get_int_param("MinSize", 0), self._get_int_param("MaxSize", 0)
    desired = self._get_int_param("DesiredCapacity")
    _check_bounds(least, most, least if desired is None else desired)
    _check_references(backend, self)
    moto_create_group(self)
    group = find_group(backend, name)
    group.health_check_grace_period = self._get_int_param("HealthCheckGracePeriod", 0)
    group.deletion_protection = self._get_param("DeletionProtection") or "none"
    try:
        _check_launch(group)
    except ValidationError:
        del backend.autoscaling_groups[name]
        raise
    group.asked("created an AutoScalingGroup", 0)
    return EmptyResult()


@override(AutoScalingResponse)
def update_auto_scaling_group(self: AutoScalingResponse) -> EmptyResult:
    """Change the given properties, and keep the desired capacity between minimum and maximum.

    The launch is tested only if the request changes how or where the group launches instances. According to the documentation, AWS tests
    the caller's permissions to launch instances in these cases, too. Other changes succeed even if a resource of the template, such as a
    key pair, was deleted after the group was created.
    https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-launch-template-permissions.html
    """
    group = find_group(self.autoscaling_backend, self._get_param("AutoScalingGroupName"))
    if group.deleting:
        raise ValidationError(f"AutoScalingGroup '{group.name}' is being deleted")
    least = self._get_int_param("MinSize", group.min_size)
    most = self._get_int_param("MaxSize", group.max_size)
    desired = self._get_int_param("DesiredCapacity")
    if desired is None:
        desired = max(least, min(most, group.desired_capacity))
    _check_bounds(least, most, desired)
    _check_references(self.autoscaling_backend, self)
    self.params["DesiredCapacity"] = desired
    policy, before = group.mixed_instances_policy, dict(group.__dict__)
    moto_update_group(self)
    if not self._get_param("LaunchTemplate") and not self._get_param("MixedInstancesPolicy"):
        group.mixed_instances_policy = policy
    group.deletion_protection = self._get_param("DeletionProtection") or group.deletion_protection
    group.default_cooldown = self._get_int_param("DefaultCooldown", group.default_cooldown)
    group.termination_policies = self._get_param("TerminationPolicies") or group.termination_policies
    group.placement_group = self._get_param("PlacementGroup") or group.placement_group
    if any(self._get_param(name) for name in ("LaunchTemplate", "MixedInstancesPolicy", "PlacementGroup", "VPCZoneIdentifier")):
        try:
            _check_launch(group)
        except ValidationError:
            group.__dict__.update(before)
            raise
    group.asked(f"update of AutoScalingGroup constraints to min: {least}, max: {most}, desired: {desired}", before["desired_capacity"])
    return EmptyResult()


@override(AutoScalingResponse)
def set_desired_capacity(self: AutoScalingResponse) -> EmptyResult:
    group = find_group(self.autoscaling_backend, self._get_param("AutoScalingGroupName"))
    desired = self._get_int_param("DesiredCapacity", 0)
    for wrong, side, bound in (
        (desired > group.max_size, "above max", group.max_size),
        (desired < group.min_size, "below min", group.min_size),
    ):
        if wrong:
            raise ValidationError(f"New SetDesiredCapacity value {desired} is {side} value {bound} for the AutoScalingGroup.")
    before = group.desired_capacity
    group.set_desired_capacity(desired)
    group.asked("explicitly set group desired capacity", before)
    return EmptyResult()


@override(AutoScalingResponse)
def delete_auto_scaling_group(self: AutoScalingResponse) -> EmptyResult:
    """Delete an empty group immediately. A group with instances requires `ForceDelete` and remains until its instances are terminated.

    Source of deletion protection: Amazon EC2 Auto Scaling User Guide, "Configure deletion protection".
    """
    group, force = find_group(self.autoscaling_backend, self._get_param("AutoScalingGroupName")), self._get_bool_param("ForceDelete", False)
    if group.deletion_protection == "prevent-all-deletion" or (group.deletion_protection == "prevent-force-deletion" and force):
        raise ValidationError(f"AutoScalingGroup '{group.name}' has deletion protection '{group.deletion_protection}'")
    if group.instance_states and not force:
        if all(each.lifecycle_state == "Terminating" for each in group.instance_states):
            raise AutoscalingClientError(
                "ScalingActivityInProgress",
                "You cannot delete an AutoScalingGroup while there are scaling activities in progress for that group.",
            )
        raise AutoscalingClientError(
            "ResourceInUse",
            "You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) still in the group.",
        )
    group.delete()
    group.reconcile()
    return EmptyResult()


@override(AutoScalingResponse)
def terminate_instance_in_auto_scaling_group(self: AutoScalingResponse) -> ActionResult:
    group, member = find_member(self.autoscaling_backend, self._get_param("InstanceId"))
    cause = "instance " + member.instance_id + " was taken out of service in response to a user request"
    if self._get_bool_param("ShouldDecrementDesiredCapacity", False):
        if group.desired_capacity <= group.min_size:
            raise ValidationError(
                f"Currently, desiredSize equals minSize ({group.min_size}). Terminating instance without replacement will "
                "violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower "
                "group's min size."
            )
        cause += f", shrinking the capacity from {group.desired_capacity} to {group.desired_capacity - 1}"
        group.set_desired_capacity(group.desired_capacity - 1)
    activity = group.terminate(member, f"{cause}.")
    CLOUD.wake.set()
    return ActionResult({"Activity": dict(activity)})


@override(AutoScalingResponse)
def set_instance_health(self: AutoScalingResponse) -> EmptyResult:
    status = self._get_param("HealthStatus")
    if status not in ("Healthy", "Unhealthy"):
        raise ValidationError("Valid instance health states are: [Healthy, Unhealthy].")
    group, member = find_member(self.autoscaling_backend, self._get_param("InstanceId"))
    respects = self._get_bool_param("ShouldRespectGracePeriod", True)
    if status == "Healthy" or not (respects and time.time() < member.in_service_at + group.health_check_grace_period):
        member.health_status = status
    CLOUD.wake.set()
    return EmptyResult()


@override(AutoScalingResponse)
def resume_processes(self: AutoScalingResponse) -> EmptyResult:
    group = find_group(self.autoscaling_backend, self._get_param("AutoScalingGroupName"))
    self.autoscaling_backend.resume_processes(group.name, self._get_param("ScalingProcesses", []))
    group.retry_now()
    return EmptyResult()


@override(AutoScalingResponse)
def create_or_update_tags(self: AutoScalingResponse) -> EmptyResult:
    tags = self._get_param("Tags", [])
    for tag in tags:
        find_group(self.autoscaling_backend, tag["ResourceId"])
    self.autoscaling_backend.create_or_update_tags(tags)
    return EmptyResult()


@override(AutoScalingResponse)
def delete_tags(self: AutoScalingResponse) -> EmptyResult:
    tags = self._get_param("Tags", [])
    for tag in tags:
        find_group(self.autoscaling_backend, tag["ResourceId"])
    self.autoscaling_backend.delete_tags(tags)
    return EmptyResult()


@override(AutoScalingResponse)
def disable_metrics_collection(self: AutoScalingResponse) -> EmptyResult:
    group = find_group(self.autoscaling_backend, self._get_param("AutoScalingGroupName"))
    ended = self._get_param("Metrics") or group.metrics
    group.metrics = [metric for metric in group.metrics if metric not in ended]
    return EmptyResult()


@override(AutoScalingResponse)
def put_notification_configuration(self: AutoScalingResponse) -> EmptyResult:
    group = find_group(self.autoscaling_backend, self._get_param("AutoScalingGroupName"))
    notifications.configure(group, self._get_param("TopicARN"), self._get_param("NotificationTypes", []))
    return EmptyResult()


@override(AutoScalingResponse)
def delete_notification_configuration(self: AutoScalingResponse) -> EmptyResult:
    group = find_group(self.autoscaling_backend, self._get_param("AutoScalingGroupName"))
    group.notifications.pop(self._get_param("TopicARN"), None)
    return EmptyResult()


@override(AutoScalingResponse)
def describe_notification_configurations(self: AutoScalingResponse) -> ActionResult:
    names = self._get_param("AutoScalingGroupNames", [])
    return ActionResult(
        {
            "NotificationConfigurations": [
                {"AutoScalingGroupName": group.name, "TopicARN": topic, "NotificationType": kind}
                for group in cast("dict[str, Group]", self.autoscaling_backend.autoscaling_groups).values()
                if not names or group.name in names
                for topic, kinds in group.notifications.items()
                for kind in kinds
            ]
        }
    )


def _check_bounds(least: int, most: int, desired: int) -> None:
    if least > most:
        raise ValidationError(f"Max bound, {most}, must be greater than or equal to min bound, {least}")
    if not least <= desired <= most:
        raise ValidationError(f"Desired capacity:{desired} must be between the specified min size:{least} and max size:{most}")


def _check_references(backend: AutoScalingBackend, response: AutoScalingResponse) -> None:
    """Raise `ValidationError` for subnets and launch templates that do not exist."""
    for subnet in response._get_param("VPCZoneIdentifier", "").split(","):
        if subnet.strip() and not _exists(backend.ec2_backend.get_subnet, subnet.strip()):
            raise ValidationError(f"The subnet ID '{subnet.strip()}' does not exist")
    policy = response._get_param("MixedInstancesPolicy", {})
    template = response._get_param("LaunchTemplate") or policy.get("LaunchTemplate", {}).get("LaunchTemplateSpecification") or {}
    for parameter, words, find in (
        ("LaunchTemplateId", "template ID", backend.ec2_backend.get_launch_template),
        ("LaunchTemplateName", "template name", backend.ec2_backend.get_launch_template_by_name),
    ):
        if template.get(parameter) and not _exists(find, template[parameter]):
            raise _template_error(f"The specified launch template, with {words} {template[parameter]}, does not exist.")
    if (name := response._get_param("LaunchConfigurationName")) and name not in backend.launch_configurations:
        raise ValidationError(f"Launch configuration name not found - Launch configuration {name} not found")


def _check_launch(group: Group) -> None:
    """Raise `ValidationError` for a launch template that cannot launch instances, and for a cluster placement group in several zones."""
    try:
        group.launch_data()
    except EC2ClientError as error:
        raise _template_error(error.message) from None
    placement_group = group.placement_group and find_placement_group(group.ec2_backend, group.placement_group)
    if placement_group and placement_group.strategy == "cluster" and group.spans_zones():
        raise ValidationError("You cannot specify multiple Availability Zones and a cluster placement group.")


def _template_error(message: str) -> ValidationError:
    return ValidationError(f"You must use a valid fully-formed launch template. {message}")


def _exists(find: Any, identifier: str) -> bool:
    try:
        find(identifier)
    except EC2ClientError:
        return False
    return True


@override(AutoScalingResponse)
def describe_scaling_activities(self: AutoScalingResponse) -> ActionResult:
    """Return activities in pages, newest first."""
    name = self._get_param("AutoScalingGroupName")
    backend, filters = self.autoscaling_backend, _activity_filters(self)
    if not self._get_bool_param("IncludeDeletedGroups", False):
        groups = [find_group(backend, name)] if name else backend.autoscaling_groups.values()
        filters["AutoScalingGroupARN"] = [group.arn for group in groups]
    found = [activity for activity in reversed(activities(backend)) if _passes(activity, filters)]
    token = self._get_param("NextToken")
    start = next((n + 1 for n, activity in enumerate(found) if activity["ActivityId"] == token), 0)
    end = start + min(self._get_int_param("MaxRecords") or 100, 100)
    return ActionResult({"Activities": found[start:end], "NextToken": found[end - 1]["ActivityId"] if end < len(found) else None})


def _activity_filters(response: AutoScalingResponse) -> dict[str, list[str]]:
    filters = {each["Name"]: each.get("Values", []) for each in response._get_param("Filters", [])}
    name, identifiers = response._get_param("AutoScalingGroupName"), response._get_param("ActivityIds")
    if "Status" in filters and not name:
        raise ValidationError("The Status filter can only be used with an AutoScalingGroupName.")
    return filters | ({"ActivityIds": identifiers} if identifiers else {}) | ({"AutoScalingGroupName": [name]} if name else {})


def _passes(activity: dict[str, Any], filters: dict[str, list[str]]) -> bool:
    if any(activity[key] not in filters.get(name, [activity[key]]) for key, name in FILTERED.items()):
        return False
    started = activity["StartTime"].replace(tzinfo=UTC)
    earliest, latest = (_time(filters.get(f"StartTime{bound}Bound"), started) for bound in ("Lower", "Upper"))
    return earliest <= started <= latest


def _time(values: list[str] | None, default: datetime) -> datetime:
    """Return the time in a filter. A time without an offset is in UTC. Raises `ValidationError` for any other format."""
    try:
        given = datetime.fromisoformat(values[0]) if values else default
    except ValueError:
        raise ValidationError(f"Timestamp '{values}' is not in the ISO 8601 format.") from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)
