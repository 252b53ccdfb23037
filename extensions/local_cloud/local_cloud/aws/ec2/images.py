"""Deep Learning AMIs in every region.

As on AWS, these AMIs belong to an Amazon account. To simulate a new release, assume a role in that account, such as
`arn:aws:iam::898082745236:role/release`, and register an image that has the name of an existing image, but with a later date.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Any

from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.amis import Ami

from ..override import override

# The account that owns Deep Learning AMIs.
AMAZON = "898082745236"
FIRST_RELEASE = "20261001"
RELEASE_NAME = re.compile(r"(.+) (\d{8})")
SYSTEMS = {"ubuntu-22.04": "Ubuntu 22.04", "ubuntu-24.04": "Ubuntu 24.04", "amazon-linux-2023": "Amazon Linux 2023"}
# Operating systems for which there are only base images, and only for ARM64.
NEW_SYSTEMS = {"ubuntu-26.04": "Ubuntu 26.04"}
# For each framework: its part of the parameter name, its title, its operating systems, and its architectures.
FRAMEWORKS = (
    ("pytorch-2.7", "PyTorch 2.7", ("ubuntu-22.04", "amazon-linux-2023"), ("x86_64", "arm64")),
    ("pytorch-2.8", "PyTorch 2.8", ("ubuntu-24.04", "amazon-linux-2023"), ("x86_64", "arm64")),
    ("pytorch-2.9", "PyTorch 2.9", ("ubuntu-24.04", "amazon-linux-2023"), ("x86_64", "arm64")),
)
# The prefixes of image names, by architecture: for images without and with a framework.
WORDS = {
    "x86_64": ("Deep Learning Base OSS Nvidia Driver GPU AMI", "Deep Learning OSS Nvidia Driver AMI GPU"),
    "arm64": ("Deep Learning ARM64 Base OSS Nvidia Driver GPU AMI", "Deep Learning ARM64 AMI OSS Nvidia Driver GPU"),
}
# The instance families with GPUs, as AWS lists them for PyTorch 2.11 and Base images of September and October 2026.
RELEASE_NOTES = "https://docs.aws.amazon.com/dlami/latest/devguide/appendix-ami-release-notes.html"
ARM64_FAMILIES = "G5g, P6e-GB200"
FRAMEWORK_FAMILIES = "G4dn, G5, G6, Gr6, Gr6f, G6e, G6f, P4d, P4de, P5, P5e, P5en, P6-B200"
BASE_FAMILIES = "G4dn, G5, G6, Gr6, G6e, G7, G7e, P4d, P4de, P5, P5e, P5en, P6-B200, P6-B300"
# A kind of image: its part of the parameter name, and its architecture.
Kind = tuple[str, str]
# Kinds of images, by image name without the date at the end.
KINDS: dict[str, Kind] = {
    **{
        f"{WORDS[architecture][0]} ({title})": (f"base-oss-nvidia-driver-gpu-{system}", architecture)
        for system, title in (SYSTEMS | NEW_SYSTEMS).items()
        for architecture in (WORDS if system in SYSTEMS else ("arm64",))
    },
    **{
        f"{WORDS[architecture][1]} {title} ({SYSTEMS[system]})": (f"oss-nvidia-driver-gpu-{framework}-{system}", architecture)
        for framework, title, systems, architectures in FRAMEWORKS
        for system in systems
        for architecture in architectures
    },
}

moto_register_image = EC2Backend.register_image
moto_copy_image = EC2Backend.copy_image
moto_block_device_mappings: Any = Ami.block_device_mappings


class Release(Ami):
    """A release of one kind of Deep Learning AMI. The image ID differs between regions and never changes."""

    def __init__(self, backend: Any, name: str, date: str) -> None:
        self.kind, self.date = KINDS[name], date
        part, architecture = self.kind
        digest = hashlib.sha256(f"{part}/{architecture}/{backend.region_name}/{date}".encode()).hexdigest()
        super().__init__(
            backend,
            f"ami-{digest[:17]}",
            name=f"{name} {date}",
            description=f"Supported EC2 instances: {_families(part, architecture)}. Release notes: {RELEASE_NOTES}",
            owner_id=AMAZON,
            owner_alias="amazon",
            public=True,
            virtualization_type="hvm",
            architecture=architecture,
            creation_date=datetime.strptime(date, "%Y%m%d").replace(tzinfo=UTC),
            image_location=f"amazon/{name} {date}",
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name="/dev/xvda" if "amazon-linux" in part else "/dev/sda1",
            region_name=f"{backend.region_name}a",
        )
        backend.amis[self.id] = self


@override(EC2Backend)
def _load_amis(self: EC2Backend) -> None:
    """Create the first release of each kind of image, and the later releases that Amazon's account contains."""
    for name in KINDS:
        Release(self, name, FIRST_RELEASE)
    for backend in _accounts(self.region_name):
        if backend.account_id == AMAZON:
            for image in releases(backend):
                Release(self, str(image.name)[: -len(" YYYYMMDD")], image.date)


@override(EC2Backend)
def register_image(self: EC2Backend, name: str | None = None, description: str | None = None) -> Ami:
    """Register an image.

    If Amazon's account registers an image with the name of a known kind and a date, the image becomes a release in all accounts.
    """
    found = RELEASE_NAME.fullmatch(name or "")
    if self.account_id != AMAZON or not found or found[1] not in KINDS:
        return moto_register_image(self, name, description)
    made = {backend.account_id: Release(backend, found[1], found[2]) for backend in _accounts(self.region_name)}
    return made[AMAZON]


@override(EC2Backend)
def copy_image(self: EC2Backend, source_image_id: str, source_region: str, name: str | None = None, description: str | None = None) -> Ami:
    """Copy an image with its root device, which moto omits."""
    copy = moto_copy_image(self, source_image_id, source_region, name, description)
    source = ec2_backends[self.account_id][source_region].amis[source_image_id]
    copy.root_device_type, copy.root_device_name = source.root_device_type, source.root_device_name
    return copy


def _block_device_mappings(self: Ami) -> list[dict[str, Any]]:
    """Return the root volume with the type that `launch` gives to it."""
    return [{**each, "Ebs": {**each["Ebs"], "VolumeType": "gp3"}} for each in moto_block_device_mappings.fget(self)]


Ami.block_device_mappings = property(_block_device_mappings)  # type: ignore[method-assign]


def missing_programs(image: Any) -> tuple[str, ...]:
    """Return the clients of storage that an image lacks and that its distribution does not provide."""
    return ("mount.lustre", "mount.mount-s3") if isinstance(image, Release) and "ubuntu" in image.kind[0] else ()


def _families(part: str, architecture: str) -> str:
    if architecture == "arm64":
        return ARM64_FAMILIES
    return BASE_FAMILIES if part.startswith("base-") else FRAMEWORK_FAMILIES


def _accounts(region: str) -> list[Any]:
    """Return the EC2 backends of all accounts in use in one region."""
    return [backend for _account, place, backend in list(ec2_backends.iter_backends()) if place == region]


def releases(backend: EC2Backend) -> list[Release]:
    return [image for image in backend.amis.values() if isinstance(image, Release)]
