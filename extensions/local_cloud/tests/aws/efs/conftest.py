"""An EFS file system for tests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from local_cloud.exports import client_accesses
from local_cloud.testing import wait_until

from ..conftest import Account

CLIENT = ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite", "elasticfilesystem:ClientRootAccess"]
ALL = ["ClientMount", "ClientWrite", "ClientRootAccess"]
MOUNTED = {"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"}}
ALLOW = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": CLIENT, "Condition": MOUNTED}


@pytest.fixture
def file_system(account: Account) -> str:
    """An available file system."""
    identifier = str(account.efs.create_file_system(CreationToken=account.name("token"))["FileSystemId"])
    wait_until(lambda: account.efs.describe_file_systems(FileSystemId=identifier)["FileSystems"][0]["LifeCycleState"] == "available")
    return identifier


def access(file_system: str) -> dict[str, Any]:
    return client_accesses()[file_system]


def put(account: Account, file_system: str, *statements: dict[str, Any], **more: Any) -> None:
    document = {"Version": "2012-10-17", "Id": "mine", "Statement": list(statements)}
    account.efs.put_file_system_policy(FileSystemId=file_system, Policy=json.dumps(document), **more)
