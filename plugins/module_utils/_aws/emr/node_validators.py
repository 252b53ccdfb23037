# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the nodes of an EMR cluster: instance types, image and key pair."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..client import AwsClient, ClientError
from ..component import Request
from ..error_codes import error_code, is_missing
from ..message_parts import P
from ..network.zones import name_advice, offering
from ..node_group import images, instance_types
from ..plan.resources import Found
from ..tags import EMR_COMPONENT
from ..validator import Level, Validator
from .network_validators import described_subnet
from .releases import LARGEST_ROOT, amazon_linux, amazon_linux_of, release

FOREIGN_SYSTEMS = re.compile(r"ubuntu|debian|rhel|suse|windows", re.IGNORECASE)


class EmrNodes(Validator):
    """Checks instance types, the image and the key pair. Other validators check whether the options are set."""

    name = "emr_nodes"
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, options = request.cloud, request.options
        subnet = described_subnet(request)
        zone = subnet["AvailabilityZone"] if subnet else None
        label = options["emr_release_label"]
        supported = supported_types(cloud, label) if release(label) else None
        if release(label) and supported is None:
            yield f"{P}emr_release_label: there is no release '{label}' in {cloud.region}. Specify a label such as emr-7.9.0."
        types: list[instance_types.InstanceType] = []
        for option in ("emr_instance_type", "emr_core_instance_type", "emr_task_instance_type"):
            name = options[option]
            if not name:
                continue
            offered = offering(cloud, name)
            if not offered:
                yield f"{P}{option}: {name} is not offered in any zone of {cloud.region}. {name_advice(cloud, name)}"
            elif zone and zone not in offered:
                yield (
                    f"{P}{option}: {name} is not offered in {zone}, the zone of {options['emr_subnet_id']}. Choose another type or subnet."
                )
            elif supported is not None and name not in supported:
                yield (
                    f"{P}{option}: EMR does not support {name} with {label} in {cloud.region}. Choose another type or release. "
                    f"To list the types, run aws emr list-supported-instance-types --release-label {label}"
                )
            else:
                types += filter(None, [instance_types.find(cloud, name)])
        yield from _check_image(request, types)
        yield from _check_key_pair(request)


def supported_types(cloud: AwsClient, label: str) -> set[str] | None:
    """Return the names of the instance types that EMR supports for a release in the region, or None if there is no such release.

    The SDK has no paginator for this operation.
    """
    result, marker = set[str](), dict[str, str]()
    while True:
        try:
            page = cloud.emr.list_supported_instance_types(ReleaseLabel=label, **marker)
        except ClientError as error:
            if error_code(error) not in ("InvalidRequestException", "ValidationException"):
                raise
            return None
        result |= {item["Type"] for item in page["SupportedInstanceTypes"]}
        if not page.get("Marker"):
            return result
        marker = {"Marker": page["Marker"]}


def _check_image(request: Request, types: Sequence[instance_types.InstanceType]) -> Iterator[str]:
    image_id, size = request.options["emr_image_id"], request.options["emr_root_volume_size"]
    if not image_id:
        return
    image = images.find(request.cloud, image_id)
    if image is None:
        yield f"emr_{images.missing(request.cloud, image_id)}"
        return
    name = image.get("Name", "")
    if image.get("RootDeviceType", "ebs") != "ebs" or image.get("VirtualizationType", "hvm") != "hvm":
        yield (
            f"{P}emr_image_id: {image_id} ({name}) is not an HVM image with an EBS root volume, which EMR requires. Specify another image."
        )
    yield from _check_system(request, image)
    for kind in types:
        if image.get("Architecture", kind.architecture) not in kind.architectures:
            yield (
                f"{P}emr_image_id: {image_id} is for {image['Architecture']}, but {kind.name} is {kind.architecture}. "
                "Choose an image and instance types with the same architecture."
            )
    volumes = sum("Ebs" in disk for disk in image.get("BlockDeviceMappings", []))
    if volumes > 1:
        yield f"{P}emr_image_id: {image_id} has {volumes} EBS volumes, but EMR allows only one per image. Specify another image."
    smallest = images.root_volume_size(image)
    if smallest > LARGEST_ROOT:
        yield (
            f"{P}emr_image_id: {image_id} needs {smallest} GiB, but EMR supports root volumes of at most {LARGEST_ROOT} GiB. "
            "Specify another image."
        )
    elif size is not None and size < smallest:
        yield f"{P}emr_root_volume_size: {size} GiB is too small for {image_id}, which needs {smallest} GiB. Specify at least that size."


def _check_system(request: Request, image: Mapping[str, Any]) -> Iterator[str]:
    """Check that the system is Amazon Linux, and its version if the image's name or description states it."""
    label, shown = request.options["emr_release_label"], f"{image['ImageId']} ({image.get('Name', '')})"
    if _is_foreign(image):
        yield f"{P}emr_image_id: {shown} is not an Amazon Linux image, which EMR requires. Specify another image."
    version, found = release(label), _system(image)
    if version and found and found != amazon_linux(version):
        yield (
            f"{P}emr_image_id: {shown} is based on {found}, but {label} requires {amazon_linux(version)}. Specify another image or release."
        )


def _system(image: Mapping[str, Any]) -> str | None:
    return amazon_linux_of(image.get("Name", ""), image.get("Description", ""))


def _is_foreign(image: Mapping[str, Any]) -> bool:
    return bool(FOREIGN_SYSTEMS.search(f"{image.get('Name', '')} {image.get('Platform', '')}"))


class EmrImageSystem(Validator):
    """Warns if neither the name nor the description of an image states the version of Amazon Linux.

    Images with the wrong version do not start.
    """

    name = "emr_image_system"
    level = Level.WARNING
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        image_id, label = request.options["emr_image_id"], request.options["emr_release_label"]
        version = release(label)
        image = images.find(request.cloud, image_id) if image_id and version else None
        if image and version and not _system(image) and not _is_foreign(image):
            yield (
                f"{P}emr_image_id: neither the name nor the description of {image_id} ({image.get('Name', '')}) says which version of "
                f"Amazon Linux it is based on. Check that it is {amazon_linux(version)}, which {label} requires."
            )


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
        yield (
            f"{P}emr_key_name: there is no key pair '{name}' in {cloud.region}. Create or import this key pair, or specify another key "
            "pair."
        )
