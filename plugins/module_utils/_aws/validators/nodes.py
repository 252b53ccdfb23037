# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the options that determine how nodes are launched, such as key pair, instance type, image and placement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Mapping

from ..client import ClientError, ClusterError, if_exists
from ..component import Request
from ..error_codes import DENIED, error_code, is_missing
from ..message_parts import P
from ..network import adopted
from ..network.zones import available, name_advice, offering, zones
from ..node_group import instance_types, private_key, volumes
from ..node_group.definition import PLACEMENT_GROUP, clustered, desired_workers
from ..node_group.placement import STRATEGY
from ..plan.resources import Found
from ..tags import NODES_COMPONENT
from ..validator import Level, Validator
from .account import quotas

# The name of the Amazon VPC quota.
GROUPS_PER_INTERFACE = "Security groups per network interface"
DEFAULT_GROUPS_PER_INTERFACE = 5
# The number of security groups that the cluster itself assigns to a node: one for all nodes, and one for SSH.
OWN_GROUPS = 2


class KeyPair(Validator):
    name = "key_pair"
    for_launches = True
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        name = request.options["key_name"]
        if name and not _key_pair(request):
            region = request.cloud.region
            yield (
                f"{P}key_name: there is no key pair '{name}' in {region}. Create or import this key pair, specify another key pair, or "
                "correct the region."
            )


class PrivateKey(Validator):
    """Checks that the private key belongs to the key pair, so that SSH logins succeed.

    Another validator checks whether the key pair exists.
    """

    name = "private_key"
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        path, name = request.options["private_key_file"], request.options["key_name"]
        if not path:
            return
        try:
            own = private_key.read_public_key(path)
        except ValueError as error:
            yield f"private_key_file: {error}"
            return
        pair = _key_pair(request) if name else None
        if own and pair and pair.get("PublicKey") and own != private_key.public_part(pair["PublicKey"]):
            yield (
                f"private_key_file: {path} does not belong to the key pair '{name}' ({P}key_name) in {request.cloud.region}, so SSH logins "
                f"would fail. Set private_key_file in the inventory to that key pair's file, or set {P}key_name to the key pair to which "
                "this file belongs."
            )


def _key_pair(request: Request) -> Mapping[str, Any] | None:
    describe = partial(request.cloud.retrieve_once, "ec2", "describe_key_pairs", "KeyPairs")
    return next(iter(if_exists(describe, KeyNames=[request.options["key_name"]], IncludePublicKey=True) or ()), None)


class InstanceTypeOffered(Validator):
    """Checks that the instance type is offered in the zones. Another validator checks whether the zones exist."""

    name = "instance_type_offered"
    for_launches = True
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, instance_type = request.cloud, request.options["instance_type"]
        if not instance_type:
            return
        offered = offering(cloud, instance_type)
        if not offered:
            yield f"{P}instance_type: {instance_type} is not offered in any zone of {cloud.region}. {name_advice(cloud, instance_type)}"
            return
        missing = [zone for zone in zones(request, found) if zone not in offered and zone in available(cloud)]
        if missing:
            yield (
                f"{P}instance_type: {instance_type} is not offered in {', '.join(missing)}. It is offered in {', '.join(sorted(offered))}."
            )


class RootVolumeSize(Validator):
    name = "root_volume"
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        return volumes.findings(request.options)


class RootVolumeKey(Validator):
    name = "root_volume_key"
    for_launches = True
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, key = request.cloud, request.options["root_volume_kms_key"]
        if not key:
            return
        try:
            state = cloud.client("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"]
        except ClientError as error:
            if error_code(error) == "AccessDeniedException":
                return  # the permissions for launching nodes do not include kms:DescribeKey
            if not is_missing(error) and error_code(error) != "InvalidArnException":
                raise
            yield f"{P}root_volume_kms_key: there is no key '{key}' in {cloud.region}. Specify the ID, ARN or alias (alias/NAME) of a key."
            return
        if state != "Enabled":
            yield f"{P}root_volume_kms_key: the key '{key}' is in the state {state}. Enable this key, or specify another key."


class NotifyTopic(Validator):
    name = "notify_topic"
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, topic = request.cloud, request.options["notify_topic"]
        if not topic:
            return
        if not re.fullmatch(rf"arn:[\w-]+:sns:{cloud.region}:\d{{12}}:[\w-]+", topic):
            yield (
                f"{P}notify_topic: '{topic}' is not the ARN of a standard topic in {cloud.region}. Specify the ARN of such a topic. AWS "
                "cannot send notifications to FIFO topics."
            )
            return
        try:
            cloud.client("sns").get_topic_attributes(TopicArn=topic)
        except ClientError as error:
            if error_code(error) in (*DENIED, "AuthorizationError"):
                return  # the owner of a topic decides who may read its attributes
            if not is_missing(error):
                raise
            yield f"{P}notify_topic: there is no topic '{topic}'. Create the topic, or specify the ARN of another topic."


