# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Machine images: which one, and what it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Mapping

from .._aws import Cloud, CloudError, error_code, is_missing
from .._plan.resources import Found
from ..unit import Request
from .definition import Image

try:
    from botocore.exceptions import ClientError
except ImportError:
    pass  # AnsibleAWSModule reports it

# https://docs.aws.amazon.com/dlami/latest/devguide/find-dlami-id.html
DEEP_LEARNING_IMAGES = "/aws/service/deeplearning/ami"
PARAMETER = re.compile(rf"{DEEP_LEARNING_IMAGES}/\w+/(?P<kind>.+?)-(?P<os>amazon-linux-[\d.]+|[a-z]+-[\d.]+)/latest/ami-id")
USUAL_DRIVER = re.compile(r"-?oss-nvidia-driver(-gpu)?-?")


def choose(request: Request, found: Iterable[Found], architecture: str) -> Image:
    """The image that the user names; one that was once looked up stays, so that a new release does not roll the cluster.

    Raises CloudError if there is none.
    """
    options = request.options
    source = _source(options, architecture)
    if not options["image_id"] and not options["image_update"]:
        for item in found:
            if item.address.kind == "launch_template" and item.attributes["image_source"] == source:
                return Image(item.properties["image_id"], item.properties["root_device"], source)
    image_id = options["image_id"] or _look_up(request.cloud, options, architecture)
    image = find(request.cloud, image_id)
    if not image:
        raise CloudError(f"image_id: there is no image {image_id} in {request.cloud.region} that this account may use.")
    return Image(image["ImageId"], image["RootDeviceName"], source)


def _source(options: Mapping[str, Any], architecture: str) -> str:
    """What the user names the image by, in the words of the tag that remembers it."""
    if options["image_framework"]:
        return f"{options['image_framework']} {options['image_os']} {architecture}"
    return str(options["image_parameter"] or options["image_id"])


def _look_up(cloud: Cloud, options: Mapping[str, Any], architecture: str) -> str:
    if options["image_framework"]:
        return newest(cloud, options["image_framework"], options["image_os"], architecture)
    return image_of(cloud, options["image_parameter"])


def image_of(cloud: Cloud, parameter: str) -> str:
    """The image that a public parameter names. Raises CloudError if there is none."""
    try:
        found = cloud.facts("ssm", "get_parameters", "Parameters", Names=[parameter])
    except ClientError as error:
        if error_code(error) != "ValidationException":
            raise
        found = []
    if not found:
        raise CloudError(f"image_parameter: there is no SSM parameter {parameter} in {cloud.region}.")
    return str(found[0]["Value"])


def newest(cloud: Cloud, framework: str, system: str, architecture: str) -> str:
    """The deep learning AMI with the newest version of a framework. Raises CloudError, listing what there is, if there is none."""
    path = f"{DEEP_LEARNING_IMAGES}/{architecture}"
    images = catalog(cloud.facts("ssm", "get_parameters_by_path", "Parameters", Path=path, Recursive=True))
    versions = {name: version for name, os in images if os == system and (version := _version(name, framework)) is not None}
    if versions:
        return images[max(versions, key=lambda name: versions[name]), system]
    known: dict[str, list[str]] = {}
    for name, os in sorted(images):
        known.setdefault(name, []).append(os)
    listing = "; ".join(f"{name} for {', '.join(systems)}" for name, systems in known.items()) or "none"
    raise CloudError(
        f"image_framework: there is no deep learning AMI '{framework}' for image_os '{system}' on {architecture} in {cloud.region}. "
        f"There is {listing}."
    )


def catalog(parameters: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Image ids by framework with version (C(pytorch-2.7), C(base)) and operating system, from the public parameters.

    Images with the open NVIDIA driver are the usual ones and go by the framework alone; others keep their longer names.
    """
    result = {}
    for parameter in parameters:
        match = PARAMETER.fullmatch(parameter["Name"])
        if match:
            result[USUAL_DRIVER.sub("", match["kind"]), match["os"]] = str(parameter["Value"])
    return result


def _version(name: str, framework: str) -> tuple[int, ...] | None:
    """The version that a framework's image adds to the name asked for, nothing if that is another framework."""
    match = re.fullmatch(rf"{re.escape(framework)}(?:-([\d.]+))?", name)
    return tuple(int(part) for part in re.findall(r"\d+", match[1] or "")) if match else None


def find(cloud: Cloud, image_id: str) -> dict[str, Any] | None:
    """The image as EC2 describes it, if there is one."""
    try:
        images = cloud.facts("ec2", "describe_images", "Images", ImageIds=[image_id])
    except ClientError as error:
        if not is_missing(error) and error_code(error) not in ("InvalidAMIID.Malformed", "InvalidAMIID.Unavailable"):
            raise
        images = []
    return dict(images[0]) if images else None


def root_volume_size(image: Mapping[str, Any]) -> int:
    """The least size of the root volume in GiB, that of the image's snapshot; 0 if the image does not say."""
    disks = {disk["DeviceName"]: disk.get("Ebs", {}) for disk in image.get("BlockDeviceMappings", [])}
    return int(disks.get(image["RootDeviceName"], {}).get("VolumeSize", 0))
