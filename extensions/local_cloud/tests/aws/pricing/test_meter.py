"""The meter counts everything that exists, until it has gone."""

from __future__ import annotations

import pytest
from local_cloud.aws.ec2.spot import price as spot_price
from local_cloud.aws.pricing import products
from local_cloud.testing import Control, wait_until

from ..conftest import Account

REGION, TYPE = "us-east-1", "g5.xlarge"


def test_instances_and_their_volumes(account: Account, control: Control) -> None:
    before = control.cost(REGION)
    volume = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 730, "VolumeType": "gp3", "Iops": 4000, "Throughput": 1149}}
    subnet = account.subnets("a")[0]
    instances = account.run(subnet, 2, InstanceType=TYPE, BlockDeviceMappings=[volume])
    spot = {"MarketType": "spot", "SpotOptions": {}}
    instances += account.run(subnet, InstanceType=TYPE, BlockDeviceMappings=[volume], InstanceMarketOptions=spot)
    found = control.cost(REGION)
    expected = 2 * products.instance_price(TYPE, REGION) + spot_price(TYPE)
    assert found["instance"] - before.get("instance", 0) == pytest.approx(expected)
    one = 0.08 + (1000 * 0.005 + 40.96) / 730
    assert found["volume"] - before.get("volume", 0) == pytest.approx(3 * one)
    account.ec2.terminate_instances(InstanceIds=[each["InstanceId"] for each in instances])
    wait_until(lambda: control.cost(REGION).get("instance", 0) == before.get("instance", 0))


def test_network_and_storage(account: Account, control: Control) -> None:
    before = control.cost(REGION)
    account.ec2.allocate_address(Domain="vpc")
    account.client("efs").create_file_system(CreationToken="meter", ThroughputMode="provisioned", ProvisionedThroughputInMibps=73)
    found = control.cost(REGION)
    assert found["address"] - before.get("address", 0) == pytest.approx(0.005)
    assert found["efs"] - before.get("efs", 0) == pytest.approx(0.6)
    assert not control.cost("eu-west-1").get("efs")


def test_lustre_on_hard_disks(account: Account, control: Control) -> None:
    before = control.cost(REGION).get("lustre", 0)
    storage = {"FileSystemType": "LUSTRE", "StorageCapacity": 6000, "StorageType": "HDD", "SubnetIds": account.subnets("a")}
    account.client("fsx").create_file_system(
        **storage, LustreConfiguration={"DeploymentType": "PERSISTENT_1", "PerUnitStorageThroughput": 12}
    )
    assert control.cost(REGION)["lustre"] - before == pytest.approx(6000 * 0.025 / 730)
