"""Deep Learning AMIs can be found in every region."""

from __future__ import annotations

import pytest

from .conftest import Account

KINDS = ("oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04", "base-oss-nvidia-driver-gpu-ubuntu-22.04")


@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_leads_to_an_image(account: Account, elsewhere: Account, kind: str, architecture: str) -> None:
    found = []
    for place in (account, elsewhere):
        name = f"/aws/service/deeplearning/ami/{architecture}/{kind}/latest/ami-id"
        identifier = place.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
        image = place.ec2.describe_images(ImageIds=[identifier])["Images"][0]
        assert (image["OwnerId"], image["ImageOwnerAlias"], image["Public"]) == ("898082745236", "amazon", True)
        assert (image["RootDeviceName"], image["RootDeviceType"]) == ("/dev/sda1", "ebs")
        assert (image["Architecture"], image["State"]) == (architecture, "available")
        assert "Ubuntu 22.04" in image["Name"]
        found.append(identifier)
    assert found[0] != found[1]


def test_parameters_below_a_path(account: Account) -> None:
    path = "/aws/service/deeplearning/ami/x86_64"
    found = account.client("ssm").get_parameters_by_path(Path=path, Recursive=True)["Parameters"]
    assert len(found) == len(KINDS)


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
