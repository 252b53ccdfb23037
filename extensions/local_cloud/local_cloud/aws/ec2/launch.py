"""Launches instances from requests and launch templates."""

from __future__ import annotations

import base64
import copy
from typing import Any

from moto.core.responses import ActionResult
from moto.core.types import Base64EncodedString
from moto.ec2.exceptions import EC2ClientError, InvalidSecurityGroupNotFoundError
from moto.ec2.models import EC2Backend
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import Reservation
from moto.ec2.models.subnets import Subnet
from moto.ec2.responses import EC2Response
from moto.ec2.utils import convert_tag_spec, filter_iam_instance_profiles, parse_user_data
from moto.iam.exceptions import NotFoundException

from ..capacity import ON_DEMAND, SPOT
from ..context import CLOUD
from ..iam.visibility import age
from ..override import override
from .admission import admit, largest_count, market
from .capacity_reservations import CapacityReservation, find_capacity_reservation, target
from .launch_templates import find_version
from .network_interfaces import check_interfaces, is_addressless, position
from .placement_groups import check_type, find_placement_group
from .spot import SpotRequest

# Launch data in the format of a RunInstances request. The data of a launch template has a subset of the request's members.
Data = dict[str, Any]
NO_ADDRESS = "0.0.0.0"
# The maximum size of user data in bytes, before the encoding.
MOST_USER_DATA = 16384
PROVISIONED_IOPS = ("io1", "io2")
SPOT_REQUEST = "spot-instances-request"


@override(EC2Response)
def run_instances(self: EC2Response) -> ActionResult:
    request: Data = copy.deepcopy(dict(self._get_params()))
    data = with_template(self.ec2_backend, request)
    if data.get("SubnetId") and data.get("NetworkInterfaces"):
        raise _combination("Network interfaces and an instance-level subnet ID may not be specified on the same request")
    check(self.ec2_backend, data)
    self.error_on_dryrun()
    subnet = choose_subnet(self.ec2_backend, data)
    count = largest_count(self.ec2_backend, data, subnet, request["MinCount"], request["MaxCount"])
    return ActionResult(launch(self.ec2_backend, data, subnet, count))


def with_template(backend: EC2Backend, request: Data) -> Data:
    """Return the request, with defaults from its launch template. The result contains the version number."""
    wanted = request.get("LaunchTemplate")
    if not wanted:
        return {"InstanceType": "m1.small", **request}
    version = find_version(backend, wanted)
    data = {"InstanceType": "m1.small", **copy.deepcopy(version.data), **request}
    data["LaunchTemplate"] = {"LaunchTemplateId": version.template.id, "Version": str(version.number)}
    data["TagSpecifications"] = [*version.data.get("TagSpecifications", []), *request.get("TagSpecifications", [])]
    return data


def check(backend: EC2Backend, data: Data) -> None:
    """Raise the EC2 error for invalid launch data, such as references to resources that do not exist."""
    if not data.get("ImageId"):
        raise EC2ClientError("MissingParameter", "The request must contain the parameter ImageId")
    backend.describe_images(ami_ids=[data["ImageId"]])
    if (key_name := data.get("KeyName")) and key_name not in backend.key_pairs:
        raise EC2ClientError("InvalidKeyPair.NotFound", f"The key pair '{key_name}' does not exist")
    if data["InstanceType"] not in INSTANCE_TYPES:
        raise EC2ClientError("InvalidParameterValue", f"Invalid value '{data['InstanceType']}' for InstanceType.")
    _check_interfaces_and_groups(backend, data)
    _check_profile(backend, data.get("IamInstanceProfile") or {})
    _check_user_data(data)
    if market(data) != SPOT and any(each["ResourceType"] == SPOT_REQUEST for each in data.get("TagSpecifications", [])):
        raise EC2ClientError(
            "InvalidParameterValue",
            "You cannot specify tags for Spot instances requests if there are no Spot instances requests being created by the request.",
        )
    if placement_group := data.get("Placement", {}).get("GroupName"):
        check_type(find_placement_group(backend, placement_group), data["InstanceType"])
    if identifier := target(data):
        find_capacity_reservation(backend, identifier)


