"""Auto Scaling groups that launch, replace, and terminate instances."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Any, cast

from moto.autoscaling import models
from moto.autoscaling.exceptions import ValidationError
from moto.autoscaling.models import ASG_NAME_TAG, AutoScalingBackend, FakeAutoScalingGroup, InstanceState
from moto.ec2.exceptions import EC2ClientError

from ..capacity import ON_DEMAND, SPOT
from ..cloudtrail import events
from ..context import CLOUD
from ..ec2.admission import market
from ..ec2.instances import ENDING
from ..ec2.launch import Data, check, launch, with_template
from . import activities, notifications

LOG = logging.getLogger(__name__)
ACTIVE = ("Pending", "InService")
LOST = "an instance was taken out of service in response to an EC2 health check indicating it has been terminated or stopped."
REPORTED = "an instance was taken out of service in response to a user health-check."


class Member(InstanceState):
    """An instance of a group."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.activity: activities.Activity | None = None
        """The group's current activity for this instance, such as its launch."""
        self.launched_from: dict[str, Any] | None = None
        self.lost_at: float | None = None
        """When the group first detected that the instance was not running."""
        self.in_service_at = time.time()

    @property
    def launch_template(self) -> dict[str, Any] | None:
        """The template from which the instance was launched, or None if the instance terminates or the template was deleted."""
        templates = self.instance.ec2_backend.launch_templates
        known = self.launched_from and self.launched_from["LaunchTemplateId"] in templates
        return self.launched_from if known and self.lifecycle_state != "Terminating" else None


