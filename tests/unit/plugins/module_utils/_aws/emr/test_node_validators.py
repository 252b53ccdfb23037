"""Tests that check which images and instance types are suitable for a cluster."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import node_validators
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import argument_spec

DEFAULTS = {name: spec.get("default") for name, spec in argument_spec("emr").items()}
OPTIONS = {**DEFAULTS, "emr_release_label": "emr-7.9.0", "emr_image_id": "ami-1"}
ROOT = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100}}
IMAGE = {"ImageId": "ami-1", "Name": "al2023-ami-2023.5", "RootDeviceName": "/dev/xvda", "BlockDeviceMappings": [ROOT]}


class Emr:
    """A stub of EMR that lists the instance types that a release supports, one type per page."""

    def __init__(self, *types):
        self.types = types

    def list_supported_instance_types(self, **arguments):
        number = int(arguments.get("Marker", 0))
        more = {"Marker": str(number + 1)} if number + 1 < len(self.types) else {}
        return {"SupportedInstanceTypes": [{"Type": each} for each in self.types[number : number + 1]], **more}


def request(**image):
    def retrieve_once(_service, operation, _key, **_arguments):
        return [{**IMAGE, **image}] if operation == "describe_images" else []

    return Request(SimpleNamespace(retrieve_once=retrieve_once, emr=Emr("c5.xlarge"), region="us-east-1"), OPTIONS)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, []),
        ({"BlockDeviceMappings": [ROOT, {"DeviceName": "/dev/sdb", "VirtualName": "ephemeral0"}]}, []),
        ({"BlockDeviceMappings": [ROOT, {"DeviceName": "/dev/sdb", "Ebs": {}}]}, ["ami-1 has 2 EBS volumes, but EMR allows only one"]),
        (
            {"BlockDeviceMappings": [{**ROOT, "Ebs": {"VolumeSize": 101}}]},
            ["ami-1 needs 101 GiB, but EMR supports root volumes of at most 100"],
        ),
        ({"Name": "amzn2-ami-hvm"}, ["ami-1 (amzn2-ami-hvm) is based on Amazon Linux 2, but emr-7.9.0 requires Amazon Linux 2023"]),
        ({"Name": "ours", "Description": "Amazon Linux AMI 2018.03"}, ["is based on Amazon Linux 1, but emr-7.9.0 requires"]),
        ({"Name": "ours"}, []),
    ],
)
def test_images(image, expected):
    found = list(node_validators.EmrNodes().check(request(**image), []))
    assert len(found) == len(expected), found
    assert all(text in finding for text, finding in zip(expected, found))


@pytest.mark.parametrize(("name", "unknown"), [("ours", True), ("al2023-ami-1", False), ("amzn2-ami-1", False), ("ubuntu-22.04", False)])
def test_an_image_of_an_unknown_system_is_told(name, unknown):
    found = list(node_validators.EmrImageSystem().check(request(Name=name), []))
    assert len(found) == unknown
    assert all("(ours) says which version of Amazon Linux it is based on. Check that it is Amazon Linux 2023" in each for each in found)


def test_all_pages_of_supported_types_are_read():
    cloud = SimpleNamespace(emr=Emr("c4.large", "c5.xlarge", "g5.2xlarge"))
    assert node_validators.supported_types(cloud, "emr-7.9.0") == {"c4.large", "c5.xlarge", "g5.2xlarge"}
