"""EFS access points: states, pages, and rejected directories."""

from __future__ import annotations

import pytest
from local_cloud.testing import wait_until

from ..conftest import Account, refused
from .conftest import ALL, ALLOW, MOUNTED, access, put


def test_life_of_an_access_point(account: Account, file_system: str) -> None:
    efs = account.efs
    creation = {"OwnerUid": 1000, "OwnerGid": 1000, "Permissions": "0755"}
    place = {"Path": "/teams/bert", "CreationInfo": creation}
    tags = [{"Key": "Name", "Value": "bert"}]
    made = efs.create_access_point(FileSystemId=file_system, ClientToken="once", RootDirectory=place, Tags=tags)
    assert (made["LifeCycleState"], made["RootDirectory"], made["Tags"]) == ("creating", place, tags)
    identifier = made["AccessPointId"]
    again = refused(lambda: efs.create_access_point(FileSystemId=file_system, ClientToken="once"), "AccessPointAlreadyExists")
    assert again["AccessPointId"] == identifier
    assert access(file_system)["access_points"] == {}

    def states() -> list[str]:
        return [each["LifeCycleState"] for each in efs.describe_access_points(FileSystemId=file_system)["AccessPoints"]]

    wait_until(lambda: states() == ["available"])
    assert access(file_system)["access_points"] == {identifier: {"path": "/teams/bert", "creation": creation, "allowed": ALL}}
    through = {"StringEquals": {"elasticfilesystem:AccessPointArn": made["AccessPointArn"]}}
    put(account, file_system, {**ALLOW, "Condition": MOUNTED | through})
    found = access(file_system)
    assert (found["plain"], found["tls"], found["access_points"][identifier]["allowed"]) == ([], [], ALL)
    efs.delete_access_point(AccessPointId=identifier)
    assert states() == ["deleting"]
    assert access(file_system)["access_points"] == {}
    wait_until(lambda: states() == [])
    refused(lambda: efs.delete_access_point(AccessPointId=identifier), "AccessPointNotFound")
    refused(lambda: efs.describe_access_points(AccessPointId=identifier), "AccessPointNotFound")


def test_many_access_points_come_in_pages(account: Account, file_system: str) -> None:
    for _number in range(3):
        account.efs.create_access_point(FileSystemId=file_system)
    first = account.efs.describe_access_points(FileSystemId=file_system, MaxResults=2)
    rest = account.efs.describe_access_points(FileSystemId=file_system, NextToken=first["NextToken"])
    assert [len(first["AccessPoints"]), len(rest["AccessPoints"])] == [2, 1]
    assert "NextToken" not in rest


@pytest.mark.parametrize("path", ["relative", "/a/b/c/d/e", "/a b?", "/./a", "/" + "a" * 100])
def test_directories_that_are_refused(account: Account, file_system: str, path: str) -> None:
    refused(lambda: account.efs.create_access_point(FileSystemId=file_system, RootDirectory={"Path": path}), "ValidationException")