class Group(FakeAutoScalingGroup):
    """A group that launches instances only in `reconcile`, never within an API call."""

    min_size: int
    max_size: int
    desired_capacity: int
    instance_states: list[Member]  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.retry_at = 0.0
        self.status: str | None = None
        self.deleting = False
        self.terminates_all = False
        self.deletion_protection = "none"
        self.request = ""
        """What the next launches or terminations are a result of, as their causes say."""
        self.suspension_reasons: dict[str, str] = {}
        """The suspended processes, and the reason for each suspension."""
        self.notifications: dict[str, list[str]] = {}
        """The types of notifications that are sent to each SNS topic."""
        super().__init__(*args, **kwargs)
        self.created_time = CLOUD.utcnow().isoformat()

    def asked(self, what: str, before: int) -> None:
        """Record a request that has changed the desired capacity, for the causes of the activities that follow from it.

        Texts: Amazon EC2 Auto Scaling User Guide, "Verify a scaling activity for an Auto Scaling group", and answers of AWS.
        """
        if before != self.desired_capacity:
            changed = f"changing the desired capacity from {before} to {self.desired_capacity}."
            self.request = f"{activities.at(f'a user request {what} {changed}')}  "

    def set_desired_capacity(self, new_capacity: int | None) -> None:
        self.desired_capacity = self.min_size if new_capacity is None else new_capacity
        self.retry_now()

    def retry_now(self) -> None:
        """Reconcile immediately, and retry failed launches."""
        self.retry_at = 0.0
        CLOUD.wake.set()

    @property
    def suspended_processes(self) -> list[dict[str, str]]:
        return [{"ProcessName": name, "SuspensionReason": reason} for name, reason in sorted(self.suspension_reasons.items())]

    @suspended_processes.setter
    def suspended_processes(self, processes: list[str]) -> None:
        reason = f"User suspended at {CLOUD.utcnow():%Y-%m-%dT%H:%M:%SZ}"
        self.suspension_reasons = {name: self.suspension_reasons.get(name, reason) for name in processes}

    def active_instances(self) -> list[Member]:  # type: ignore[override]
        return [each for each in self.instance_states if each.lifecycle_state in ACTIVE]

    def reconcile(self) -> None:
        """Track the states of instances, replace unhealthy ones, and launch or terminate instances."""
        for member in list(self.instance_states):
            self._follow_instance(member)
        if self.deleting:
            self._finish_deletion()
            return
        if not self._suspended("ReplaceUnhealthy", "Terminate"):
            self._terminate_unhealthy()
        surplus = len(self.active_instances()) - self.desired_capacity
        if surplus > 0 and not self._suspended("Terminate"):
            self._scale_in(surplus)
        elif surplus < 0 and not self._suspended("Launch") and time.time() >= self.retry_at:
            self._scale_out(-surplus)
        elif surplus:
            return
        self.request = ""

    def delete(self, *_: Any) -> None:
        """Start deleting the group. After a while, `reconcile` terminates all instances and removes the group."""
        if not self.deleting:
            CLOUD.clock.after(CLOUD.delays.group_deletion, self.terminate_all)
        self.deleting, self.status = True, "Delete in progress"
        self.min_size = self.max_size = self.desired_capacity = 0
        CLOUD.wake.set()

    def terminate_all(self) -> None:
        self.terminates_all = True

    def terminate(self, member: Member, cause: str, request: str = "") -> activities.Activity:
        """Terminate an instance, and return the activity."""
        member.lifecycle_state = "Terminating"
        if member.activity:
            activities.end(member.activity, "Cancelled")
        member.activity = activities.begin(self, f"Terminating EC2 instance: {member.instance_id}", cause, request=request)
        member.instance.terminate()
        ended = {"instancesSet": {"items": [{"instanceId": member.instance_id}]}}
        events.record_of_auto_scaling(self.region, "TerminateInstances", ended, ended)
        return member.activity

    def launch_data(self) -> Data:
        """Return the launch data of this group. Raises the EC2 error for a resource that does not exist."""
        tags = {**self.get_propagated_tags(), ASG_NAME_TAG: self.name}
        data = with_template(
            self.ec2_backend,
            {
                "LaunchTemplate": {"LaunchTemplateId": self._template_id(), "Version": self.launch_template_version},
                "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}],
            },
        )
        if self.placement_group:
            data.setdefault("Placement", {})["GroupName"] = self.placement_group
        for instance_type in self._types(data):
            check(self.ec2_backend, {**data, "InstanceType": instance_type})
        return data

    def spans_zones(self) -> bool:
        return len({each.availability_zone for each in self._subnets()}) > 1

    def _template_id(self) -> str:
        if self.ec2_launch_template is None:
            raise ValidationError("Launch configurations are not available in this account. Use a launch template.")
        return str(self.ec2_launch_template.id)

    def _suspended(self, *processes: str) -> bool:
        return any(process in self.suspension_reasons for process in processes)

    def _terminate_unhealthy(self) -> None:
        for member in self.active_instances():
            if member.health_status == "Unhealthy":
                self.terminate(member, LOST if member.instance.state != "running" else REPORTED)

    def _follow_instance(self, member: Member) -> None:
        state = member.instance.state
        if member.lifecycle_state == "Pending" and state == "running":
            member.lifecycle_state, member.in_service_at = "InService", time.time()
            self._end_activity(member)
        elif member.lifecycle_state == "Pending" and state in ENDING:
            self._end_activity(
                member,
                "Cancelled",
                "Instance became unhealthy while waiting for instance to be in InService state. "
                f"Termination Reason: {member.instance.state_reason.message}",
            )
            self.instance_states.remove(member)
            self.retry_at = time.time() + CLOUD.delays.launch_retry
        elif member.lifecycle_state == "Terminating" and state == "terminated":
            self._end_activity(member)
            self.instance_states.remove(member)
        elif member.lifecycle_state == "InService" and state != "running" and not self._suspended("HealthCheck"):
            member.lost_at = member.lost_at or time.time()
            if time.time() >= member.lost_at + CLOUD.delays.group_health_check:
                member.health_status = "Unhealthy"

    def _end_activity(self, member: Member, status: str = "Successful", message: str | None = None) -> None:
        if member.activity:
            activities.end(member.activity, status, message)
            notifications.publish(self, member.activity, member.instance_id)
            member.activity = None

    def _finish_deletion(self) -> None:
        for member in self.instance_states if self.terminates_all else ():
            if member.lifecycle_state != "Terminating":
                self.terminate(member, "an instance was taken out of service in response to the deletion of its group.")
        if not self.instance_states:
            self.autoscaling_backend.autoscaling_groups.pop(self.name, None)

    def _scale_in(self, count: int) -> None:
        for _ in range(count):
            active = self.active_instances()
            # Scale-in protection starts when an instance is in service
            candidates = [each for each in active if not each.protected_from_scale_in or each.lifecycle_state == "Pending"]
            if not candidates:
                return
            counts = Counter(each.availability_zone for each in active)
            newest = "NewestInstance" in self.termination_policies
            victim = min(
                candidates,
                key=lambda each: (-counts[each.availability_zone], each.instance.launch_time.timestamp() * (-1 if newest else 1)),
            )
            self.terminate(
                victim,
                "an instance was taken out of service in response to a difference between desired and actual capacity, "
                f"shrinking the capacity from {len(active)} to {len(active) - 1}.  "
                + activities.at(f"instance {victim.instance_id} was selected for termination."),
                self.request,
            )

    def _scale_out(self, count: int) -> None:
        for _ in range(count):
            failure = self._launch_one()
            if failure:
                message = f"{failure} Launching EC2 instance failed."
                description = f"Launching a new EC2 instance.  Status Reason: {message}"
                activity = activities.begin(self, description, self._cause(), request=self.request)
                activities.end(activity, "Failed", message)
                notifications.publish(self, activity)
                self.retry_at = time.time() + CLOUD.delays.launch_retry
                return

    def _launch_one(self) -> str:
        """Launch one instance.

        Return the reason for a failure, or ''. Types are tried in order, and for each type, the zones with the fewest instances first.
        """
        try:
            data = self.launch_data()
        except EC2ClientError as error:
            return str(error.message)
        counts = Counter(each.availability_zone for each in self.active_instances())
        subnets = sorted(self._subnets(), key=lambda subnet: counts[subnet.availability_zone])
        failure = ""
        for instance_type in self._types(data):
            for subnet in subnets:
                try:
                    reservation = launch(self.ec2_backend, {**data, "InstanceType": instance_type}, subnet)
                except EC2ClientError as error:
                    kind = "Spot" if market(data) == SPOT else "On-Demand"
                    failure = failure or f"Could not launch {kind} Instances. {error.code} - {error.message}"
                    continue
                self._add(reservation.instances[0], subnet, data)
                return ""
        return failure

    def _add(self, instance: Any, subnet: Any, data: Data) -> None:
        instance.autoscaling_group = self
        member = Member(instance, "Pending", protected_from_scale_in=self.new_instances_protected_from_scale_in)
        member.launched_from = {**(self.launch_template or {}), **data["LaunchTemplate"]}
        description = f"Launching a new EC2 instance: {instance.id}"
        member.activity = activities.begin(self, description, self._cause(), subnet, self.request)
        self.instance_states.append(member)
        described = {
            "instanceId": instance.id,
            "instanceType": instance.instance_type,
            "imageId": instance.image_id,
            "subnetId": subnet.id,
            "vpcId": subnet.vpc_id,
            "placement": {"availabilityZone": subnet.availability_zone},
            **({} if instance.market == ON_DEMAND else {"instanceLifecycle": instance.market}),
        }
        launched = {"instancesSet": {"items": [described]}}
        template = {"launchTemplateId": self._template_id(), "version": str(data["LaunchTemplate"]["Version"])}
        asked = {
            "subnetId": subnet.id,
            "availabilityZone": subnet.availability_zone,
            "instancesSet": {"items": [{"minCount": 1, "maxCount": 1}]},
            "tagSpecificationSet": {"items": [{"resourceType": "instance", "tags": [{"key": ASG_NAME_TAG, "value": self.name}]}]},
            "launchTemplate": template,
            **({"instanceType": instance.instance_type} if self.mixed_instances_policy else {}),
        }
        events.record_of_auto_scaling(self.region, "RunInstances", asked, launched)

    def _cause(self) -> str:
        have = len(self.active_instances())
        return (
            "an instance was started in response to a difference between desired and actual capacity, "
            f"increasing the capacity from {have} to {have + 1}."
        )

    def _subnets(self) -> list[Any]:
        if self.vpc_zone_identifier:
            return [self.ec2_backend.get_subnet(each.strip()) for each in self.vpc_zone_identifier.split(",")]
        defaults = self.ec2_backend.get_default_subnets()
        return [defaults[zone] for zone in self.availability_zones if zone in defaults]

    def _types(self, data: Data) -> list[str]:
        overrides = (self.mixed_instances_policy or {}).get("LaunchTemplate", {}).get("Overrides") or []
        return [each["InstanceType"] for each in overrides if each.get("InstanceType")] or [data["InstanceType"]]


