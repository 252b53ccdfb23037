# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Machine images: which one, and what it needs."""

from __future__ import annotations

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


def choose(request: Request, found: Iterable[Found]) -> Image:
    """The image that the user names; one that was once looked up stays, so that a new release does not roll the cluster."""
    options, parameter = request.options, request.options["image_parameter"]
    for item in found:
        if parameter and item.address.kind == "launch_template" and item.attributes["image_source"] == parameter:
            return Image(item.properties["image_id"], item.properties["root_device"], parameter)
    image = find(request.cloud, options["image_id"] or image_of(request.cloud, parameter))
    return Image(image["ImageId"], image["RootDeviceName"], parameter or options["image_id"])


def image_of(cloud: Cloud, parameter: str) -> str:
    """The image that a public parameter names. Raises CloudError if there is none."""
    try:
        return str(cloud.ssm.get_parameter(Name=parameter)["Parameter"]["Value"])
    except ClientError as error:
        if not is_missing(error) and error_code(error) != "ValidationException":
            raise
        raise CloudError(f"image_parameter: there is no SSM parameter {parameter} in {cloud.region}.") from error


def find(cloud: Cloud, image_id: str) -> dict[str, Any]:
    """The image as EC2 describes it. Raises CloudError if there is none."""
    try:
        images = cloud.facts("ec2", "describe_images", "Images", ImageIds=[image_id])
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
