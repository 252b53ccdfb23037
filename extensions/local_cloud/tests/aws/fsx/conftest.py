"""A subnet, and Lustre file systems in it."""

from __future__ import annotations

from typing import Any

import pytest
from local_cloud.testing import wait_until

from ..conftest import Account

SCRATCH = {"DeploymentType": "SCRATCH_2"}


@pytest.fixture(scope="module")
def subnet(accounts: dict[str, Account]) -> str:
    return accounts["us-east-1"].subnets("a")[0]


def create(account: Account, subnet: str, lustre: dict[str, Any], capacity: int = 1200, **extra: Any) -> dict[str, Any]:
    request = {"FileSystemType": "LUSTRE", "StorageCapacity": capacity, "SubnetIds": [subnet], "LustreConfiguration": lustre, **extra}
    created: dict[str, Any] = account.client("fsx").create_file_system(**request)["FileSystem"]
    return created


def described(account: Account, identifier: str) -> dict[str, Any]:
    found: dict[str, Any] = account.client("fsx").describe_file_systems(FileSystemIds=[identifier])["FileSystems"][0]
    return found


def available(account: Account, identifier: str) -> dict[str, Any]:
    wait_until(lambda: described(account, identifier)["Lifecycle"] == "AVAILABLE")
    return described(account, identifier)