class Efa(Validator):
    name = "efa"
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if not request.options["efa"]:
            return
        for instance_type in instance_types.in_definition(request):
            if not instance_type.most_adapters:
                relatives = instance_types.with_efa(request.cloud, instance_type.name)
                advice = (
                    f"Types in the same family that support EFA: {', '.join(relatives)}"
                    if relatives
                    else "No type in the same family supports EFA"
                )
                yield f"{P}efa: {instance_type.name} does not support EFA. {advice}. Choose another type, or set {P}efa: false."
                continue
            try:
                instance_types.interfaces(instance_type, efa=True)
            except ClusterError as error:
                yield str(error)


class EfaUnused(Validator):
    """Warns if a cluster with several nodes does not use EFA although EFA is available."""

    name = "efa_unused"
    level = Level.WARNING
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if request.options["efa"] or desired_workers(request.options) < 1:
            return
        for instance_type in instance_types.in_definition(request):
            if instance_type.most_adapters:
                yield (
                    f"{P}efa: {instance_type.name} supports EFA at no extra cost, but the nodes do not use it. "
                    f"For a fast network between the nodes, set {P}efa: true."
                )


class SuspendedProcesses(Validator):
    name = "suspended_processes"
    level = Level.WARNING
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        for group in found:
            suspended = group.attributes["suspended_by_others"] if group.address.kind == "auto_scaling_group" else []
            if suspended:
                yield (
                    f"Auto Scaling group {group.id}: these processes were suspended outside this collection: {', '.join(suspended)}. "
                    f"This run does not resume these processes. To resume the processes, run: aws autoscaling resume-processes "
                    f"--auto-scaling-group-name {group.id} --scaling-processes {' '.join(suspended)}"
                )


class Placement(Validator):
    name = "placement"
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        if options["placement"] == "none" and options["placement_group"]:
            yield (
                f"{P}placement_group: {options['placement_group']} cannot be combined with {P}placement: none. Remove one of these options."
            )
            return
        if not clustered(options):
            return
        for instance_type in instance_types.in_definition(request):
            if STRATEGY not in instance_type.placement_strategies:
                yield (
                    f"{P}placement: {instance_type.name} does not support placement groups with the strategy {STRATEGY}. "
                    f"Choose another type, or set {P}placement: none."
                )


class PlacementGroup(Validator):
    name = "placement_group"
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        name = request.options["placement_group"]
        if not name:
            return
        group = next((item for item in found if item.address == PLACEMENT_GROUP), None)
        if group is None:
            yield f"{P}placement_group: there is no placement group '{name}' in {request.cloud.region}. Create it, or remove the option."
        elif group.properties["strategy"] != STRATEGY:
            yield (
                f"{P}placement_group: {name} has the strategy {group.properties['strategy']}. "
                f"Specify a placement group with the strategy {STRATEGY}."
            )


class AdditionalGroups(Validator):
    """Checks that the additional security groups are in the cluster's VPC, and that their number is within the limit per interface."""

    name = "additional_groups"
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        option, ids = "additional_security_group_ids", request.options["additional_security_group_ids"]
        if not ids:
            return
        most = _groups_per_interface(request) - OWN_GROUPS
        if len(set(ids)) > most:
            yield (
                f"{P}{option}: {len(set(ids))} groups exceed the limit, because each node is also in {OWN_GROUPS} groups of the cluster. "
                f"Specify at most {most}, or request an increase of '{GROUPS_PER_INTERFACE}' in Service Quotas."
            )
        vpc = request.options["vpc_id"]
        if not vpc:
            yield (
                f"{P}{option}: this option requires {P}vpc_id, because AWS does not delete a VPC that contains your own security groups. "
                f"Set {P}vpc_id."
            )
            return
        existing = {group["GroupId"]: group["VpcId"] for group in adopted.groups(request.cloud, ids)}
        for identifier in ids:
            if identifier not in existing:
                yield (
                    f"{P}{option}: there is no security group '{identifier}' in {request.cloud.region}. Specify an existing security group."
                )
            elif existing[identifier] != vpc:
                yield (
                    f"{P}{option}: {identifier} is in {existing[identifier]}, not in {vpc} ({P}vpc_id). Specify a security group in that "
                    "VPC."
                )


def _groups_per_interface(request: Request) -> int:
    """Return the quota for security groups per network interface, or the default quota if Service Quotas cannot be read."""
    known = quotas(request.cloud, "vpc") or []
    return next((int(quota.value) for quota in known if quota.name == GROUPS_PER_INTERFACE), DEFAULT_GROUPS_PER_INTERFACE)
