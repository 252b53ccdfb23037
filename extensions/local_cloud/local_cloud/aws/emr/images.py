"""The images of EMR releases, for clusters without a custom image."""

from __future__ import annotations

import hashlib

from moto.ec2.models import EC2Backend
from moto.ec2.models.amis import Ami

# The account that owns the images of EMR releases and of Amazon Linux.
EMR = "137112412989"


def image_of_release(backend: EC2Backend, label: str) -> str:
    """Return the ID of a release's image. The image ID differs between regions and never changes."""
    digest = hashlib.sha256(f"{label}/{backend.region_name}".encode()).hexdigest()
    identifier = f"ami-{digest[:17]}"
    if identifier not in backend.amis:
        backend.amis[identifier] = Ami(
            backend,
            identifier,
            name=f"{label}-ami-hvm-x86_64",
            description=f"Amazon EMR {label}",
            owner_id=EMR,
            owner_alias="amazon",
            public=True,
            virtualization_type="hvm",
            architecture="x86_64",
            image_location=f"amazon/{label}",
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name="/dev/xvda",
            region_name=f"{backend.region_name}a",
        )
    return identifier