def _check_interfaces_and_groups(backend: EC2Backend, data: Data) -> None:
    interfaces = data.get("NetworkInterfaces", [])
    if interfaces and (data.get("SecurityGroupIds") or data.get("SecurityGroups")):
        raise _combination("Network interfaces and an instance-level security groups may not be specified on the same request")
    check_interfaces(data["InstanceType"], interfaces)
    for group in [*data.get("SecurityGroupIds", []), *(each for one in interfaces for each in one.get("Groups", []))]:
        if backend.get_security_group_from_id(group) is None:
            raise InvalidSecurityGroupNotFoundError(group)


def choose_subnet(backend: EC2Backend, data: Data) -> Subnet:
    """Return the subnet in the data, or the default subnet of the zone. Raises `MissingInput`."""
    named = data.get("SubnetId") or next((n["SubnetId"] for n in data.get("NetworkInterfaces", []) if n.get("SubnetId")), None)
    if named:
        return backend.get_subnet(named)
    defaults = backend.get_default_subnets()
    zone = data.get("Placement", {}).get("AvailabilityZone") or next(iter(sorted(defaults)), None)
    if zone not in defaults:
        raise EC2ClientError("MissingInput", "No subnets found for the default VPC. Please specify a subnet.")
    return defaults[zone]


def launch(backend: EC2Backend, data: Data, subnet: Subnet, count: int = 1) -> Reservation:
    """Launch `count` instances from validated launch data. Raises the same EC2 errors as `admit`."""
    reservations = admit(backend, data, subnet, count)
    reservation = backend.run_instances(
        data["ImageId"], count, _user_data(data), data.get("SecurityGroups", []), **_arguments(backend, data, subnet)
    )
    launched: list[Any] = reservation.instances
    for instance, capacity_reservation in zip(launched, reservations):
        _complete(instance, data)
        _settle_market(instance, data, capacity_reservation)
        instance.launch()
    return reservation


def _arguments(backend: EC2Backend, data: Data, subnet: Subnet) -> dict[str, Any]:
    interfaces = _interfaces(data)
    return {
        "region_name": backend.region_name,
        "instance_type": data["InstanceType"],
        "is_instance_type_default": False,
        "subnet_id": subnet.id,
        "key_name": data.get("KeyName"),
        "security_group_ids": data.get("SecurityGroupIds", []),
        # moto identifies interfaces by device index, which interfaces on different cards may share, and requires an address for each
        # interface.
        "nics": [
            {**interface, "DeviceIndex": number, **({"PrivateIpAddress": NO_ADDRESS} if is_addressless(interface) else {})}
            for number, interface in enumerate(interfaces)
        ],
        "private_ip": data.get("PrivateIpAddress"),
        "associate_public_ip": None if len(interfaces) < 2 else False,
        "tags": convert_tag_spec(data.get("TagSpecifications", [])),
        "ebs_optimized": data.get("EbsOptimized", False),
        "disable_api_stop": data.get("DisableApiStop", False),
        "disable_api_termination": data.get("DisableApiTermination", False),
        "instance_initiated_shutdown_behavior": data.get("InstanceInitiatedShutdownBehavior"),
        "launch_template": data.get("LaunchTemplate", {}),
        "monitoring_state": "enabled" if data.get("Monitoring", {}).get("Enabled") else "disabled",
        "metadata_options": data.get("MetadataOptions", {}),
        "client_token": data.get("ClientToken"),
        "block_device_mappings": _disks(backend, data),
    }


def _complete(instance: Any, data: Data) -> None:
    """Set the values that moto's launch omits."""
    tags = convert_tag_spec(data.get("TagSpecifications", [])).get("network-interface", {})
    for interface, specification in zip(instance.nics.values(), _interfaces(data) or [{"DeviceIndex": 0}]):
        interface.delete_on_termination = specification.get("DeleteOnTermination", True)
        interface.interface_type = specification.get("InterfaceType", "interface")
        interface.network_card_index, interface.device_index = position(specification)
        interface.add_tags(tags)
        if is_addressless(specification):
            interface.private_ip_address, interface.private_ip_addresses, interface.private_dns_name = None, [], None
    for name, disk in instance.block_device_mapping.items():
        _complete_volume(instance.ec2_backend.volumes[disk.volume_id], data, name)
    if not instance.security_groups:
        instance.security_groups = list(instance.nics[0]._group_set)
    instance.placement.group_name = data.get("Placement", {}).get("GroupName", "")
    instance.placement.tenancy = data.get("Placement", {}).get("Tenancy", "default")
    if profile := data.get("IamInstanceProfile"):
        instance.ec2_backend.associate_iam_instance_profile(
            instance.id, iam_instance_profile_name=profile.get("Name"), iam_instance_profile_arn=profile.get("Arn")
        )


