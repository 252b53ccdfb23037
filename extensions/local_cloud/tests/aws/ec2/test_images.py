"""Deep Learning AMIs exist in every region, and get new releases."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from ..conftest import Account

PATH = "/aws/service/deeplearning/ami"


def client_of(account: Account, other: str, service: str) -> Any:
    """Return a client of another account, with a role there."""
    role = f"arn:aws:iam::{other}:role/release"
    given = account.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    session = boto3.Session(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], region_name=account.region)
    return session.client(service, endpoint_url=account.url)


@pytest.mark.parametrize(
    ("architecture", "kind", "system", "device"),
    [
        *(
            (architecture, kind, system, device)
            for architecture in ("x86_64", "arm64")
            for kind, system, device in (
                ("base-oss-nvidia-driver-gpu-ubuntu-22.04", "Ubuntu 22.04", "/dev/sda1"),
                ("oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04", "Ubuntu 22.04", "/dev/sda1"),
                ("oss-nvidia-driver-gpu-pytorch-2.8-amazon-linux-2023", "Amazon Linux 2023", "/dev/xvda"),
            )
        ),
        ("x86_64", "oss-nvidia-driver-gpu-tensorflow-2.18-ubuntu-22.04", "Ubuntu 22.04", "/dev/sda1"),
    ],
)
def test_a_parameter_leads_to_an_image(
    account: Account, elsewhere: Account, architecture: str, kind: str, system: str, device: str
) -> None:
    found = []
    for place in (account, elsewhere):
        identifier = place.client("ssm").get_parameter(Name=f"{PATH}/{architecture}/{kind}/latest/ami-id")["Parameter"]["Value"]
        image = place.ec2.describe_images(ImageIds=[identifier])["Images"][0]
        assert (image["OwnerId"], image["ImageOwnerAlias"], image["Public"]) == ("898082745236", "amazon", True)
        assert (image["RootDeviceName"], image["RootDeviceType"]) == (device, "ebs")
        assert (image["Architecture"], image["State"]) == (architecture, "available")
        assert (f"({system})" in image["Name"], "ARM64" in image["Name"]) == (True, architecture == "arm64")
        found.append(identifier)
    assert found[0] != found[1]


@pytest.mark.parametrize("path", [f"{PATH}/x86_64", f"{PATH}/x86_64/"])
def test_parameters_below_a_path(account: Account, path: str) -> None:
    ssm = account.client("ssm")
    first = ssm.get_parameters_by_path(Path=path, Recursive=True)
    assert len(first["Parameters"]) == 10
    pages = ssm.get_paginator("get_parameters_by_path").paginate(Path=path, Recursive=True)
    found = {each["Name"]: each["Value"] for page in pages for each in page["Parameters"]}
    assert len(found) > 10
    images = account.ec2.describe_images(ImageIds=list(found.values()))["Images"]
    assert (len(images), {each["Architecture"] for each in images}) == (len(found), {"x86_64"})


def test_a_new_release(account: Account, elsewhere: Account) -> None:
    name, begin = f"{PATH}/x86_64/oss-nvidia-driver-gpu-pytorch-2.9-ubuntu-24.04/latest/ami-id", "Deep Learning OSS Nvidia Driver AMI GPU"

    def latest(place: Account) -> dict[str, Any]:
        found: dict[str, Any] = place.client("ssm").get_parameter(Name=name)["Parameter"]
        return found

    before, there = latest(account), latest(elsewhere)
    release = f"{begin} PyTorch 2.9 (Ubuntu 24.04) 20261101"
    account.ec2.register_image(Name=release)
    assert latest(account) == before
    made = client_of(account, "898082745236", "ec2").register_image(Name=release)["ImageId"]
    after = latest(account)
    assert (after["Value"], after["Version"]) == (made, before["Version"] + 1)
    image = account.ec2.describe_images(ImageIds=[made])["Images"][0]
    assert (image["Name"], image["OwnerId"], image["Architecture"]) == (release, "898082745236", "x86_64")
    assert account.ec2.describe_images(ImageIds=[before["Value"]])["Images"][0]["State"] == "available"
    assert latest(elsewhere) == there
    assert client_of(account, "111122223333", "ssm").get_parameter(Name=name)["Parameter"]["Value"] == made
    with pytest.raises(ClientError, match="AccessDenied"):
        account.client("ssm").put_parameter(Name=name, Value=made, Type="String", Overwrite=True)


def test_images_by_name(account: Account) -> None:
    filters = [{"Name": "name", "Values": ["Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *"]}]
    found = account.ec2.describe_images(Owners=["amazon"], Filters=filters)["Images"]
    assert [each["Architecture"] for each in found] == ["x86_64"]


def test_secure_parameters(account: Account) -> None:
    ssm, name = account.client("ssm"), f"/deeplearning/{account.name()}/ca"
    ssm.put_parameter(Name=name, Value="secret", Type="SecureString", Tags=[{"Key": "deeplearning:cluster", "Value": name}])
    assert ssm.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"] == "secret"
    assert ssm.get_parameter(Name=name)["Parameter"]["Value"] != "secret"
    filters = [{"Key": "tag:deeplearning:cluster", "Values": [name]}]
    assert [each["Name"] for each in ssm.describe_parameters(ParameterFilters=filters)["Parameters"]] == [name]
    with pytest.raises(ssm.exceptions.ParameterAlreadyExists):
        ssm.put_parameter(Name=name, Value="other", Type="SecureString")
    ssm.delete_parameter(Name=name)
    with pytest.raises(ssm.exceptions.ParameterNotFound):
        ssm.get_parameter(Name=name)