models.FakeAutoScalingGroup, models.InstanceState = Group, Member  # type: ignore[misc]


def all_groups() -> list[Group]:
    """Return the groups in all accounts and regions."""
    return [
        group
        for _account, _region, backend in list(cast(Any, models.autoscaling_backends).iter_backends())
        for group in backend.autoscaling_groups.values()
    ]


def retry_all() -> None:
    """Make all groups retry failed launches, because capacity has changed."""
    for group in all_groups():
        group.retry_now()


def reconcile_all() -> None:
    """Reconcile all groups."""
    for group in all_groups():
        try:
            group.reconcile()
        except Exception:  # an error in one group must not prevent the reconciliation of other groups
            LOG.exception("Group %s could not be reconciled", group.name)


def find_group(backend: AutoScalingBackend, name: str) -> Group:
    """Return the group with this name. Raises `ValidationError`."""
    try:
        group = backend.autoscaling_groups[name]
    except KeyError:
        raise ValidationError(f"AutoScalingGroup name not found - AutoScalingGroup '{name}' not found") from None
    return cast(Group, group)


def find_member(backend: AutoScalingBackend, instance_id: str) -> tuple[Group, Member]:
    """Return the group of an instance, and the instance as a member of that group. Raises `ValidationError`."""
    groups: Any = backend.autoscaling_groups
    for group in groups.values():
        for member in group.instance_states:
            if member.instance_id == instance_id:
                return group, member
    raise ValidationError(f"Instance Id not found - No managed instance found for instance ID: {instance_id}")