def _complete_volume(volume: Any, data: Data, device: str) -> None:
    mappings = data.get("BlockDeviceMappings", [])
    wanted: Data = next((each["Ebs"] for each in mappings if each["DeviceName"] == device and "Ebs" in each), {})
    volume.volume_type = wanted.get("VolumeType", volume.volume_type)
    volume.iops, volume.throughput = wanted.get("Iops", volume.iops), wanted.get("Throughput", volume.throughput)


def _settle_market(instance: Any, data: Data, reservation: CapacityReservation | None) -> None:
    kind = market(data)
    instance.lifecycle = None if kind == ON_DEMAND else kind
    instance.capacity_reservation_id = reservation and reservation.id
    instance.capacity_reservation_specification = data.get("CapacityReservationSpecification") or {"CapacityReservationPreference": "open"}
    if kind == SPOT:
        tags = convert_tag_spec(data.get("TagSpecifications", [])).get(SPOT_REQUEST, {})
        request = SpotRequest(instance, data["InstanceMarketOptions"].get("SpotOptions", {}), tags)
        instance.spot_instance_request_id = request.id


def _interfaces(data: Data) -> list[Data]:
    """Return the interfaces in launch data, with the primary interface first."""
    return sorted(data.get("NetworkInterfaces", []), key=position)


def _disks(backend: EC2Backend, data: Data) -> list[Data]:
    """Return the root disk of the image and the disks in launch data."""
    image = backend.describe_images(ami_ids=[data["ImageId"]])[0]
    disks: dict[str, Data] = {image.root_device_name: {"VolumeSize": 15, "VolumeType": "gp3", "DeleteOnTermination": True}}
    for mapping in data.get("BlockDeviceMappings", []):
        if "Ebs" in mapping:
            disks.setdefault(mapping["DeviceName"], {}).update(mapping["Ebs"])
    for disk in disks.values():
        if disk.get("VolumeType") in PROVISIONED_IOPS:
            if "Iops" not in disk:
                raise EC2ClientError("MissingParameter", f"The parameter iops must be specified for {disk['VolumeType']} volumes.")
            disk["VolumeType"] = "gp3"  # For other types, moto requires more values. `_complete_volume` sets the type and the values.
    return [{"DeviceName": name, "Ebs": disk} for name, disk in disks.items()]


def _user_data(data: Data) -> Base64EncodedString | None:
    value = data.get("UserData")
    return value if value is None or isinstance(value, Base64EncodedString) else parse_user_data(value)


def _check_profile(backend: EC2Backend, profile: Data) -> None:
    if not profile:
        return
    key, value = ("arn", profile["Arn"]) if profile.get("Arn") else ("name", profile.get("Name"))
    try:
        found = filter_iam_instance_profiles(backend.account_id, backend.partition, profile.get("Arn"), profile.get("Name"))
    except NotFoundException:
        found = None
    if found is None or age(found) < CLOUD.delays.instance_profile:
        raise EC2ClientError(
            "InvalidParameterValue",
            f"Value ({value}) for parameter iamInstanceProfile.{key} is invalid. Invalid IAM Instance Profile {key}",
        )


def _check_user_data(data: Data) -> None:
    encoded = _user_data(data)
    if encoded and len(base64.b64decode(str(encoded))) > MOST_USER_DATA:
        raise EC2ClientError("InvalidParameterValue", f"User data is limited to {MOST_USER_DATA} bytes")


def _combination(message: str) -> EC2ClientError:
    return EC2ClientError("InvalidParameterCombination", message)
