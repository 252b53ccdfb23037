# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators of EMR clusters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import AwsClient, ClientError, error_code, is_missing
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import definition, resources
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import adopted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.zones import offering
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import images, instance_types
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.tags import EMR_COMPONENT
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validator import Level, Validator

RELEASE = re.compile(r"emr-(?:[a-z]+-)?(\d+)\.(\d+)\.(\d+)")
FIRST_WITH_CUSTOM_IMAGES = (5, 7, 0)
FIRST_WITH_LARGER_ROOT = (6, 10, 0)
LOG_URI = re.compile(r"(?i:s3[an]?)://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/.*)?")
SCRIPT = re.compile(r"(s3[an]?|file)://.+|/.+", re.IGNORECASE)
MOST_BOOTSTRAP_ACTIONS = 16
MOST_STEPS = 256
MOST_CHARACTERS = 256
COUNTS = {"emr_core_count": "core", "emr_task_count": "task"}
FOREIGN_SYSTEMS = re.compile(r"ubuntu|debian|rhel|suse|windows", re.IGNORECASE)


def release(label: str | None) -> tuple[int, ...] | None:
    """Return the numbers of a release label, or None for a label in another form."""
    found = RELEASE.fullmatch(label or "")
    return tuple(map(int, found.groups())) if found else None


class EmrOptions(Validator):
    """Checks everything that needs no API call."""

    name = "emr_options"
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        yield from _check_release(options)
        yield from _check_nodes(options)
        yield from _check_groups(options)
        yield from _check_bootstrap_actions(options["emr_bootstrap_actions"])
        yield from _check_steps(options["emr_steps"])
        yield from _check_duplicates("emr_applications", options["emr_applications"])
        uri = options["emr_log_uri"]
        if uri and not LOG_URI.fullmatch(uri):
            yield f"emr_log_uri: '{uri}' is not a location in S3. Specify a location such as s3://bucket/logs/."


def _check_release(options: Mapping[str, Any]) -> Iterator[str]:
    label = options["emr_release_label"]
    version = release(label)
    if not label:
        yield "emr_release_label: missing. Specify a release, for example emr-7.9.0."
    elif not version:
        yield f"emr_release_label: '{label}' is not a release label. Specify a label such as emr-7.9.0."
    elif options["emr_image_id"] and version < FIRST_WITH_CUSTOM_IMAGES:
        yield f"emr_image_id: {label} does not support custom images. Remove this option, or choose release emr-5.7.0 or later."
    size = options["emr_root_volume_size"]
    smallest = 15 if version and version >= FIRST_WITH_LARGER_ROOT else 10
    if size is not None and size < smallest:
        yield f"emr_root_volume_size: {size} GiB is too small. Specify at least {smallest} GiB for {label}."


def _check_nodes(options: Mapping[str, Any]) -> Iterator[str]:
    if not options["emr_instance_type"]:
        yield "emr_instance_type: missing. Specify an instance type, for example p4d.24xlarge."
    if options["emr_core_count"] is None:
        yield "emr_core_count: missing. Specify the number of core nodes besides the master. With 0, the master is the only node."
    for name, role in COUNTS.items():
        if options[name] is not None and options[name] < 0:
            yield f"{name}: {options[name]} is not valid. Specify the number of {role} nodes."
    if options["emr_task_count"] > 0 and options["emr_core_count"] == 0:
        yield "emr_task_count: task nodes require at least one core node. Set emr_core_count to at least 1."
    if options["emr_core_instance_type"] and options["emr_core_count"] == 0:
        yield "emr_core_instance_type: the cluster has no core nodes (emr_core_count: 0). Remove one of these options."


def _check_groups(options: Mapping[str, Any]) -> Iterator[str]:
    named = {name for name, value in options["emr_security_group_ids"].items() if value}
    if named and not {"master", "workers"} <= named:
        missing = " and ".join(sorted({"master", "workers"} - named))
        yield f"emr_security_group_ids: {missing} missing. EMR needs the groups of the master and the workers together. Set both, or none."


