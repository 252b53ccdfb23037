"""Public parameters contain the IDs of Deep Learning AMIs. Secure parameters are encrypted with KMS keys."""

from __future__ import annotations

import pytest
from local_cloud.testing import Control

from ..conftest import AMI_PARAMETERS, Account, refused


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
    ],
)
def test_a_parameter_leads_to_an_image(
    account: Account, elsewhere: Account, architecture: str, kind: str, system: str, device: str
) -> None:
    found = []
    for place in (account, elsewhere):
        identifier = place.client("ssm").get_parameter(Name=f"{AMI_PARAMETERS}/{architecture}/{kind}/latest/ami-id")["Parameter"]["Value"]
        image = place.ec2.describe_images(ImageIds=[identifier])["Images"][0]
        assert (image["OwnerId"], image["ImageOwnerAlias"], image["Public"]) == ("898082745236", "amazon", True)
        assert (image["RootDeviceName"], image["RootDeviceType"]) == (device, "ebs")
        assert (image["Architecture"], image["State"]) == (architecture, "available")
        assert (f"({system})" in image["Name"], "ARM64" in image["Name"]) == (True, architecture == "arm64")
        found.append(identifier)
    assert found[0] != found[1]


@pytest.mark.parametrize("path", [f"{AMI_PARAMETERS}/x86_64", f"{AMI_PARAMETERS}/x86_64/"])
def test_parameters_below_a_path(account: Account, path: str) -> None:
    ssm = account.client("ssm")
    pages = list(ssm.get_paginator("get_parameters_by_path").paginate(Path=path, Recursive=True, MaxResults=5))
    found = {each["Name"]: each["Value"] for page in pages for each in page["Parameters"]}
    assert (len(pages[0]["Parameters"]), len(pages)) == (5, 2)
    images = account.ec2.describe_images(ImageIds=list(found.values()))["Images"]
    assert (len(images), {each["Architecture"] for each in images}) == (len(found), {"x86_64"})


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


@pytest.mark.parametrize(("before", "after"), [("SecureString", "String"), ("String", "SecureString")])
def test_the_type_of_a_parameter_cannot_change(account: Account, before: str, after: str) -> None:
    ssm, name = account.client("ssm"), f"/{account.name('parameter')}"
    ssm.put_parameter(Name=name, Type=before, Value="a")
    refused(lambda: ssm.put_parameter(Name=name, Type=after, Value="b", Overwrite=True), "HierarchyTypeMismatchException")
    ssm.put_parameter(Name=name, Type=before, Value="b", Overwrite=True)
    ssm.put_parameter(Name=name, Value="c", Overwrite=True)
    found = ssm.get_parameter(Name=name, WithDecryption=True)["Parameter"]
    assert (found["Type"], found["Value"]) == (before, "c")


def test_the_first_read_after_a_change_can_be_stale(account: Account, control: Control) -> None:
    ssm, name = account.client("ssm"), f"/{account.name()}"
    control.read_stale_parameters()
    ssm.put_parameter(Name=name, Value="first", Type="String")
    refused(lambda: ssm.get_parameter(Name=name), "ParameterNotFound")
    assert ssm.get_parameter(Name=name)["Parameter"]["Value"] == "first"
    ssm.put_parameter(Name=name, Value="second", Type="String", Overwrite=True)
    assert [ssm.get_parameter(Name=name)["Parameter"]["Version"] for _read in range(2)] == [1, 2]
    ssm.put_parameter(Name=name, Value="third", Type="String", Overwrite=True)
    refused(lambda: ssm.get_parameter(Name=f"{name}:3"), "ParameterVersionNotFound")
    assert ssm.get_parameter(Name=f"{name}:3")["Parameter"]["Value"] == "third"
