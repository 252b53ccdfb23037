"""The EBS volumes of nodes, by release and by instance type."""

from __future__ import annotations

from typing import Any

import pytest

from ..conftest import Account
from .conftest import Emr


@pytest.mark.parametrize(
    ("release", "instance_type", "root", "data"),
    [
        ("emr-7.9.0", "m5.xlarge", ("gp3", 15), [("gp2", 32)] * 2),
        ("emr-7.9.0", "c5.9xlarge", ("gp3", 15), [("gp2", 144)] * 4),
        ("emr-7.9.0", "g5.xlarge", ("gp3", 15), []),
        ("emr-6.9.0", "m4.10xlarge", ("gp2", 10), [("gp2", 160)] * 4),
        ("emr-5.8.0", "m4.large", ("gp2", 10), []),
    ],
)
def test_volumes(account: Account, emr: Emr, release: str, instance_type: str, root: tuple[str, int], data: list[tuple[str, int]]) -> None:
    groups: list[dict[str, Any]] = [{"InstanceRole": "MASTER", "InstanceType": instance_type, "InstanceCount": 1}]
    cluster = emr.waiting(ReleaseLabel=release, instances={"InstanceGroups": groups})
    told = [each["VolumeSpecification"] for each in emr.groups(cluster)["MASTER"]["EbsBlockDevices"]]
    assert [(each["VolumeType"], each["SizeInGB"]) for each in told] == data
    inside = [{"Name": "attachment.instance-id", "Values": emr.nodes(cluster, "MASTER")}]
    volumes = account.ec2.describe_volumes(Filters=inside)["Volumes"]
    assert sorted((each["VolumeType"], each["Size"]) for each in volumes) == sorted([root, *data])
