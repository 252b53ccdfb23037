"""Launching instances as AWS does it: the whole launch template counts, and what does not exist is refused."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from moto.core.responses import ActionResult
from moto.core.types import Base64EncodedString
from moto.ec2.exceptions import EC2ClientError, InvalidSecurityGroupNotFoundError
from moto.ec2.models import EC2Backend
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES
from moto.ec2.models.instances import Reservation
from moto.ec2.models.subnets import Subnet
from moto.ec2.responses import EC2Response
from moto.ec2.utils import convert_tag_spec, filter_iam_instance_profiles, parse_user_data
from moto.iam.exceptions import NotFoundException

from . import capacity
from .context import CLOUD, instances
from .instances import ENDING
from .launch_templates import find_version
from .patching import override
from .placement_groups import find_placement_group

Data = dict[str, Any]
"""Launch data in the shape of the RunInstances request, of which a launch template's data is a part."""


@override(EC2Response)
def run_instances(self: EC2Response) -> ActionResult:
    request: Data = copy.deepcopy(dict(self._get_params()))
    if request.get("SubnetId") and request.get("NetworkInterfaces"):
        raise _combination("Network interfaces and an instance-level subnet ID may not be specified on the same request")
    data = with_template(self.ec2_backend, request)
    check(self.ec2_backend, data)
    self.error_on_dryrun()
    subnet = choose_subnet(self.ec2_backend, data)
    count = _count_with_room(data["InstanceType"], subnet.availability_zone, request["MinCount"], request["MaxCount"])
    return ActionResult(launch(self.ec2_backend, data, subnet, count))


def with_template(backend: EC2Backend, request: Data) -> Data:
    """The request, completed from the launch template that it names. The template's version is pinned in the result."""
    wanted = request.get("LaunchTemplate")
    if not wanted:
        return {"InstanceType": "m1.small", **request}
    version = find_version(backend, wanted)
    data = {"InstanceType": "m1.small", **copy.deepcopy(version.data), **request}
    data["LaunchTemplate"] = {"LaunchTemplateId": version.template.id, "Version": str(version.number)}
    data["TagSpecifications"] = [*version.data.get("TagSpecifications", []), *request.get("TagSpecifications", [])]
    return data


def check(backend: EC2Backend, data: Data) -> None:
    """Refuse launch data that names what does not exist, with the error of AWS."""
    if not data.get("ImageId"):
        raise EC2ClientError("MissingParameter", "The request must contain the parameter ImageId")
    backend.describe_images(ami_ids=[data["ImageId"]])
    key_name = data.get("KeyName")
    if key_name and key_name not in backend.key_pairs:
        raise EC2ClientError("InvalidKeyPair.NotFound", f"The key pair '{key_name}' does not exist")
    if data["InstanceType"] not in INSTANCE_TYPES:
        raise EC2ClientError("InvalidParameterValue", f"Invalid value '{data['InstanceType']}' for InstanceType.")
    interfaces = data.get("NetworkInterfaces", [])
    own_groups = data.get("SecurityGroupIds", []) or data.get("SecurityGroups", [])
    if interfaces and own_groups:
        raise _combination("Network interfaces and an instance-level security groups may not be specified on the same request")
    for group in [*data.get("SecurityGroupIds", []), *(each for one in interfaces for each in one.get("Groups", []))]:
        if backend.get_security_group_from_id(group) is None:
            raise InvalidSecurityGroupNotFoundError(group)
    _check_profile(backend, data.get("IamInstanceProfile") or {})
    if placement_group := data.get("Placement", {}).get("GroupName"):
        find_placement_group(backend, placement_group)


def choose_subnet(backend: EC2Backend, data: Data) -> Subnet:
    """The subnet that the data names, or the default one of the zone. Raises when there is none."""
    named = data.get("SubnetId") or next((n["SubnetId"] for n in data.get("NetworkInterfaces", []) if n.get("SubnetId")), None)
    if named:
        return backend.get_subnet(named)
    defaults = backend.get_default_subnets()
    zone = data.get("Placement", {}).get("AvailabilityZone") or next(iter(sorted(defaults)), None)
    if zone not in defaults:
        raise EC2ClientError("MissingInput", "No subnets found for the default VPC. Please specify a subnet.")
    return defaults[zone]


def launch(backend: EC2Backend, data: Data, subnet: Subnet, count: int = 1) -> Reservation:
    """Launch as many instances, from checked data. Raises the EC2 errors for a type not offered and for missing capacity."""
    instance_type, zone = data["InstanceType"], subnet.availability_zone
    if instance_type not in _offered(backend.region_name).get(zone, ()):
        raise EC2ClientError(
            "Unsupported",
            f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone ({zone}). "
            "Please retry your request by not specifying an Availability Zone or choosing another one.",
        )
    check_capacity(instance_type, zone, count)
    reservation = backend.run_instances(
        data["ImageId"], count, _user_data(data), data.get("SecurityGroups", []), **_arguments(backend, data, subnet)
    )
    launched: list[Any] = reservation.instances
    for instance in launched:
        _complete(instance, data)
        instance.launch()
    return reservation


