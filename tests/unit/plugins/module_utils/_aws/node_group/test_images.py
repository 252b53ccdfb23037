"""Tests of images from public parameters, and of the operating systems that nodes can have."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import images


def test_images_by_framework_and_system():
    names = {
        "base-oss-nvidia-driver-gpu-ubuntu-22.04": ("base", "ubuntu-22.04"),
        "oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04": ("pytorch-2.7", "ubuntu-22.04"),
        "oss-nvidia-driver-gpu-tensorflow-2.18-amazon-linux-2023": ("tensorflow-2.18", "amazon-linux-2023"),
        "base-with-single-cuda-ubuntu-24.04": ("base-with-single-cuda", "ubuntu-24.04"),
        "base-oss-nvidia-driver-gpu-ubuntu-pro-22.04": ("base", "ubuntu-pro-22.04"),
    }
    of_amazon_linux_2 = "oss-nvidia-driver-gpu-pytorch-1.13-amazon-linux-2"
    parameters = [{"Name": f"/aws/service/deeplearning/ami/x86_64/{name}/latest/ami-id", "Value": name} for name in names]
    others = [{"Name": f"/aws/service/deeplearning/ami/x86_64/{of_amazon_linux_2}/latest/ami-id", "Value": "x"}]
    others += [{"Name": parameters[0]["Name"].replace("ami-id", "release-notes"), "Value": "x"}]
    assert images.catalog([*parameters, *others]) == {place: name for name, place in names.items()}


@pytest.mark.parametrize(
    ("selected", "framework"),
    [({}, "pytorch"), ({"image_framework": "base"}, "base"), ({"image_id": "ami-1"}, None), ({"image_parameter": "/aws/x"}, None)],
)
def test_the_default_framework(selected, framework):
    options = {"image_id": None, "image_parameter": None, "image_framework": None, **selected}
    assert images.with_default(options) == {**options, "image_framework": framework}


@pytest.mark.parametrize(
    ("image", "system"),
    [
        ({"Name": "amzn2-ami-hvm-2.0.20250101.0-x86_64-gp2"}, "Amazon Linux 2 or older"),
        ({"Name": "amzn-ami-hvm-2018.03.0.20230207.0-x86_64-gp2"}, "Amazon Linux 2 or older"),
        ({"Name": "Deep Learning AMI GPU PyTorch 1.13.1 (Amazon Linux 2) 20231103"}, "Amazon Linux 2 or older"),
        ({"Name": "Windows_Server-2022-English-Full-Base", "Platform": "windows"}, "Windows"),
        ({"Name": "Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023) 20250601"}, None),
        ({"Name": "al2023-ami-2023.7.20250101.0-kernel-6.1-x86_64"}, None),
        ({"Name": "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20250101"}, None),
        ({}, None),
    ],
)
def test_systems_that_nodes_cannot_have(image, system):
    assert images.unsupported_system(image) == system


@pytest.mark.parametrize(
    ("system", "meant"), [("ubuntu-22.04", True), ("ubuntu-pro-22.04", False), ("debian-12", False), ("amazon-linux-2023", False)]
)
def test_the_default_system_is_plain_ubuntu(system, meant):
    options = {"image_framework": "base", "image_os": None}
    assert images._is_meant(f"base {system} x86_64", options, "x86_64") is meant


NOTES = ". Release notes: https://docs.aws.amazon.com/dlami/latest/devguide/appendix-ami-release-notes.html"


@pytest.mark.parametrize(
    ("description", "family", "listed"),
    [
        ("G4dn, G5, G6, Gr6, G6e, P4d, P4de, P5, P5e, P5en", "p5en", True),
        ("G4dn, G5, G6, Gr6, G6e, P4d, P4de, P5, P5e, P5en", "p6-b200", False),
        ("G4dn, G5, G6, Gr6, P4, P4de, P5", "p4d", True),
        ("G4dn, G5, G6, Gr6, P4, P4de, P5", "g6e", False),
        ("G5g, P4d, P5", "p5en", True),
        ("G5g, P4d, P5", "p4de", False),
        ("G5g and P6e-GB200", "p6e-gb200", True),
        ("Inf1, Inf2, Trn1, Trn1n", "trn1", True),
    ],
)
def test_families_in_the_description_of_an_image(description, family, listed):
    assert images.is_listed({"Description": f"Supported EC2 instances: {description}{NOTES}"}, family) is listed


@pytest.mark.parametrize("image", [{}, {"Description": "Our own image, for P5"}])
def test_an_image_without_a_list_of_families_is_for_all(image):
    assert images.is_listed(image, "p99")


@pytest.mark.parametrize(
    ("accelerators", "without"),
    [
        (("NVIDIA H100",), []),
        ((), []),
        (("NVIDIA V100",), ["NVIDIA V100"]),
        (("AWS Trainium", "AWS Trainium"), ["AWS Trainium"]),
        (("AMD Radeon Pro V520",), ["AMD Radeon Pro V520"]),
    ],
)
def test_accelerators_without_a_driver(accelerators, without):
    assert images.without_driver(accelerators) == without


DEEP_LEARNING = {"Name": "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20260915", "ImageOwnerAlias": "amazon"}


@pytest.mark.parametrize(
    ("image", "plain"),
    [
        (DEEP_LEARNING, True),
        ({**DEEP_LEARNING, "Name": "Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023) 20260915"}, False),
        ({**DEEP_LEARNING, "ImageOwnerAlias": "self", "OwnerId": "123456789012"}, False),
        ({"Name": "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260901", "OwnerId": "099720109477"}, True),
        ({"Name": "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260901", "OwnerId": "513442679011"}, True),
        ({"Name": "debian-12-amd64-20260901-2222", "OwnerId": "136693071363"}, True),
        ({}, False),
    ],
)
def test_public_images_with_ubuntu_or_debian(image, plain):
    assert images.is_plain_debian(image) is plain