def _check_bootstrap_actions(actions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(actions) > MOST_BOOTSTRAP_ACTIONS:
        yield f"emr_bootstrap_actions: {len(actions)} actions exceed the limit. Specify at most {MOST_BOOTSTRAP_ACTIONS}."
    for action in actions:
        if not SCRIPT.fullmatch(action["path"]):
            yield (
                f"emr_bootstrap_actions: '{action['path']}' is not the location of a script. Specify a location in S3, such as "
                "s3://bucket/script.sh, or a path on the nodes."
            )
        if not 0 < len(action["name"]) <= MOST_CHARACTERS:
            yield f"emr_bootstrap_actions: the name of {action['path']} is not valid. Use 1 to {MOST_CHARACTERS} characters."


def _check_steps(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(steps) > MOST_STEPS:
        yield f"emr_steps: {len(steps)} steps exceed the limit. Specify at most {MOST_STEPS}."
    yield from _check_duplicates("emr_steps", [each["name"] for each in steps])
    if any(not 0 < len(each["name"]) <= MOST_CHARACTERS for each in steps):
        yield f"emr_steps: a step has no valid name. Use 1 to {MOST_CHARACTERS} characters."


def _check_duplicates(option: str, names: Sequence[str]) -> Iterator[str]:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        yield f"{option}: {', '.join(map(repr, repeated))} is named more than once. Names identify entries. Use each name once."


class EmrRoles(Validator):
    """Checks that the roles exist, and that EMR and EC2 may assume them. A cluster with other roles ends while it starts."""

    name = "emr_roles"
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, options = request.cloud, request.options
        creates = options["emr_create_default_roles"]
        name = options["emr_service_role"]
        role = resources.described_role(cloud, name)
        if role:
            yield from _check_trust("emr_service_role", name, role, "elasticmapreduce")
        elif not (creates and name == definition.DEFAULT_SERVICE_ROLE):
            yield f"emr_service_role: there is no role '{name}'. {_advice(name == definition.DEFAULT_SERVICE_ROLE)}"
        name = options["emr_instance_profile"]
        profile = next(iter(resources.described_profile(cloud, name)), None)
        if profile and profile["Roles"]:
            yield from _check_trust("emr_instance_profile", profile["Roles"][0]["RoleName"], profile["Roles"][0], "ec2")
        elif creates and name == definition.DEFAULT_PROFILE:
            return
        elif profile:
            yield f"emr_instance_profile: {name} contains no role. Add a role to it, or specify another profile."
        else:
            yield f"emr_instance_profile: there is no instance profile '{name}'. {_advice(name == definition.DEFAULT_PROFILE)}"


def _advice(is_default: bool) -> str:
    return "To create it, set emr_create_default_roles: true." if is_default else "Create it, or specify another one."


def _check_trust(option: str, name: str, role: Mapping[str, Any], service: str) -> Iterator[str]:
    document = role.get("AssumeRolePolicyDocument")
    if document and not definition.trusts(document, service):
        yield (
            f"{option}: the trust policy of the role '{name}' does not allow {service}.amazonaws.com to assume it. "
            "Change the trust policy, or specify another role."
        )


class EmrNodes(Validator):
    """Checks instance types, the image and the key pair. Other validators check whether the options are set."""

    name = "emr_nodes"
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, options = request.cloud, request.options
        zone = next((item["AvailabilityZone"] for item in _subnet(request)), None)
        types: list[instance_types.InstanceType] = []
        for option in ("emr_instance_type", "emr_core_instance_type", "emr_task_instance_type"):
            name = options[option]
            offered = offering(cloud, name) if name else set()
            if name and not offered:
                yield f"{option}: {name} is not offered in any zone of {cloud.region}. Check the name."
            elif name and zone and zone not in offered:
                yield f"{option}: {name} is not offered in {zone}, the zone of {options['emr_subnet_id']}. Choose another type or subnet."
            elif name:
                types += filter(None, [instance_types.find(cloud, name)])
        yield from _check_image(request, types)
        yield from _check_key_pair(request)


def _check_image(request: Request, types: Sequence[instance_types.InstanceType]) -> Iterator[str]:
    image_id, size = request.options["emr_image_id"], request.options["emr_root_volume_size"]
    if not image_id:
        return
    image = images.find(request.cloud, image_id)
    if image is None:
        region = request.cloud.region
        yield f"emr_image_id: there is no image {image_id} in {region} that this account is allowed to use. Specify another image."
        return
    name = image.get("Name", "")
    if image.get("RootDeviceType", "ebs") != "ebs" or image.get("VirtualizationType", "hvm") != "hvm":
        yield f"emr_image_id: {image_id} ({name}) is not an HVM image with an EBS root volume, which EMR requires. Specify another image."
    if FOREIGN_SYSTEMS.search(f"{name} {image.get('Platform', '')}"):
        yield f"emr_image_id: {image_id} ({name}) is not an Amazon Linux image, which EMR requires. Specify another image."
    for kind in types:
        if image.get("Architecture", kind.architecture) not in kind.architectures:
            yield (
                f"emr_image_id: {image_id} is for {image['Architecture']}, but {kind.name} is {kind.architecture}. "
                "Choose an image and instance types with the same architecture."
            )
    smallest = images.root_volume_size(image)
    if size is not None and size < smallest:
        yield f"emr_root_volume_size: {size} GiB is too small for {image_id}, which needs {smallest} GiB. Specify at least that size."


def _check_key_pair(request: Request) -> Iterator[str]:
    name, cloud = request.options["emr_key_name"], request.cloud
    if not name:
        return
    try:
        pairs = cloud.retrieve_once("ec2", "describe_key_pairs", "KeyPairs", KeyNames=[name])
    except ClientError as error:
        if not is_missing(error):
            raise
        pairs = []
    if not pairs:
        yield f"emr_key_name: there is no key pair '{name}' in {cloud.region}. Create or import it, or specify another one."


class EmrNetwork(Validator):
    name = "emr_network"
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, subnet_id = request.cloud, request.options["emr_subnet_id"]
        subnet = next(iter(_subnet(request)), None)
        if subnet_id and not subnet:
            yield f"emr_subnet_id: there is no subnet '{subnet_id}' in {cloud.region}. Specify an existing subnet."
        if subnet:
            yield from _check_service_access(request, subnet)
        named = list(_named_groups(request.options))
        existing = {item["GroupId"]: item["VpcId"] for item in adopted.groups(cloud, [identifier for _option, identifier in named])}
        for option, identifier in named:
            if identifier not in existing:
                yield f"{option}: there is no security group '{identifier}' in {cloud.region}. Specify an existing group."
            elif subnet and existing[identifier] != subnet["VpcId"]:
                yield (
                    f"{option}: {identifier} is in {existing[identifier]}, but the subnet {subnet_id} (emr_subnet_id) is in "
                    f"{subnet['VpcId']}. Specify a group of that VPC."
                )


def _check_service_access(request: Request, subnet: Mapping[str, Any]) -> Iterator[str]:
    """Check that EMR can reach nodes in a private subnet. It creates no group for this if the definition names the others."""
    groups = request.options["emr_security_group_ids"]
    if not groups.get("master"):
        return
    table = adopted.route_table(request.cloud, subnet["VpcId"], subnet["SubnetId"])
    if not groups.get("service") and not adopted.leads_to_the_internet(table):
        yield (
            f"emr_security_group_ids.service: missing, because the subnet {subnet['SubnetId']} (emr_subnet_id) has no route to an internet "
            "gateway. Specify the group through which EMR reaches the nodes, or remove emr_security_group_ids."
        )


def _subnet(request: Request) -> list[dict[str, Any]]:
    subnet_id = request.options["emr_subnet_id"]
    return adopted.subnets(request.cloud, [subnet_id] if subnet_id else [])


def _named_groups(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the security groups in the definition, each with its option."""
    for name, identifier in options["emr_security_group_ids"].items():
        if identifier:
            yield f"emr_security_group_ids.{name}", identifier
    for name, identifiers in options["emr_additional_security_group_ids"].items():
        for identifier in identifiers or ():
            yield f"emr_additional_security_group_ids.{name}", identifier


class EmrLogBucket(Validator):
    """Checks that the bucket for logs exists. Permissions are not checked, because the bucket's owner controls them."""

    name = "emr_log_bucket"
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        location = LOG_URI.fullmatch(request.options["emr_log_uri"] or "")
        if location and _is_missing(request.cloud, location.group(1)):
            yield f"emr_log_uri: there is no bucket {location.group(1)}. Create it, or specify another location."


def _is_missing(cloud: AwsClient, bucket: str) -> bool:
    try:
        cloud.s3.head_bucket(Bucket=bucket)
    except ClientError as error:
        return error_code(error) in ("404", "NoSuchBucket")
    return False


class EmrFailedSteps(Validator):
    """Warns of steps of the definition that have failed, because a run does not repeat them."""

    name = "emr_failed_steps"
    level = Level.WARNING
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        named = {each["name"] for each in request.options["emr_steps"]}
        for item in found:
            if item.address.kind == "emr_step" and item.address.key in named:
                status = item.attributes["status"]
                if status["State"] in ("FAILED", "CANCELLED"):
                    reason = status.get("FailureDetails", {}).get("Message", "EMR returned no reason")
                    yield (
                        f"emr_steps: '{item.address.key}' ({item.id}) is {status['State'].lower()}: {reason.rstrip('.')}. "
                        "To run it again, give it another name."
                    )


VALIDATORS = (EmrOptions(), EmrRoles(), EmrNodes(), EmrNetwork(), EmrLogBucket(), EmrFailedSteps())