def check_capacity(instance_type: str, zone: str, count: int) -> None:
    """Raise InsufficientInstanceCapacity unless the zone can hold so many more."""
    live = ((each.instance_type, each.availability_zone) for each in instances() if each.state not in (*ENDING, "stopped"))
    if not CLOUD.capacity.has_room(instance_type, zone, count, live):
        raise EC2ClientError("InsufficientInstanceCapacity", capacity.MESSAGE.format(type=instance_type, zone=zone))


def _count_with_room(instance_type: str, zone: str, least: int, most: int) -> int:
    for count in range(most, least, -1):
        try:
            check_capacity(instance_type, zone, count)
        except EC2ClientError:
            continue
        return count
    return least


def _arguments(backend: EC2Backend, data: Data, subnet: Subnet) -> dict[str, Any]:
    interfaces = data.get("NetworkInterfaces", [])
    return {
        "region_name": backend.region_name,
        "instance_type": data["InstanceType"],
        "is_instance_type_default": False,
        "subnet_id": subnet.id,
        "key_name": data.get("KeyName"),
        "security_group_ids": data.get("SecurityGroupIds", []),
        "nics": interfaces,
        "private_ip": data.get("PrivateIpAddress"),
        "associate_public_ip": None,
        "tags": convert_tag_spec(data.get("TagSpecifications", [])),
        "ebs_optimized": data.get("EbsOptimized", False),
        "disable_api_stop": data.get("DisableApiStop", False),
        "disable_api_termination": data.get("DisableApiTermination", False),
        "instance_market_options": data.get("InstanceMarketOptions", {}).get("MarketType"),
        "instance_initiated_shutdown_behavior": data.get("InstanceInitiatedShutdownBehavior"),
        "launch_template": data.get("LaunchTemplate", {}),
        "monitoring_state": "enabled" if data.get("Monitoring", {}).get("Enabled") else "disabled",
        "metadata_options": data.get("MetadataOptions", {}),
        "client_token": data.get("ClientToken"),
        "block_device_mappings": _disks(backend, data),
    }


def _complete(instance: Any, data: Data) -> None:
    """What moto's own launch leaves out."""
    specifications = data.get("NetworkInterfaces", [])
    for number, interface in enumerate(instance.nics.values()):
        specification = specifications[number] if number < len(specifications) else {}
        interface.delete_on_termination = specification.get("DeleteOnTermination", True)
        interface.interface_type = specification.get("InterfaceType", "interface")
        interface.network_card_index = specification.get("NetworkCardIndex", 0)
        interface.add_tags(convert_tag_spec(data.get("TagSpecifications", [])).get("network-interface", {}))
    if not instance.security_groups:
        instance.security_groups = list(instance.nics[0]._group_set)
    instance.placement.group_name = data.get("Placement", {}).get("GroupName", "")
    instance.placement.tenancy = data.get("Placement", {}).get("Tenancy", "default")
    if profile := data.get("IamInstanceProfile"):
        instance.ec2_backend.associate_iam_instance_profile(
            instance.id, iam_instance_profile_name=profile.get("Name"), iam_instance_profile_arn=profile.get("Arn")
        )


def _disks(backend: EC2Backend, data: Data) -> list[Data]:
    """The image's root disk, changed and extended by what the data says."""
    image = backend.describe_images(ami_ids=[data["ImageId"]])[0]
    disks: dict[str, Data] = {image.root_device_name: {"VolumeSize": 15, "VolumeType": "gp3", "DeleteOnTermination": True}}
    for mapping in data.get("BlockDeviceMappings", []):
        if "Ebs" in mapping:
            disks.setdefault(mapping["DeviceName"], {}).update(mapping["Ebs"])
    return [{"DeviceName": name, "Ebs": disk} for name, disk in disks.items()]


def _user_data(data: Data) -> Base64EncodedString | None:
    value = data.get("UserData")
    return value if value is None or isinstance(value, Base64EncodedString) else parse_user_data(value)


def _check_profile(backend: EC2Backend, profile: Data) -> None:
    if not profile:
        return
    key, value = ("arn", profile["Arn"]) if profile.get("Arn") else ("name", profile.get("Name"))
    try:
        filter_iam_instance_profiles(backend.account_id, backend.partition, profile.get("Arn"), profile.get("Name"))
    except NotFoundException:
        raise EC2ClientError(
            "InvalidParameterValue",
            f"Value ({value}) for parameter iamInstanceProfile.{key} is invalid. Invalid IAM Instance Profile {key}",
        ) from None


@cache
def _offered(region: str) -> dict[str, set[str]]:
    zones: dict[str, set[str]] = {}
    for offering in INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, []):
        zones.setdefault(offering["Location"], set()).add(offering["InstanceType"])
    return zones


def _combination(message: str) -> EC2ClientError:
    return EC2ClientError("InvalidParameterCombination", message)
