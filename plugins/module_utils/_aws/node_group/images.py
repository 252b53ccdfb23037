# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Selects the machine image (AMI) of the nodes, and reads its properties."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any, Mapping

from ..client import AwsClient, ClientError, ClusterError, if_exists
from ..component import Request
from ..error_codes import error_code
from ..message_parts import P
from ..plan.resources import Found
from .definition import Image

OPTIONS = ("image_id", "image_parameter", "image_framework")
DEFAULT_FRAMEWORK = "pytorch"
BASE = "base"  # images with drivers, but without a framework
# https://docs.aws.amazon.com/dlami/latest/devguide/find-dlami-id.html
DEEP_LEARNING_IMAGES = "/aws/service/deeplearning/ami"
# Amazon Linux 2 has reached its end of life, and lacks dnf, a Python version that Ansible supports, and an SSH server that reads
# /etc/ssh/sshd_config.d.
OLD_AMAZON_LINUX = re.compile(r"amzn2?-ami-|Amazon Linux 2\b|Amazon Linux AMI")
SYSTEM = r"amazon-linux-\d{4}|(?!linux-|pro-)[a-z]+(-pro)?-[\d.]+"
PARAMETER = re.compile(rf"{DEEP_LEARNING_IMAGES}/\w+/(?P<kind>.+?)-(?P<os>{SYSTEM})/latest/ami-id")
UBUNTU = re.compile(r"ubuntu-[\d.]+")
NEWEST_TESTED = "ubuntu-24.04"  # newer Ubuntu versions must be selected with image_os
# The owners of public images with Ubuntu and Debian: Amazon (Deep Learning AMIs), Canonical (also in GovCloud and in China) and Debian.
# Source of the IDs of Canonical: https://documentation.ubuntu.com/aws/
PUBLIC_OWNERS = ("amazon", "099720109477", "513442679011", "837727238323", "136693071363")
DEBIAN_FAMILY = re.compile(r"ubuntu|debian", re.IGNORECASE)
# AWS lists the instance families with GPUs in the descriptions of Deep Learning AMIs: "Supported EC2 instances: G4dn, P5. Release notes:
# ...". Some descriptions contain the name of a generation in place of its families.
FAMILIES = re.compile(r"Supported EC2 instances: ([^.]+)")
GENERATIONS = ("p4", "p5", "p6")
# NVIDIA's open-source driver supports GPUs from the Turing generation on, and newer drivers support no older GPUs. Source:
# https://developer.nvidia.com/blog/nvidia-transitions-fully-towards-open-source-gpu-kernel-modules/
OLD_GPUS = ("NVIDIA K80", "NVIDIA M60", "NVIDIA V100")
USUAL_DRIVER = re.compile(r"-?oss-nvidia-driver(-gpu)?-?")


