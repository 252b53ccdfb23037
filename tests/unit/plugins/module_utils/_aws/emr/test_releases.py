"""Tests that check which version of Amazon Linux an EMR release needs, and on which version an image is based."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.releases import (
    amazon_linux,
    amazon_linux_of,
    has_auto_termination,
)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((5, 29, 0), "1"),
        ((5, 30, 0), "2"),
        ((5, 36, 2), "2"),
        ((6, 0, 0), "2"),
        ((6, 15, 0), "2"),
        ((7, 0, 0), "2023"),
        ((8, 0, 0), "2023"),
    ],
)
def test_the_system_of_a_release(version, expected):
    assert amazon_linux(version) == f"Amazon Linux {expected}"


@pytest.mark.parametrize(
    ("version", "expected"),
    [((5, 29, 0), False), ((5, 30, 0), True), ((6, 0, 0), False), ((6, 1, 0), True), ((7, 0, 0), True)],
)
def test_the_releases_with_auto_termination(version, expected):
    assert has_auto_termination(version) is expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("amzn-ami-hvm-2018.03.0.20230404.0-x86_64-gp2",), "Amazon Linux 1"),
        (("Deep Learning AMI (Amazon Linux) Version 30.0",), "Amazon Linux 1"),
        (("mine", "Amazon Linux AMI 2018.03.0 x86_64 HVM gp2"), "Amazon Linux 1"),
        (("amzn2-ami-kernel-5.10-hvm-2.0.20240131.0-x86_64-gp2",), "Amazon Linux 2"),
        (("Deep Learning AMI GPU PyTorch 2.0.1 (Amazon Linux 2) 20230926",), "Amazon Linux 2"),
        (("our-amazon-linux-2-image",), "Amazon Linux 2"),
        (("al2023-ami-2023.5.20240701.0-kernel-6.1-x86_64",), "Amazon Linux 2023"),
        (("Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023) 20250101",), "Amazon Linux 2023"),
        (("mine", "on Amazon Linux 2023 of 2025"), "Amazon Linux 2023"),
        (("training-image", ""), None),
        (("Deep Learning AMI (Ubuntu 18.04) Version 30.0",), None),
    ],
)
def test_the_system_of_an_image(texts, expected):
    assert amazon_linux_of(*texts) == expected
