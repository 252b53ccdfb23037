"""Deep Learning AMIs in every region, and the public parameters that lead to them."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from moto.ec2.models import EC2Backend
from moto.ec2.models.amis import Ami
from moto.ssm.models import Parameter, ParameterDict

from .patching import override

AMAZON = "898082745236"
"""The account that Deep Learning AMIs belong to."""
RELEASED = datetime(2026, 10, 1, tzinfo=UTC)
KINDS = {
    "oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04": "Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.7 (Ubuntu 22.04) 20261001",
    "base-oss-nvidia-driver-gpu-ubuntu-22.04": "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20261001",
}
"""Parameter name part and image name of each kind of image."""
ARCHITECTURES = ("x86_64", "arm64")

moto_check_loading_status = ParameterDict._check_loading_status


def image_id(kind: str, architecture: str, region: str) -> str:
    """The id of an image, which differs from region to region and never changes."""
    return "ami-" + hashlib.sha256(f"{kind}/{architecture}/{region}".encode()).hexdigest()[:17]


@override(EC2Backend)
def _load_amis(self: EC2Backend) -> None:
    for kind, name in KINDS.items():
        for architecture in ARCHITECTURES:
            identifier = image_id(kind, architecture, self.region_name)
            full_name = name if architecture == "x86_64" else name.replace("Deep Learning", "Deep Learning ARM64", 1)
            self.amis[identifier] = Ami(
                self,
                identifier,
                name=full_name,
                description=full_name,
                owner_id=AMAZON,
                owner_alias="amazon",
                public=True,
                virtualization_type="hvm",
                architecture=architecture,
                creation_date=RELEASED,
                image_location=f"amazon/{full_name}",
                hypervisor="xen",
                root_device_type="ebs",
                root_device_name="/dev/sda1",
                region_name=f"{self.region_name}a",
            )


@override(ParameterDict)
def _check_loading_status(self: Any, key: str) -> None:
    if str(key or "").startswith("/aws/service/deeplearning") and not self.__dict__.get("deep_learning_loaded"):
        self.deep_learning_loaded = True
        for kind in KINDS:
            for architecture in ARCHITECTURES:
                _add_parameter(self, kind, architecture)
    moto_check_loading_status(self, key)


def _add_parameter(parameters: Any, kind: str, architecture: str) -> None:
    name = f"/aws/service/deeplearning/ami/{architecture}/{kind}/latest/ami-id"
    parameters[name].append(
        Parameter(  # type: ignore[abstract]  # moto's class lacks methods for CloudFormation
            account_id=parameters.account_id,
            name=name,
            value=image_id(kind, architecture, parameters.region_name),
            parameter_type="String",
            description=None,
            allowed_pattern=None,
            keyid=None,
            last_modified_date=RELEASED,
            version=1,
            data_type="aws:ec2:image",
        )
    )