def with_default(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options. If no option selects an image, add the default framework."""
    selects = any(options.get(name) for name in OPTIONS)
    return dict(options) if selects else {**options, "image_framework": DEFAULT_FRAMEWORK}


def check_exclusive(options: Mapping[str, Any]) -> None:
    """Raise ClusterError if several options select an image."""
    if sum(options.get(name) is not None for name in OPTIONS) > 1:
        raise ClusterError(f"parameters are mutually exclusive: {'|'.join(f'{P}{name}' for name in OPTIONS)}")


def choose(request: Request, found: Iterable[Found], architecture: str) -> Image:
    """Return the image that the user selected. Raises ClusterError if the image does not exist.

    An image from an earlier lookup is kept, so that a new image release does not cause nodes to be replaced. This function does not check
    whether such an image still exists.
    """
    options = request.options
    if not options["image_update"]:
        for item in found:
            if item.address.kind == "launch_template" and _is_meant(item.attributes["image_source"], options, architecture):
                return Image(item.properties["image_id"], item.properties["root_device"], item.attributes["image_source"])
    image_id, source = _look_up(request.cloud, options, architecture)
    image = find(request.cloud, image_id)
    if not image:
        raise ClusterError(missing(request.cloud, image_id))
    return Image(image["ImageId"], image["RootDeviceName"], source)


def missing(cloud: AwsClient, image_id: str) -> str:
    return f"{P}image_id: there is no image {image_id} in {cloud.region} that this account is allowed to use. Specify another image."


def _is_meant(source: str | None, options: Mapping[str, Any], architecture: str) -> bool:
    """Return whether the options match the image source in a template's tag.

    If the options do not specify an operating system, any Ubuntu version matches.
    """
    if not options["image_framework"]:
        return bool(source) and source == (options["image_parameter"] or options["image_id"])
    words = (source or "").split(" ")
    if len(words) != 3 or (words[0], words[2]) != (options["image_framework"], architecture):
        return False
    return words[1] == options["image_os"] if options["image_os"] else bool(UBUNTU.fullmatch(words[1]))


def _look_up(cloud: AwsClient, options: Mapping[str, Any], architecture: str) -> tuple[str, str]:
    """Return the image ID, and the image source for the template's tag.

    The source is `FRAMEWORK OS ARCHITECTURE`, the parameter or the image ID.
    """
    framework = options["image_framework"]
    if framework:
        image_id, system = newest(cloud, framework, options["image_os"], architecture)
        return image_id, f"{framework} {system} {architecture}"
    if options["image_parameter"]:
        return image_of(cloud, options["image_parameter"]), options["image_parameter"]
    return options["image_id"], options["image_id"]


def image_of(cloud: AwsClient, parameter: str) -> str:
    """Return the image ID in a public SSM parameter. Raises ClusterError if the parameter does not exist."""
    try:
        found = cloud.retrieve_once("ssm", "get_parameters", "Parameters", Names=[parameter])
    except ClientError as error:
        if error_code(error) != "ValidationException":
            raise
        found = []
    if not found:
        raise ClusterError(
            f"{P}image_parameter: there is no SSM parameter {parameter} in {cloud.region}. Specify an existing parameter, or remove this "
            "option to use the newest Deep Learning AMI."
        )
    return str(found[0]["Value"])


def newest(cloud: AwsClient, framework: str, system: str | None, architecture: str) -> tuple[str, str]:
    """Return the Deep Learning AMI with the newest version of a framework, and the operating system of that AMI.

    If `system` is not set, the AMI is for the newest tested Ubuntu version that is available for this framework version. Raises
    ClusterError with a list of the available images if no image matches.
    """
    path = f"{DEEP_LEARNING_IMAGES}/{architecture}"
    images = catalog(cloud.retrieve_once("ssm", "get_parameters_by_path", "Parameters", Path=path, Recursive=True))
    versions = {
        (name, os): (version, _numbers(os))
        for name, os in images
        if (os == system if system else _is_tested(os)) and (version := _version(name, framework)) is not None
    }
    if versions:
        name, os = max(versions, key=lambda item: versions[item])
        cloud.progress(f"Newest Deep Learning AMI for {framework}: {name} for {os}, {images[name, os]}", once=True)
        return images[name, os], os
    known: dict[str, list[str]] = {}
    for name, os in sorted(images):
        known.setdefault(name, []).append(os)
    listing = "; ".join(f"{name} for {', '.join(systems)}" for name, systems in known.items()) or "none"
    wanted_system = f"{P}image_os '{system}'" if system else f"{NEWEST_TESTED} or older"
    raise ClusterError(
        f"{P}image_framework: there is no Deep Learning AMI '{framework}' for {wanted_system} on {architecture} in {cloud.region}. "
        f"Available: {listing}."
    )


def _is_tested(system: str) -> bool:
    return bool(UBUNTU.fullmatch(system)) and _numbers(system) <= _numbers(NEWEST_TESTED)


def catalog(parameters: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Return the image IDs in public parameters, keyed by framework and version (`pytorch-2.7`, `base`) and by operating system.

    The key omits the name of the open-source NVIDIA driver, but contains the name of any other driver.
    """
    result = {}
    for parameter in parameters:
        match = PARAMETER.fullmatch(parameter["Name"])
        if match:
            result[USUAL_DRIVER.sub("", match["kind"]), match["os"]] = str(parameter["Value"])
    return result


def _version(name: str, framework: str) -> tuple[int, ...] | None:
    match = re.fullmatch(rf"{re.escape(framework)}(?:-([\d.]+))?", name)
    return _numbers(match[1] or "") if match else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def find(cloud: AwsClient, image_id: str) -> dict[str, Any] | None:
    describe = partial(cloud.retrieve_once, "ec2", "describe_images", "Images", ImageIds=[image_id])
    images = if_exists(describe, "InvalidAMIID.Malformed", "InvalidAMIID.Unavailable")
    return dict(images[0]) if images else None


def unsupported_system(image: Mapping[str, Any]) -> str | None:
    """Return the operating system of an image if the collection does not support that system, and None otherwise."""
    if image.get("Platform") == "windows":
        return "Windows"
    return "Amazon Linux 2 or older" if OLD_AMAZON_LINUX.search(image.get("Name", "")) else None


def is_plain_debian(image: Mapping[str, Any]) -> bool:
    """Return whether an image is a public image with Ubuntu or Debian. Users' own images may contain additional programs."""
    owners = (image.get("ImageOwnerAlias"), image.get("OwnerId"))
    return bool(DEBIAN_FAMILY.search(image.get("Name", ""))) and any(owner in PUBLIC_OWNERS for owner in owners)


def is_listed(image: Mapping[str, Any], family: str) -> bool:
    """Return whether AWS lists an instance family for an image, or lists no families for it."""
    match = FAMILIES.match(image.get("Description", ""))
    listed = re.split(r",\s*|\s+and\s+", match[1].lower()) if match else [family]
    return any(each == family or (each in GENERATIONS and family.startswith(each)) for each in listed)


def without_driver(accelerators: Iterable[str]) -> list[str]:
    """Return those accelerators that the drivers of Deep Learning AMIs for GPUs do not support."""
    return [each for each in dict.fromkeys(accelerators) if each in OLD_GPUS or not each.startswith("NVIDIA ")]


def root_disk(image: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the root volume in the description of an image, as far as the description tells it."""
    disks = {disk["DeviceName"]: disk.get("Ebs", {}) for disk in image.get("BlockDeviceMappings", [])}
    found: Mapping[str, Any] = disks.get(image.get("RootDeviceName"), {})
    return found


def root_volume_size(image: Mapping[str, Any]) -> int:
    """Return the minimum size of the root volume in GiB: the size of the image's snapshot, or 0 if that size is unknown."""
    return int(root_disk(image).get("VolumeSize", 0))
