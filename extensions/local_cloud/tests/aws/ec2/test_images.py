"""Deep Learning AMIs exist in every region, and new releases appear."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from ..conftest import AMI_PARAMETERS, Account, Hosts, client_of


def test_a_new_release(account: Account, elsewhere: Account) -> None:
    name, begin = (
        f"{AMI_PARAMETERS}/x86_64/oss-nvidia-driver-gpu-pytorch-2.9-ubuntu-24.04/latest/ami-id",
        "Deep Learning OSS Nvidia Driver AMI GPU",
    )

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


def test_a_copy_has_the_root_device_of_the_original(account: Account) -> None:
    parameter = f"{AMI_PARAMETERS}/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
    source = account.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]
    made = account.ec2.copy_image(SourceImageId=source, SourceRegion=account.region, Name="own")["ImageId"]
    original, copy = (account.ec2.describe_images(ImageIds=[each])["Images"][0] for each in (source, made))
    for name in ("RootDeviceType", "RootDeviceName", "VirtualizationType", "Architecture"):
        assert copy[name] == original[name]


def test_images_by_name(account: Account) -> None:
    filters = [{"Name": "name", "Values": ["Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *"]}]
    found = account.ec2.describe_images(Owners=["amazon"], Filters=filters)["Images"]
    assert [each["Architecture"] for each in found] == ["x86_64"]


@pytest.mark.parametrize(
    ("system", "lacks"),
    [("ubuntu-24.04", ("mount.lustre", "mount.mount-s3")), ("ubuntu-22.04", ("mount.lustre", "mount.mount-s3")), ("amazon-linux-2023", ())],
)
def test_hosts_of_ubuntu_lack_clients_of_storage(account: Account, hosts: Hosts, system: str, lacks: tuple[str, ...]) -> None:
    parameter = f"{AMI_PARAMETERS}/x86_64/base-oss-nvidia-driver-gpu-{system}/latest/ami-id"
    image = account.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]
    (instance,) = account.run(account.subnets("a")[0], ImageId=image)
    wait_until(lambda: account.state(instance["InstanceId"]) == "running")
    assert hosts.specs[instance["InstanceId"]].lacks == lacks
